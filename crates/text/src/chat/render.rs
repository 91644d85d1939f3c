//! The prompt, piece by piece.
//!
//! Every call below writes segments in the order in which the model reads them.

use serde_json::{Map, Value};

use super::results::{Placed, place};
use super::{
    ChatError, Content, IMAGE_PLACEHOLDER, ImageBlock, Message, Part, Request, Segment, ToolCall,
    tag, tools,
};
use crate::json;
use crate::reply::Marker;
use crate::tokenizer::is_python_space;

/// Renders a conversation into the prompt's segments.
///
/// # Errors
/// When the request has something that the format cannot express.
pub fn render(request: &Request) -> Result<Vec<Segment>, ChatError> {
    let mut out = Renderer::new(request);
    out.preamble()?;
    for placed in place(&request.messages)? {
        out.message(&placed)?;
    }
    out.closing()?;
    out.require_all_images_placed()?;
    Ok(out.segments)
}

struct Renderer<'a> {
    request: &'a Request,
    segments: Vec<Segment>,
    images: Option<&'a [ImageBlock]>,
    images_placed: usize,
}

impl<'a> Renderer<'a> {
    fn new(request: &'a Request) -> Self {
        let images = request.image_prompts.as_deref();
        Self { request, segments: Vec::new(), images, images_placed: 0 }
    }

    fn preamble(&mut self) -> Result<(), ChatError> {
        let request = self.request;
        if !request.tools.is_empty() {
            self.system("tool-declare", tools::declaration(&request.tools));
        }
        if let Some(effort) = request.thinking_effort.as_ref().filter(|_| request.thinking) {
            self.system("thinking-effort", tools::effort(effort.parse()?));
        }
        Ok(())
    }

    fn message(&mut self, placed: &Placed<'a>) -> Result<(), ChatError> {
        let message = placed.message;
        match message.role.as_str() {
            "system" | "developer" if !message.tools.is_empty() => {
                self.system("tool-declare", tools::dynamic_declaration(&message.tools));
                Ok(())
            }
            "system" | "developer" => self.spoken("system", message),
            "user" => self.spoken("user", message),
            "assistant" => self.assistant(placed.index, message),
            "tool" => self.tool_result(placed),
            role => Err(ChatError::Role { index: placed.index, role: crate::one_line(role) }),
        }
    }

    fn closing(&mut self) -> Result<(), ChatError> {
        let request = self.request;
        if let Some(body) = tools::choice(request.tool_choice) {
            self.system("tool-choice", body.to_owned());
        }
        let format = request.response_format.as_ref().map(tools::response_format).transpose()?;
        if let Some(body) = format.flatten() {
            self.system("response-format", body);
        }
        if request.add_generation_prompt {
            self.open("message", &[("role", "assistant")]);
            self.open(if request.thinking { "think" } else { "response" }, &[]);
        }
        Ok(())
    }

    /// A system message that this program writes.
    fn system(&mut self, kind: &str, body: String) {
        self.open("message", &[("role", "system"), ("type", kind)]);
        self.plain(body);
        self.end_message();
    }

    fn spoken(&mut self, role: &str, message: &Message) -> Result<(), ChatError> {
        self.open_message(role, &message.name);
        self.content(&message.content)?;
        self.end_message();
        Ok(())
    }

    fn assistant(&mut self, index: usize, message: &Message) -> Result<(), ChatError> {
        self.open_message("assistant", &message.name);
        if self.request.thinking {
            self.open("think", &[]);
            self.reasoning(message)?;
            self.close("think");
        }
        self.open("response", &[]);
        self.content(&message.content)?;
        self.close("response");
        if !message.tool_calls.is_empty() {
            self.open("tools", &[]);
            for (at, call) in message.tool_calls.iter().enumerate() {
                self.call(index, at, call)?;
            }
            self.close("tools");
        }
        self.end_message();
        Ok(())
    }

    fn reasoning(&mut self, message: &Message) -> Result<(), ChatError> {
        let given = [&message.reasoning_content, &message.reasoning];
        match given.into_iter().find(|text| !text.is_empty()) {
            Some(text) if !is_blank(text) => self.text(text),
            _ => Ok(()),
        }
    }

