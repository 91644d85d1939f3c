//! `instructions` and `input`: items put together to the messages that are rendered.
//!
//! What an assistant did in one turn comes as several items: its reasoning, what it said, its calls. They
//! are one message, as they were when they were generated, so that a conversation goes on from its state.

use deltafin_text::chat::{Content, Message, ToolCall};
use serde_json::{Value, json};

use super::super::conversation::Talk;
use super::super::fields::{Fields, shown, wrong_type};
use super::super::messages::{check_arguments, content};
use crate::http::ApiError;

/// The instructions, if there are any, and the conversation.
pub(super) fn messages(fields: &Fields<'_>) -> Result<Talk, ApiError> {
    let mut turns = Turns::default();
    let instructions = fields.string("instructions")?.filter(|text| !text.is_empty());
    turns.done.extend(instructions.map(Message::system));
    match fields.get("input") {
        Some(Value::String(text)) => turns.other(Message::user(text.as_str())),
        Some(Value::Array(items)) if !items.is_empty() => {
            for (at, value) in items.iter().enumerate() {
                item(&Fields::of(value, format!("input[{at}]"))?, &mut turns)?;
            }
        }
        None | Some(Value::Array(_)) => {
            let message = "input is missing: give a text or at least one item";
            return Err(ApiError::missing("input", message));
        }
        Some(other) => return Err(wrong_type("input", "a string or an array of items", other)),
    }
    Ok(turns.finish())
}

/// Messages, the last of which may be an assistant's that is still put together.
#[derive(Debug, Default)]
struct Turns {
    done: Vec<Message>,
    /// Where each result of a call names it.
    results: Vec<String>,
    open: Option<Message>,
}

impl Turns {
    /// The assistant's message, or a new one where this one has what cannot come before.
    fn assistant(&mut self, fits: impl FnOnce(&Message) -> bool) -> &mut Message {
        if !self.open.as_ref().is_some_and(fits) {
            self.done.extend(self.open.take());
        }
        self.open.get_or_insert_with(|| Message::assistant(Content::default()))
    }

    /// Anybody else's message.
    fn other(&mut self, message: Message) {
        self.done.extend(self.open.take());
        self.done.push(message);
    }

    fn finish(self) -> Talk {
        let Turns { mut done, results, open } = self;
        done.extend(open);
        Talk { messages: done, results }
    }
}

fn has_said_nothing(message: &Message) -> bool {
    message.content.0.is_empty() && message.tool_calls.is_empty()
}

fn item(fields: &Fields<'_>, turns: &mut Turns) -> Result<(), ApiError> {
    let kind = match fields.string("type")? {
        None if fields.get("role").is_some() => "message",
        None => return Err(fields.missing("type")),
        Some(kind) => kind,
    };
    match kind {
        "message" => message(fields, turns)?,
        "reasoning" => turns.assistant(has_said_nothing).reasoning_content += &reasoning(fields)?,
        "function_call" | "custom_tool_call" => {
            let call = call(fields, kind == "custom_tool_call")?;
            turns.assistant(|_| true).tool_calls.push(call);
        }
        "function_call_output" | "custom_tool_call_output" => {
            let id = fields.needed_string("call_id")?;
            turns.results.push(fields.path("call_id"));
            turns.other(Message::tool(id, content(fields, "output")?));
        }
        other => {
            let path = fields.path("type");
            let rule = "use message, reasoning, function_call or function_call_output";
            let message = format!("{path} is '{}': {rule}", shown(other));
            return Err(ApiError::content(&path, message));
        }
    }
    Ok(())
}

fn message(fields: &Fields<'_>, turns: &mut Turns) -> Result<(), ApiError> {
    let content = content(fields, "content")?;
    match fields.needed_string("role")? {
        "assistant" => turns.assistant(has_said_nothing).content = content,
        role @ ("user" | "system" | "developer") => turns.other(Message::new(role, content)),
        role => {
            let path = fields.path("role");
            let rule = "use user, assistant, system or developer";
            return Err(ApiError::value(&path, format!("{path} is '{}': {rule}", shown(role))));
        }
    }
    Ok(())
}

/// The reasoning itself, or what was told of it.
fn reasoning(fields: &Fields<'_>) -> Result<String, ApiError> {
    let texts = |name| -> Result<String, ApiError> {
        let parts = fields.array(name)?.unwrap_or_default();
        Ok(parts.iter().filter_map(|part| part.get("text")?.as_str()).collect())
    };
    let whole = texts("content")?;
    if whole.is_empty() { texts("summary") } else { Ok(whole) }
}

fn call(fields: &Fields<'_>, is_custom: bool) -> Result<ToolCall, ApiError> {
    let path = fields.path("name");
    let name = fields.needed_string("name")?;
    if name.is_empty() {
        return Err(ApiError::value(&path, format!("{path} is empty: name the tool")));
    }
    let arguments = if is_custom {
        json!({ "input": fields.needed_string("input")? })
    } else {
        json!(fields.string("arguments")?.unwrap_or_default())
    };
    check_arguments(&arguments, &fields.path("arguments"))?;
    let id = Some(fields.needed_string("call_id")?.to_owned());
    Ok(ToolCall { id, name: name.to_owned(), arguments })
}
