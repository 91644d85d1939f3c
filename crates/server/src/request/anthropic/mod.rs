//! A request of Anthropic's Messages, read as the chat that it means.
//!
//! Promises: the same conversation gets the same prompt as in a chat; what cannot be honoured is refused by
//! name; what Anthropic's own clients send and cannot change the answer is ignored.

mod blocks;
mod tools;

use serde_json::json;

use super::Options;
use super::common::{Policy, ignored, refuse, sampling, stops, token_limit};
use super::conversation::{Chat, Conversation, Format, Tools};
use super::effort::{self, Thinking};
use super::fields::{Fields, shown};
use super::tools::Names;
use crate::http::ApiError;

/// Members that mean something, or are checked, besides those that every dialect has.
const KNOWN: &[&str] = &[
    "messages",
    "system",
    "max_tokens",
    "stop_sequences",
    "thinking",
    "output_config",
    "tools",
    "tool_choice",
];

/// Reads a request for a message.
pub(crate) fn read(fields: &Fields<'_>, policy: Policy<'_>) -> Result<Chat, ApiError> {
    refuse_unsupported(fields)?;
    let sampling = sampling(fields, policy)?;
    let max_new = token_limit(fields, "max_tokens")?
        .ok_or_else(|| ApiError::missing("max_tokens", "max_tokens is missing: give a limit"))?;
    let options = Options {
        stream: fields.boolean("stream")?.unwrap_or(false),
        include_usage: true,
        max_new: Some(max_new),
        sampling,
        logprobs: None,
        reasoning_limit: None,
        ignored: ignored(fields, KNOWN, policy)?,
        mapped_effort: None,
    };
    let conversation = conversation(fields)?;
    let last = conversation.request.messages.last();
    if last.is_some_and(|message| message.role == "assistant") {
        let message = "the last message is the assistant's, and its beginning cannot be given: end with a user message";
        return Err(ApiError::unsupported("messages", message));
    }
    let parallel = tools::is_parallel(fields)?;
    Ok(conversation.ask(stops(fields, "stop_sequences")?, parallel, options))
}

/// Reads what is rendered, which is all that counting needs.
pub(crate) fn conversation(fields: &Fields<'_>) -> Result<Conversation, ApiError> {
    let mut names = Names::default();
    let rendered = tools::declare(fields, &mut names)?;
    let choice = tools::choice(fields, &names)?;
    let messages = blocks::messages(fields)?;
    let tools = Tools { rendered, names, choice };
    Ok(Conversation::new(messages, tools, format(fields)?, thinking(fields)?))
}

fn refuse_unsupported(fields: &Fields<'_>) -> Result<(), ApiError> {
    refuse(fields, &[("output_format", "use output_config.format")])?;
    if fields.array("mcp_servers")?.is_some_and(|servers| !servers.is_empty()) {
        let message = "mcp_servers is not supported: no server is called from here, use tools";
        return Err(ApiError::unsupported("mcp_servers", message));
    }
    Ok(())
}

/// Without a word there is none, as clients expect that do not know of it.
fn thinking(fields: &Fields<'_>) -> Result<Thinking, ApiError> {
    let asked = fields.object("output_config")?;
    let asked = asked.map(|output| effort::graded(&output, "effort")).transpose()?.flatten();
    let off = Thinking { effort: None, mapped: false };
    let on = Thinking { effort: Some(Default::default()), mapped: false };
    let Some(thinking) = fields.object("thinking")? else { return Ok(asked.unwrap_or(off)) };
    match thinking.string("type")? {
        Some("disabled") => Ok(off),
        Some("enabled" | "adaptive") => Ok(asked.unwrap_or(on)),
        other => {
            let given = shown(other.unwrap_or_default());
            let message = format!("thinking.type is '{given}': use enabled, adaptive or disabled");
            Err(ApiError::value("thinking.type", message))
        }
    }
}

/// The answer's form, as chats say it.
fn format(fields: &Fields<'_>) -> Result<Format, ApiError> {
    const SCHEMA: &str = "output_config.format.schema";
    let format = fields.object("output_config")?.map(|output| output.object("format"));
    let Some(format) = format.transpose()?.flatten() else {
        return Ok(Format { wanted: None, schema_path: SCHEMA });
    };
    if format.string("type")? != Some("json_schema") {
        let message = "output_config.format.type must be json_schema";
        return Err(ApiError::value("output_config.format.type", message));
    }
    format.needed_object("schema")?;
    let schema = json!({ "name": "reply", "schema": format.get("schema") });
    let wanted = json!({ "type": "json_schema", "json_schema": schema });
    Ok(Format { wanted: Some(wanted), schema_path: SCHEMA })
}
