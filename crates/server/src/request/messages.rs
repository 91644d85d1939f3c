//! `messages`: each checked and put into the form that is rendered.

use deltafin_text::chat::{Content, Message, Part, ToolCall};
use serde_json::Value;

use super::conversation::Talk;
use super::fields::{Fields, shown, wrong_type};
use super::tools::Names;
use crate::http::ApiError;

/// All messages. Tools that they declare join `names`.
pub(crate) fn read(fields: &Fields<'_>, names: &mut Names) -> Result<Talk, ApiError> {
    let mut talk = Talk::default();
    for (at, value) in given(fields)?.iter().enumerate() {
        let fields = Fields::of(value, format!("messages[{at}]"))?;
        let message = message(&fields, names)?;
        talk.results.extend((message.role == "tool").then(|| fields.path("tool_call_id")));
        talk.messages.push(message);
    }
    Ok(talk)
}

/// At least one message, unread.
pub(super) fn given<'a>(fields: &Fields<'a>) -> Result<&'a [Value], ApiError> {
    let given = fields.array("messages")?.filter(|messages| !messages.is_empty());
    given.ok_or_else(|| ApiError::missing("messages", "messages must have at least one message"))
}

fn message(fields: &Fields<'_>, names: &mut Names) -> Result<Message, ApiError> {
    let role = fields.needed_string("role")?;
    if !["system", "developer", "user", "assistant", "tool"].contains(&role) {
        let path = fields.path("role");
        let roles = "use system, developer, user, assistant or tool";
        return Err(ApiError::value(&path, format!("{path} is '{}': {roles}", shown(role))));
    }
    let mut message = Message::new(role, content(fields, "content")?);
    message.name = fields.string("name")?.unwrap_or_default().to_owned();
    declare(fields, role, &mut message, names)?;
    match role {
        "assistant" => assistant(fields, &mut message)?,
        "tool" => answer(fields, &mut message)?,
        _ => {}
    }
    Ok(message)
}

/// A system message may declare tools from here on.
fn declare(
    fields: &Fields<'_>,
    role: &str,
    message: &mut Message,
    names: &mut Names,
) -> Result<(), ApiError> {
    let path = fields.path("tools");
    let Some(tools) = fields.array("tools")?.filter(|tools| !tools.is_empty()) else {
        return Ok(());
    };
    if !matches!(role, "system" | "developer") {
        return Err(ApiError::value(
            &path,
            format!("{path}: only a system message declares tools"),
        ));
    }
    if message.content.0.iter().any(|part| *part != Part::Text(String::new())) {
        let text = "a system message has content or tools, not both: send two messages";
        return Err(ApiError::value(&path, format!("{path}: {text}")));
    }
    message.tools = names.declare(tools, &path)?;
    Ok(())
}

fn assistant(fields: &Fields<'_>, message: &mut Message) -> Result<(), ApiError> {
    if fields.boolean("partial")?.unwrap_or(false) {
        let path = fields.path("partial");
        let text = format!("{path} is not supported: the reply is always a new message");
        return Err(ApiError::unsupported(&path, text));
    }
    let given = [fields.string("reasoning_content")?, fields.string("reasoning")?];
    let spoken = given.into_iter().flatten().find(|text| !text.is_empty());
    message.reasoning_content = match spoken {
        Some(text) => text.to_owned(),
        None => details(fields)?,
    };
    let calls = fields.array("tool_calls")?.unwrap_or_default();
    let read = |(at, value): (usize, &Value)| {
        call(&Fields::of(value, format!("{}[{at}]", fields.path("tool_calls")))?)
    };
    message.tool_calls = calls.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    Ok(())
}

/// Some gateways cut reasoning into pieces.
fn details(fields: &Fields<'_>) -> Result<String, ApiError> {
    let pieces = fields.array("reasoning_details")?.unwrap_or_default();
    Ok(pieces.iter().filter_map(|piece| piece.get("text")?.as_str()).collect())
}

fn call(fields: &Fields<'_>) -> Result<ToolCall, ApiError> {
    if let Some(kind) = fields.string("type")?.filter(|kind| *kind != "function") {
        let path = fields.path("type");
        return Err(ApiError::value(&path, format!("{path} is '{}': use function", shown(kind))));
    }
    let function = fields.needed_object("function")?;
    let name = function.string("name")?.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| function.missing("name"))?;
    let arguments = function.get("arguments").cloned().unwrap_or_default();
    check_arguments(&arguments, &function.path("arguments"))?;
    let id = fields.string("id")?.map(str::to_owned);
    Ok(ToolCall { id, name: name.to_owned(), arguments })
}

/// Broken JSON is rendered as it is, for models do write it; JSON that is no object cannot be.
pub(super) fn check_arguments(arguments: &Value, path: &str) -> Result<(), ApiError> {
    let parsed = match arguments {
        Value::String(text) if text.trim().is_empty() => return Ok(()),
        Value::String(text) => serde_json::from_str(text).ok(),
        other => Some(other.clone()),
    };
    match parsed {
        None | Some(Value::Null | Value::Object(_)) if !arguments.is_string() => Ok(()),
        None | Some(Value::Object(_)) => Ok(()),
        Some(other) => Err(wrong_type(path, "a JSON object", &other)),
    }
}

fn answer(fields: &Fields<'_>, message: &mut Message) -> Result<(), ApiError> {
    let path = fields.path("tool_call_id");
    let id = fields
        .string("tool_call_id")?
        .ok_or_else(|| ApiError::missing(&path, format!("{path} is missing: name the call")))?;
    message.tool_call_id = Some(id.to_owned());
    Ok(())
}

/// A string, or parts of text, under this name.
pub(super) fn content(fields: &Fields<'_>, name: &str) -> Result<Content, ApiError> {
    let path = fields.path(name);
    match fields.get(name) {
        None => Ok(Content::default()),
        Some(Value::String(text)) => Ok(Content::from(text.as_str())),
        Some(Value::Array(parts)) => {
            let read =
                |(at, value): (usize, &Value)| part(&Fields::of(value, format!("{path}[{at}]"))?);
            parts.iter().enumerate().map(read).collect::<Result<_, _>>().map(Content)
        }
        Some(other) => Err(wrong_type(&path, "a string or an array of parts", other)),
    }
}

fn part(fields: &Fields<'_>) -> Result<Part, ApiError> {
    let path = fields.path("type");
    let member = match fields.string("type")? {
        Some("text" | "input_text" | "output_text") => "text",
        Some("refusal") => "refusal",
        Some(kind) => {
            let message = format!("{path} is '{}': this model reads text only", shown(kind));
            return Err(ApiError::content(&path, message));
        }
        None => return Err(fields.missing("type")),
    };
    Ok(Part::Text(fields.needed_string(member)?.to_owned()))
}
