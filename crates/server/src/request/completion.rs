//! A completion request: a text to go on with.

use serde_json::Value;

use super::Options;
use super::common::{
    Policy, alternatives, ignored, refuse, refuse_unsupported, sampling, stops, streaming,
    token_limit,
};
use super::fields::{Fields, wrong_type};
use crate::http::ApiError;

/// What the interface says when nothing is said.
const DEFAULT_MAX_NEW: usize = 16;

/// Members that mean something, or are checked, besides those that every dialect has.
const KNOWN: &[&str] =
    &["prompt", "max_tokens", "stream_options", "stop", "echo", "suffix", "logprobs", "deltafin"];

/// What a completion asks for.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) prompt: String,
    pub(crate) stop: Vec<String>,
    pub(crate) options: Options,
}

/// Reads everything but the model's name.
pub(crate) fn read(fields: &Fields<'_>, policy: Policy<'_>) -> Result<Completion, ApiError> {
    refuse_unsupported(fields)?;
    let sampling = sampling(fields, policy)?;
    if fields.boolean("echo")?.unwrap_or(false) {
        return Err(ApiError::unsupported("echo", "echo is not supported: send false"));
    }
    refuse(fields, &[("suffix", "leave it out")])?;
    let (stream, include_usage) = streaming(fields)?;
    let options = Options {
        stream,
        include_usage,
        max_new: Some(token_limit(fields, "max_tokens")?.unwrap_or(DEFAULT_MAX_NEW)),
        sampling,
        logprobs: alternatives(fields, "logprobs")?,
        reasoning_limit: None,
        ignored: ignored(fields, KNOWN, policy)?,
        mapped_effort: None,
    };
    Ok(Completion { prompt: prompt(fields)?, stop: stops(fields, "stop")?, options })
}

fn prompt(fields: &Fields<'_>) -> Result<String, ApiError> {
    let text = match fields.get("prompt") {
        None => return Err(fields.missing("prompt")),
        Some(Value::String(text)) => text,
        Some(Value::Array(items)) => match items.as_slice() {
            [Value::String(text)] => text,
            _ => {
                let message = "prompt must be one string, or an array of exactly one";
                return Err(ApiError::value("prompt", message));
            }
        },
        Some(other) => return Err(wrong_type("prompt", "a string", other)),
    };
    if text.is_empty() {
        return Err(ApiError::value("prompt", "prompt is empty: give at least one character"));
    }
    Ok(text.clone())
}
