//! `system` and `messages`: turns of blocks into the messages that are rendered.

use deltafin_text::chat::{Content, Message, Part, ToolCall};
use serde_json::Value;

use super::super::conversation::Talk;
use super::super::fields::{Fields, shown, wrong_type};
use super::super::messages::given;
use crate::http::ApiError;

/// How an agent begins its instructions with an account of the request itself. It differs each time, means
/// nothing to the model, and would leave nothing of the last turn's state to go on with.
const ACCOUNT: &str = "x-anthropic-billing-header:";

/// A part of a turn.
enum Block {
    Text(String),
    Thinking(String),
    Call(ToolCall),
    /// What a call gave, and where it names the call.
    Result(Message, String),
    /// Sealed: nothing that could be read here.
    Sealed,
}

impl Block {
    fn kind(&self) -> &'static str {
        match self {
            Block::Text(_) => "text",
            Block::Thinking(_) => "thinking",
            Block::Call(_) => "tool_use",
            Block::Result(..) => "tool_result",
            Block::Sealed => "redacted_thinking",
        }
    }
}

/// The instructions, if there are any, and all turns.
pub(super) fn messages(fields: &Fields<'_>) -> Result<Talk, ApiError> {
    let mut out = Talk::default();
    out.messages.extend(instructions(fields, "system")?);
    for (at, value) in given(fields)?.iter().enumerate() {
        turn(&Fields::of(value, format!("messages[{at}]"))?, &mut out)?;
    }
    Ok(out)
}

fn instructions(fields: &Fields<'_>, name: &str) -> Result<Option<Message>, ApiError> {
    let text = text(fields, name)?.into_iter().map(|text| match text.strip_prefix(ACCOUNT) {
        Some(account) => account.split_once('\n').map_or("", |(_, rest)| rest).to_owned(),
        None => text,
    });
    let parts: Vec<Part> = text.filter(|text| !text.is_empty()).map(Part::Text).collect();
    Ok((!parts.is_empty()).then(|| Message::system(Content(parts))))
}

fn turn(fields: &Fields<'_>, out: &mut Talk) -> Result<(), ApiError> {
    match fields.needed_string("role")? {
        "user" => user(fields, out),
        "assistant" => {
            out.messages.push(assistant(fields)?);
            Ok(())
        }
        "system" => {
            out.messages.extend(instructions(fields, "content")?);
            Ok(())
        }
        role => {
            let path = fields.path("role");
            let message = format!("{path} is '{}': use user, assistant or system", shown(role));
            Err(ApiError::value(&path, message))
        }
    }
}

/// Results of calls are messages of their own.
fn user(fields: &Fields<'_>, out: &mut Talk) -> Result<(), ApiError> {
    let blocks = blocks(fields, "content")?;
    let is_empty = blocks.is_empty();
    let mut said = Vec::new();
    for (at, block) in blocks.into_iter().enumerate() {
        match block {
            Block::Text(text) => said.push(Part::Text(text)),
            Block::Result(result, path) => {
                if !said.is_empty() {
                    out.messages.push(Message::user(Content(std::mem::take(&mut said))));
                }
                out.messages.push(result);
                out.results.push(path);
            }
            other => {
                let rule = "a user's message has text and tool_result";
                return Err(misplaced(fields, at, &other, rule));
            }
        }
    }
    if !said.is_empty() || is_empty {
        out.messages.push(Message::user(Content(said)));
    }
    Ok(())
}

fn assistant(fields: &Fields<'_>) -> Result<Message, ApiError> {
    let mut message = Message::assistant(Content::default());
    for (at, block) in blocks(fields, "content")?.into_iter().enumerate() {
        match block {
            Block::Text(text) => message.content.0.push(Part::Text(text)),
            Block::Thinking(text) => message.reasoning_content += &text,
            Block::Call(call) => message.tool_calls.push(call),
            Block::Sealed => {}
            Block::Result(..) => {
                let rule = "it stands in a user's message";
                return Err(misplaced(fields, at, &block, rule));
            }
        }
    }
    Ok(message)
}

fn misplaced(fields: &Fields<'_>, at: usize, block: &Block, rule: &str) -> ApiError {
    let path = fields.path("content");
    ApiError::value(&path, format!("{path}[{at}].type is '{}': {rule}", block.kind()))
}

/// A string, or blocks; nothing where the member is missing.
fn blocks(fields: &Fields<'_>, name: &str) -> Result<Vec<Block>, ApiError> {
    let path = fields.path(name);
    match fields.get(name) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![Block::Text(text.clone())]),
        Some(Value::Array(blocks)) => {
            let read =
                |(at, value): (usize, &Value)| block(&Fields::of(value, format!("{path}[{at}]"))?);
            blocks.iter().enumerate().map(read).collect()
        }
        Some(other) => Err(wrong_type(&path, "a string or an array of blocks", other)),
    }
}

/// Where nothing but text may stand.
fn text(fields: &Fields<'_>, name: &str) -> Result<Vec<String>, ApiError> {
    let read = |block| match block {
        Block::Text(text) => Ok(text),
        other => {
            let (path, kind) = (fields.path(name), other.kind());
            Err(ApiError::content(&path, format!("{path} takes text blocks only, not '{kind}'")))
        }
    };
    blocks(fields, name)?.into_iter().map(read).collect()
}

fn block(fields: &Fields<'_>) -> Result<Block, ApiError> {
    Ok(match fields.needed_string("type")? {
        "text" => Block::Text(fields.needed_string("text")?.to_owned()),
        "thinking" => Block::Thinking(fields.needed_string("thinking")?.to_owned()),
        "redacted_thinking" => Block::Sealed,
        "tool_use" => Block::Call(call(fields)?),
        "tool_result" => Block::Result(result(fields)?, fields.path("tool_use_id")),
        kind => {
            let path = fields.path("type");
            let kinds =
                "use text, thinking, tool_use or tool_result, for this model reads text only";
            let message = format!("{path} is '{}': {kinds}", shown(kind));
            return Err(ApiError::content(&path, message));
        }
    })
}

fn call(fields: &Fields<'_>) -> Result<ToolCall, ApiError> {
    let path = fields.path("name");
    let name = fields.needed_string("name")?;
    if name.is_empty() {
        return Err(ApiError::value(&path, format!("{path} is empty: name the tool")));
    }
    fields.object("input")?;
    let arguments = fields.get("input").cloned().unwrap_or_default();
    let id = Some(fields.needed_string("id")?.to_owned());
    Ok(ToolCall { id, name: name.to_owned(), arguments })
}

fn result(fields: &Fields<'_>) -> Result<Message, ApiError> {
    let id = fields.needed_string("tool_use_id")?;
    let failed = fields.boolean("is_error")?.unwrap_or(false);
    let mut texts = text(fields, "content")?;
    if failed {
        match texts.first_mut() {
            Some(first) => first.insert_str(0, "Error: "),
            None => texts.push("Error".to_owned()),
        }
    }
    Ok(Message::tool(id, Content(texts.into_iter().map(Part::Text).collect())))
}
