//! A request to `/responses`, read as the chat that it means.
//!
//! Promise: nothing is kept from one request to the next, and what would need that is refused; the
//! items of a conversation get the prompt that its messages have in a chat.

mod items;
mod tools;

use deltafin_text::Effort;
use serde_json::{Map, Value, json};

use super::common::{
    Policy, alternatives, ignored, refuse, sampling, stops, streaming, token_limit,
};
use super::conversation::{Chat, Conversation, Format, Tools};
use super::effort::{self, Thinking};
use super::fields::Fields;
use super::tools::Names;
use super::{Options, tools as chat_tools};
use crate::http::ApiError;

/// Members that mean something, or are checked, besides those that every dialect has.
const KNOWN: &[&str] = &[
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "max_output_tokens",
    "text",
    "stream_options",
    "stop",
    "previous_response_id",
    "conversation",
    "background",
    "prompt",
    "top_logprobs",
    "include",
];

/// A chat, and what its response repeats.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) chat: Chat,
    /// Members of the response.
    pub(crate) repeated: Map<String, Value>,
    /// Tools that take free text.
    pub(crate) custom: Vec<String>,
}

/// Reads everything but the model's name.
pub(crate) fn read(fields: &Fields<'_>, policy: Policy<'_>) -> Result<Asked, ApiError> {
    refuse_unsupported(fields)?;
    let sampling = sampling(fields, policy)?;
    let (stream, _) = streaming(fields)?;
    let max_new = token_limit(fields, "max_output_tokens")?;
    let parallel = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
    let mut names = Names::default();
    let declared = tools::declare(fields, &mut names)?;
    let (logprobs, also_ignored) = logprobs(fields)?;
    let unused = [ignored(fields, KNOWN, policy)?, also_ignored, declared.ignored].concat();
    let choice = tools::choice(fields, &names)?;
    let conversation = Conversation::new(
        items::messages(fields)?,
        Tools { rendered: declared.rendered, names, choice },
        format(fields)?,
        thinking(fields, policy.settings.default_effort)?,
    );
    let options = Options {
        stream,
        include_usage: true,
        max_new,
        sampling,
        logprobs,
        reasoning_limit: None,
        ignored: unused,
        mapped_effort: None,
    };
    let chat = conversation.ask(stops(fields, "stop")?, parallel, options);
    Ok(Asked { chat, repeated: repeated(fields), custom: declared.custom })
}

/// How many alternatives are told beside each token of the answer, if its probabilities are asked for by either
/// of two members; and what else `include` asks for, by its place.
fn logprobs(fields: &Fields<'_>) -> Result<(Option<usize>, Vec<String>), ApiError> {
    let top = alternatives(fields, "top_logprobs")?;
    let wanted = fields.array("include")?.unwrap_or_default();
    let is_logprobs = |one: &Value| one.as_str() == Some("message.output_text.logprobs");
    let others = wanted.iter().enumerate().filter(|(_, one)| !is_logprobs(one));
    let others = others.map(|(at, _)| format!("include[{at}]")).collect();
    let is_included = wanted.iter().any(is_logprobs);
    Ok((top.or(is_included.then_some(0)), others))
}

fn refuse_unsupported(fields: &Fields<'_>) -> Result<(), ApiError> {
    refuse(
        fields,
        &[
            (
                "previous_response_id",
                "no response is kept here: send the whole conversation as input",
            ),
            ("conversation", "no conversation is kept here: send all of it as input"),
            ("prompt", "no prompt is kept here: send its text as instructions"),
        ],
    )?;
    if fields.boolean("background")?.unwrap_or(false) {
        let message = "background is not supported: send false, and true for stream";
        return Err(ApiError::unsupported("background", message));
    }
    Ok(())
}

fn thinking(fields: &Fields<'_>, usual: Option<Effort>) -> Result<Thinking, ApiError> {
    let reasoning = fields.object("reasoning")?;
    let asked = reasoning.map(|reasoning| effort::graded(&reasoning, "effort")).transpose()?;
    Ok(asked.flatten().unwrap_or(Thinking { effort: usual, mapped: false }))
}

/// `text.format`, as chats say it.
fn format(fields: &Fields<'_>) -> Result<Format, ApiError> {
    let schema_path = "text.format.schema";
    let format = fields.object("text")?.map(|text| text.object("format")).transpose()?.flatten();
    let Some(format) = format else { return Ok(Format { wanted: None, schema_path }) };
    let wanted = match format.string("type")? {
        Some("text") => None,
        Some("json_object") => Some(json!({ "type": "json_object" })),
        Some("json_schema") => {
            chat_tools::check_schema(&format)?;
            let [name, schema] = ["name", "schema"].map(|name| format.get(name));
            let schema = json!({ "name": name, "schema": schema });
            Some(json!({ "type": "json_schema", "json_schema": schema }))
        }
        _ => {
            let message = "text.format.type must be text, json_object or json_schema";
            return Err(ApiError::value("text.format.type", message));
        }
    };
    Ok(Format { wanted, schema_path })
}

/// What was asked for, said again with the answer.
fn repeated(fields: &Fields<'_>) -> Map<String, Value> {
    let defaults = [
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", json!(true)),
        ("reasoning", json!({ "effort": null, "summary": null })),
        ("temperature", Value::Null),
        ("text", json!({ "format": { "type": "text" } })),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
        ("top_logprobs", json!(0)),
        ("top_p", Value::Null),
    ];
    let said = |(name, default): (&str, Value)| {
        (name.to_owned(), fields.get(name).cloned().unwrap_or(default))
    };
    defaults.into_iter().map(said).collect()
}
