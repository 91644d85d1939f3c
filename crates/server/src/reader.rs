//! Generated ids into pieces of a reply, with the counts that usage reports.

use std::sync::Arc;

use deltafin_text::reply::{Answer, Channel, Cut, ReplyOptions};
use deltafin_text::tokenizer::DecodeError;
use deltafin_text::{Delta, Event, Parser, Tokenizer};

/// Reads one reply.
#[derive(Debug)]
pub(crate) struct Reader {
    tokenizer: Arc<Tokenizer>,
    parser: Parser,
    /// Markers are structure in a chat, and nothing in raw text.
    structured: bool,
    tokens: usize,
    reasoning_tokens: usize,
}

impl Reader {
    /// A reply in the chat format.
    pub(crate) fn chat(tokenizer: Arc<Tokenizer>, options: ReplyOptions) -> Reader {
        Reader::new(tokenizer, options, true)
    }

    /// A text that goes on.
    pub(crate) fn raw(tokenizer: Arc<Tokenizer>, options: ReplyOptions) -> Reader {
        Reader::new(tokenizer, options, false)
    }

    fn new(tokenizer: Arc<Tokenizer>, options: ReplyOptions, structured: bool) -> Reader {
        let parser = Parser::new(options);
        Reader { tokenizer, parser, structured, tokens: 0, reasoning_tokens: 0 }
    }

    /// Takes the next id and returns what it completes.
    pub(crate) fn push(&mut self, id: u32) -> Result<Vec<Delta>, DecodeError> {
        let event = match self.tokenizer.event(id)? {
            Event::Marker(_) if !self.structured => Event::Other,
            event => event,
        };
        self.tokens += 1;
        self.reasoning_tokens += usize::from(self.is_thinking());
        Ok(self.parser.push(event))
    }

    /// Where this id's text would go, if it is text of a channel.
    pub(crate) fn channel_of(&self, id: u32) -> Option<Channel> {
        match self.tokenizer.event(id) {
            Ok(Event::Bytes(_)) => self.parser.text_channel(),
            _ => None,
        }
    }

    /// The bytes of an id; none for one outside the vocabulary.
    pub(crate) fn bytes(&self, id: u32) -> &[u8] {
        self.tokenizer.token_bytes(id).unwrap_or_default()
    }

    /// Whether the reply is in its reasoning.
    pub(crate) fn is_thinking(&self) -> bool {
        self.structured && self.parser.is_thinking()
    }

    /// The ids that leave the reasoning.
    pub(crate) fn end_of_reasoning(&self) -> Vec<u32> {
        self.tokenizer.encode_markup("<|close|>think<|sep|>")
    }

    /// The ids that leave the reasoning and begin the answer.
    pub(crate) fn end_of_reasoning_and_answer(&self) -> Vec<u32> {
        self.tokenizer.encode_markup("<|close|>think<|sep|><|open|>response<|sep|>")
    }

    /// Ends the reply and returns what was still held.
    pub(crate) fn finish(&mut self, cut: Cut) -> Vec<Delta> {
        self.parser.finish(cut)
    }

    /// Whether nothing more should be generated.
    pub(crate) fn is_done(&self) -> bool {
        self.parser.is_done()
    }

    /// The reply as far as it was published.
    pub(crate) fn answer(&self) -> Answer {
        self.parser.answer()
    }

    /// The stop sequence that ended the answer, if one did.
    pub(crate) fn stop_sequence(&self) -> Option<&str> {
        self.parser.stop_sequence()
    }

    /// Ids taken, markers and the stop token included.
    pub(crate) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Ids taken before the think channel was left, its closing tag included.
    pub(crate) fn reasoning_tokens(&self) -> usize {
        self.reasoning_tokens
    }
}
