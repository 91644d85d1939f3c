//! Choices of a text that goes on.

use deltafin_text::Delta;
use serde_json::{Value, json};

use super::finish_word;
use crate::sink::Summary;

/// The whole text.
pub(super) fn choice(summary: &Summary) -> Value {
    piece(&summary.answer.content, Some(finish_word(summary)))
}

/// A piece of it.
pub(super) fn pieces(delta: &Delta) -> Vec<Value> {
    match delta {
        Delta::Content(text) => vec![piece(text, None)],
        _ => Vec::new(),
    }
}

pub(super) fn piece(text: &str, finish: Option<&str>) -> Value {
    json!({ "text": text, "index": 0, "logprobs": null, "finish_reason": finish })
}
