//! From a conversation to the ids of its prompt, and the room they leave.

use deltafin_text::{ChatError, Request};

use super::ApiError;
use crate::app::Model;

/// The channel opening at a prompt's end, which the publisher does not count.
pub(super) const OPENING_TOKENS: usize = 3;

/// A conversation's ids. Results of calls name them at `results`.
pub(super) fn render(
    model: &Model,
    param: &str,
    request: &Request,
    results: &[String],
) -> Result<Vec<u32>, ApiError> {
    let segments = deltafin_text::render(request).map_err(|error| match error {
        ChatError::ToolName { index } => stray(request, index, results, param),
        other => ApiError::value(param, other.to_string()),
    })?;
    model
        .tokenizer
        .encode_segments(&segments)
        .map_err(|error| ApiError::internal(&error.to_string()))
}

/// The result of a call that nobody made. Dialects count their messages in other ways: only the order is the same.
fn stray(request: &Request, index: usize, results: &[String], param: &str) -> ApiError {
    let before = request.messages[..index].iter().filter(|message| message.role == "tool").count();
    let path = results.get(before).map_or(param, String::as_str);
    ApiError::value(path, format!("{path} answers no call of the assistant's message before it"))
}

/// How much may be generated: what was asked for, within the context.
pub(super) fn room(
    model: &Model,
    param: &str,
    prompt: usize,
    asked: Option<usize>,
) -> Result<usize, ApiError> {
    let context = model.backend.facts().context;
    if prompt >= context {
        return Err(ApiError::too_long(param, prompt, context));
    }
    Ok(asked.unwrap_or(usize::MAX).min(context - prompt))
}
