//! From a body's JSON to what is to be generated. Refuses early; ignores only what cannot change
//! the answer, and says so.

pub(crate) mod anthropic;
pub(crate) mod chat;
mod choice;
mod common;
pub(crate) mod completion;
mod conversation;
mod effort;
pub(crate) mod fields;
mod form;
mod messages;
pub(crate) mod responses;
mod tools;

pub(crate) use common::Policy;
pub(crate) use conversation::{Chat, Conversation};
use deltafin_text::Effort;

use crate::choice::Sampling;

/// How a generation is limited and told.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) max_new: Option<usize>,
    /// Ids by chance; the most likely ones if `None`.
    pub(crate) sampling: Option<Sampling>,
    /// How many alternatives are told beside each token's probability; nothing if `None`.
    pub(crate) logprobs: Option<usize>,
    /// Reasoning tokens after which the reasoning is closed.
    pub(crate) reasoning_limit: Option<usize>,
    /// Members that change nothing.
    pub(crate) ignored: Vec<String>,
    /// The effort in use, where the one asked for has another name.
    pub(crate) mapped_effort: Option<Effort>,
}
