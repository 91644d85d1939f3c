//! A chat request: read, checked, and ready to be rendered.

use deltafin_text::Effort;

use super::common::{
    Policy, alternatives, ignored, refuse_unsupported, sampling, stops, streaming, token_limit,
};
use super::conversation::{Chat, Conversation, Format, Tools};
use super::effort::Thinking;
use super::fields::Fields;
use super::tools::{self, Names};
use super::{Options, choice, messages};
use crate::http::ApiError;

/// Members that mean something, or are checked, besides those that every dialect has.
const KNOWN: &[&str] = &[
    "messages",
    "max_completion_tokens",
    "max_tokens",
    "stream_options",
    "stop",
    "reasoning_effort",
    "thinking",
    "reasoning",
    "chat_template_kwargs",
    "enable_thinking",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "logprobs",
    "top_logprobs",
    "modalities",
    "deltafin",
    "max_reasoning_tokens",
];

/// Reads everything but the model's name, which the caller knows.
pub(crate) fn read(fields: &Fields<'_>, policy: Policy<'_>) -> Result<Chat, ApiError> {
    refuse_unsupported(fields)?;
    let sampling = sampling(fields, policy)?;
    let (stream, include_usage) = streaming(fields)?;
    let max_new =
        token_limit(fields, "max_completion_tokens")?.or(token_limit(fields, "max_tokens")?);
    let parallel = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
    let options = Options {
        stream,
        include_usage,
        max_new,
        sampling,
        logprobs: logprobs(fields)?,
        reasoning_limit: reasoning_limit(fields)?,
        ignored: ignored(fields, KNOWN, policy)?,
        mapped_effort: None,
    };
    let conversation = conversation(fields, policy.settings.default_effort)?;
    Ok(conversation.ask(stops(fields, "stop")?, parallel, options))
}

/// Reads what is rendered. Thinks as `usual` where nothing is said about it.
pub(crate) fn conversation(
    fields: &Fields<'_>,
    usual: Option<Effort>,
) -> Result<Conversation, ApiError> {
    let thinking = Thinking::read(fields, usual)?;
    let mut names = Names::default();
    let rendered = names.declare(fields.array("tools")?.unwrap_or_default(), "tools")?;
    let messages = messages::read(fields, &mut names)?;
    let choice = choice::read(fields, &names)?;
    let format = Format {
        wanted: tools::response_format(fields)?,
        schema_path: "response_format.json_schema.schema",
    };
    Ok(Conversation::new(messages, Tools { rendered, names, choice }, format, thinking))
}

/// How many alternatives are told beside each token, if any are.
fn logprobs(fields: &Fields<'_>) -> Result<Option<usize>, ApiError> {
    let top = alternatives(fields, "top_logprobs")?.unwrap_or(0);
    match fields.boolean("logprobs")?.unwrap_or(false) {
        true => Ok(Some(top)),
        false if top > 0 => {
            Err(ApiError::value("top_logprobs", "top_logprobs needs logprobs: true"))
        }
        false => Ok(None),
    }
}

fn reasoning_limit(fields: &Fields<'_>) -> Result<Option<usize>, ApiError> {
    let name = "max_reasoning_tokens";
    let limit = fields.integer(name)?.map(usize::try_from).transpose();
    limit.map_err(|_| ApiError::value(name, format!("{name} must be at least 0")))
}