    fn call(&mut self, index: usize, at: usize, call: &ToolCall) -> Result<(), ChatError> {
        if call.name.is_empty() {
            return Err(ChatError::CallName { index, call: at });
        }
        self.open("call", &[("tool", &call.name), ("index", &(at + 1).to_string())]);
        match read_arguments(&call.arguments) {
            Arguments::None => {}
            Arguments::Members(members) => self.arguments(&members)?,
            Arguments::Broken(raw) => {
                self.open("json", &[("type", "object")]);
                self.text(raw)?;
                self.close("json");
            }
            Arguments::NotAnObject => return Err(ChatError::CallArguments { index, call: at }),
        }
        self.close("call");
        Ok(())
    }

    fn arguments(&mut self, members: &Map<String, Value>) -> Result<(), ChatError> {
        for (key, value) in members {
            self.open("argument", &[("key", key), ("type", type_name(value))]);
            match value {
                Value::String(raw) => self.text(raw)?,
                other => self.text(&json::spaced(other))?,
            }
            self.close("argument");
        }
        Ok(())
    }

    fn tool_result(&mut self, placed: &Placed<'a>) -> Result<(), ChatError> {
        let count = placed.tool_index.to_string();
        self.open("message", &[("role", "tool"), ("tool", placed.tool), ("index", &count)]);
        self.content(&placed.message.content)?;
        self.end_message();
        Ok(())
    }

    fn content(&mut self, content: &Content) -> Result<(), ChatError> {
        content.0.iter().try_for_each(|part| match part {
            Part::Text(text) => self.text(text),
            Part::Image => self.image(),
        })
    }

    /// Text in which placeholders stand for images when there is image support.
    fn text(&mut self, text: &str) -> Result<(), ChatError> {
        if self.images.is_none() {
            self.plain(text.to_owned());
            return Ok(());
        }
        for (at, between) in text.split(IMAGE_PLACEHOLDER).enumerate() {
            if at > 0 {
                self.image()?;
            }
            self.plain(between.to_owned());
        }
        Ok(())
    }

    fn image(&mut self) -> Result<(), ChatError> {
        let Some(blocks) = self.images else {
            // Markup, as it is our own literal, yet no token of the release has this name.
            self.segments.push(Segment::markup(IMAGE_PLACEHOLDER));
            return Ok(());
        };
        let given = blocks.len();
        let block = *blocks.get(self.images_placed).ok_or(ChatError::TooFewImages { given })?;
        self.images_placed += 1;
        self.segments.push(Segment::image(block));
        Ok(())
    }

    fn require_all_images_placed(&self) -> Result<(), ChatError> {
        let (given, placed) = (self.images.map_or(0, <[_]>::len), self.images_placed);
        if placed < given {
            return Err(ChatError::TooManyImages { given, placed });
        }
        Ok(())
    }

    fn open_message(&mut self, role: &str, name: &str) {
        let attributes = [("role", role), ("name", name)];
        self.open("message", if name.is_empty() { &attributes[..1] } else { &attributes });
    }

    fn end_message(&mut self) {
        self.close("message");
        self.segments.push(tag::marker(Marker::End));
    }

    fn open(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) {
        self.segments.extend(tag::opening(tag, attributes));
    }

    fn close(&mut self, tag: &'static str) {
        self.segments.extend(tag::closing(tag));
    }

    fn plain(&mut self, text: String) {
        if !text.is_empty() {
            self.segments.push(Segment::plain(text));
        }
    }
}

enum Arguments<'a> {
    None,
    Members(Map<String, Value>),
    Broken(&'a str),
    NotAnObject,
}

fn read_arguments(given: &Value) -> Arguments<'_> {
    match given {
        Value::Null => Arguments::None,
        Value::Object(members) => Arguments::Members(members.clone()),
        Value::String(text) if is_blank(text) => Arguments::None,
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Arguments::Members(members),
            Ok(_) => Arguments::NotAnObject,
            Err(_) => Arguments::Broken(text),
        },
        _ => Arguments::NotAnObject,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_blank(text: &str) -> bool {
    text.chars().all(is_python_space)
}
