//! Choices of a text that goes on.

use deltafin_text::Delta;
use serde_json::{Value, json};

use super::{finish_word, logprobs};
use crate::sink::{Piece, Summary};

/// The whole text but for its probabilities.
pub(super) fn choice(summary: &Summary) -> Value {
    of(&summary.answer.content, Value::Null, Some(finish_word(summary)))
}

/// The probabilities of the whole text, as text.
pub(super) fn logprobs_of(summary: &Summary) -> String {
    logprobs::written_of_text(&summary.likely.1)
}

/// A piece of it.
pub(super) fn pieces(piece: &Piece) -> Vec<Value> {
    match &piece.delta {
        Delta::Content(text) => vec![of(text, logprobs::of_text(&piece.tokens), None)],
        _ => Vec::new(),
    }
}

/// A piece that says nothing.
pub(super) fn silence() -> Value {
    of("", Value::Null, None)
}

/// The end of it.
pub(super) fn closing(summary: &Summary) -> Value {
    of("", Value::Null, Some(finish_word(summary)))
}

fn of(text: &str, logprobs: Value, finish: Option<&str>) -> Value {
    json!({ "text": text, "index": 0, "logprobs": logprobs, "finish_reason": finish })
}
