//! A generated reply into reasoning, answer and tool calls, as it comes.
//!
//! Promises: structure comes from token ids only, so a reply may spell any marker in its text;
//! text is published with the token that completes it; the published pieces join to
//! the final [`Answer`], however the bytes are cut; any sequence of events, however broken, is read.
//!
//! ```text
//! id ─Tokenizer::event─► Event ─Parser::push─► Delta …        Parser::finish ─► Answer
//! ```
//!
//! [`Reply`] does all of it for ids; [`TextReply`] for text that spells its markers, in tools
//! and tests.
//!
//! ```
//! use deltafin_text::reply::{ReplyOptions, parse_text};
//!
//! let text = "2 and 2.<|close|>think<|sep|><|open|>response<|sep|>4<|end_of_msg|>";
//! let answer = parse_text(ReplyOptions::default(), text);
//! assert_eq!(answer.reasoning_content, "2 and 2.");
//! assert_eq!(answer.content, "4");
//! ```

mod call;
mod event;
mod header;
mod parser;
mod spelled;
mod stop;

pub use event::{Event, Marker};
pub use parser::Parser;
pub use spelled::TextReply;

use serde::Serialize;

use crate::chat::{Request, ToolChoice};
use crate::tokenizer::{DecodeError, Tokenizer};

/// The channel that the prompt left open, in which the reply begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Channel {
    /// Reasoning: thinking is on.
    #[default]
    Think,
    /// The answer: thinking is off.
    Response,
}

/// How a reply is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyOptions {
    /// Where it begins.
    pub channel: Channel,
    /// The reply ends before any of these appears in the answer; reasoning is not searched.
    pub stop: Vec<String>,
    /// Whether tool calls are published at all.
    pub tool_calls: bool,
    /// Whether more than one call is allowed; if not, the reply ends after the first.
    pub parallel_tool_calls: bool,
}

impl Default for ReplyOptions {
    fn default() -> Self {
        let (channel, stop) = (Channel::default(), Vec::new());
        Self { channel, stop, tool_calls: true, parallel_tool_calls: true }
    }
}

impl ReplyOptions {
    /// A reply that begins in this channel.
    #[must_use]
    pub fn new(channel: Channel) -> Self {
        Self { channel, ..Self::default() }
    }

    /// The reply to this request.
    #[must_use]
    pub fn for_request(request: &Request) -> Self {
        let channel = if request.thinking { Channel::Think } else { Channel::Response };
        Self { tool_calls: request.tool_choice != ToolChoice::None, ..Self::new(channel) }
    }
}

/// One increment of a reply.
///
/// A call is told twice. `CallBegin` and `CallArguments` show it while it is written; `Call` is
/// binding. The fragments join to the call's arguments unless the model repeats a key or mixes
/// the two forms of arguments, which cannot be known before the end; then `Call` is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More reasoning.
    Reasoning(String),
    /// The think channel was left, told once.
    ReasoningEnd,
    /// More of the answer.
    Content(String),
    /// A call has begun.
    CallBegin {
        /// Its index if it completes.
        index: usize,
        /// The function's name.
        name: String,
    },
    /// More of the arguments of the call that has begun.
    CallArguments {
        /// Its index if it completes.
        index: usize,
        /// A piece of JSON text.
        fragment: String,
    },
    /// The call that had begun will not complete.
    CallDropped {
        /// The index it had; the next call gets it.
        index: usize,
    },
    /// A call is complete.
    Call {
        /// Counted from 0.
        index: usize,
        /// The call.
        call: Call,
    },
}

/// A complete tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Call {
    /// The function's name.
    pub name: String,
    /// The arguments as JSON text. It is an object unless the model itself wrote broken JSON.
    pub arguments: String,
}

/// Why generation ended before the reply did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// A stop token that is not the message's own end.
    StopToken,
    /// The token limit.
    Limit,
    /// Someone cancelled it.
    Cancelled,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model ended it, or a stop sequence did.
    Stop,
    /// The model ended it and waits for the results of its calls.
    ToolCalls,
    /// The token limit.
    Length,
    /// Someone cancelled it.
    Cancelled,
}

/// A whole reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The reasoning, untrimmed.
    pub reasoning_content: String,
    /// The answer, untrimmed.
    pub content: String,
    /// The complete calls, in order.
    pub tool_calls: Vec<Call>,
    /// Why it ended.
    pub finish: Finish,
}

/// Reads a reply from generated ids.
#[derive(Debug)]
pub struct Reply<'t> {
    tokenizer: &'t Tokenizer,
    parser: Parser,
    tokens: usize,
    reasoning_tokens: usize,
}

impl<'t> Reply<'t> {
    /// A reply of which nothing was generated yet.
    #[must_use]
    pub fn new(tokenizer: &'t Tokenizer, options: ReplyOptions) -> Self {
        Self { tokenizer, parser: Parser::new(options), tokens: 0, reasoning_tokens: 0 }
    }

    /// Takes the next generated id and returns what it completes.
    ///
    /// # Errors
    /// When the id is outside the vocabulary; the reply is then as before.
    pub fn push(&mut self, id: u32) -> Result<Vec<Delta>, DecodeError> {
        let event = self.tokenizer.event(id)?;
        self.tokens += 1;
        self.reasoning_tokens += usize::from(self.parser.is_thinking());
        Ok(self.parser.push(event))
    }

    /// Whether nothing more should be generated.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.parser.is_done()
    }

    /// Ends a reply that did not end itself and returns what was still held. On a reply
    /// that is done it changes nothing.
    pub fn finish(&mut self, cut: Cut) -> Vec<Delta> {
        self.parser.finish(cut)
    }

    /// Whether the reply is still in the think channel.
    #[must_use]
    pub fn is_thinking(&self) -> bool {
        self.parser.is_thinking()
    }

    /// The number of ids taken, markers and the stop token included.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The ids taken before the think channel was left, its closing tag included.
    #[must_use]
    pub fn reasoning_tokens(&self) -> usize {
        self.reasoning_tokens
    }

    /// The reply as far as it was published.
    #[must_use]
    pub fn answer(&self) -> Answer {
        self.parser.answer()
    }
}

/// Reads a reply that is there as a whole. Ids that run out count as the token limit.
///
/// # Errors
/// When an id is outside the vocabulary.
pub fn parse_ids(
    tokenizer: &Tokenizer,
    options: ReplyOptions,
    ids: &[u32],
) -> Result<Answer, DecodeError> {
    let mut reply = Reply::new(tokenizer, options);
    for &id in ids {
        reply.push(id)?;
    }
    reply.finish(Cut::Limit);
    Ok(reply.answer())
}

/// Reads a whole reply that spells its markers. Text that runs out counts as the token limit.
#[must_use]
pub fn parse_text(options: ReplyOptions, text: &str) -> Answer {
    let mut reply = TextReply::new(options);
    reply.push(text.as_bytes());
    reply.finish(Cut::Limit);
    reply.answer()
}
