//! Between text and token ids: tokenizer, chat rendering, reply parsing.
//!
//! The crate promises three things.
//!
//! * **Exact ids.** [`Tokenizer`] turns text into the ids the model was trained on, for any
//!   rank file of the family: the table decides, no vocabulary size is built in.
//! * **Trusted structure.** [`render`] turns a chat [`Request`] into [`Segment`]s. Only literals of
//!   this crate become control tokens; whatever a request spells stays text.
//! * **Text at once.** [`Reply`] takes the generated ids one at a time and publishes every
//!   piece of reasoning, answer or tool call with the token that completes it.
//!
//! ```text
//! messages ─render─► segments ─encode_segments─► ids ─► (model) ─► ids ─Reply::push─► deltas
//! ```
//!
//! It is pure: no I/O, no environment, no printing, no threads. Files arrive as bytes.
#![forbid(unsafe_code)]

pub mod chat;
mod json;
pub mod reply;
pub mod tokenizer;
mod utf8;

/// Foreign text in an error message stays on one line and short.
fn one_line(text: &str) -> String {
    text.chars().take(160).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Whether JSON begins with what some editors put before UTF-8, which the parser only calls unexpected.
fn has_byte_order_mark(json: &[u8]) -> bool {
    json.starts_with("\u{feff}".as_bytes())
}

pub use chat::{ChatError, Effort, Request, Segment, render};
pub use reply::{Answer, Delta, Event, Marker, Parser, Reply, ReplyOptions, TextReply};
pub use tokenizer::{DecodeError, Tokenizer, TokenizerError};
pub use utf8::Utf8Assembler;
