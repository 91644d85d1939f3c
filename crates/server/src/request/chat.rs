//! A chat request: read, checked, and ready to be rendered.

use super::common::{
    ALTERNATIVES_MAX, Chance, ignored, refuse_unsupported, sampling, stops, streaming, token_limit,
};
use super::conversation::{Chat, Conversation, Format, Tools};
use super::effort::Thinking;
use super::fields::Fields;
use super::tools::{self, Names};
use super::{Options, messages};
use crate::http::ApiError;

/// Members that mean something, or are checked. All others are named as ignored.
const KNOWN: &[&str] = &[
    "model",
    "messages",
    "max_completion_tokens",
    "max_tokens",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "repetition_penalty",
    "n",
    "best_of",
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
pub(crate) fn read(fields: &Fields<'_>, by_chance: Chance<'_>) -> Result<Chat, ApiError> {
    refuse_unsupported(fields)?;
    let sampling = sampling(fields, by_chance)?;
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
        ignored: ignored(fields, KNOWN),
        mapped_effort: None,
    };
    Ok(conversation(fields)?.ask(stops(fields, "stop")?, parallel, options))
}

/// Reads what is rendered.
pub(crate) fn conversation(fields: &Fields<'_>) -> Result<Conversation, ApiError> {
    let thinking = Thinking::read(fields)?;
    let mut names = Names::default();
    let rendered = names.declare(fields.array("tools")?.unwrap_or_default(), "tools")?;
    let messages = messages::read(fields, &mut names)?;
    let choice = tools::choice(fields, &names)?;
    let format = Format {
        wanted: tools::response_format(fields)?,
        schema_path: "response_format.json_schema.schema",
    };
    Ok(Conversation::new(messages, Tools { rendered, names, choice }, format, thinking))
}

/// How many alternatives are told beside each token, if any are.
fn logprobs(fields: &Fields<'_>) -> Result<Option<usize>, ApiError> {
    let top = fields.integer("top_logprobs")?;
    let top = usize::try_from(top.unwrap_or(0)).ok().filter(|top| *top <= ALTERNATIVES_MAX);
    let top = top.ok_or_else(|| {
        let message = format!("top_logprobs must be between 0 and {ALTERNATIVES_MAX}");
        ApiError::value("top_logprobs", message)
    })?;
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
