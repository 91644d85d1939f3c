//! The state machine that reads a reply.
//!
//! Well-formed replies leave no choice. For the others the rules are: opening a channel leaves
//! whatever was open; unknown tags vanish and their text stays; text outside all channels
//! belongs to the answer; an unfinished header or call is dropped.

use super::call::OpenCall;
use super::header::{Header, Tag};
use super::stop::StopMatcher;
use super::{Answer, Call, Channel, Cut, Delta, Event, Finish, Marker, ReplyOptions};
use crate::utf8::Utf8Assembler;

/// Where text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Think,
    Response,
    Tools,
    /// Between channels; text here is delivered as part of the answer.
    Outside,
}

/// Reads events one at a time.
#[derive(Debug, Clone)]
pub struct Parser {
    options: ReplyOptions,
    place: Place,
    header: Option<Header>,
    utf8: Utf8Assembler,
    stops: StopMatcher,
    call: Option<OpenCall>,
    /// The message was closed; only its end token is awaited.
    is_closed: bool,
    finish: Option<Finish>,
    reasoning_ended: bool,
    reasoning: String,
    content: String,
    calls: Vec<Call>,
    deltas: Vec<Delta>,
}

impl Parser {
    /// A parser at the beginning of a reply.
    #[must_use]
    pub fn new(options: ReplyOptions) -> Self {
        let place = match options.channel {
            Channel::Think => Place::Think,
            Channel::Response => Place::Response,
        };
        Self {
            stops: StopMatcher::new(&options.stop),
            options,
            place,
            header: None,
            utf8: Utf8Assembler::default(),
            call: None,
            is_closed: false,
            finish: None,
            reasoning_ended: false,
            reasoning: String::new(),
            content: String::new(),
            calls: Vec::new(),
            deltas: Vec::new(),
        }
    }

    /// Takes the next event and returns what it completes.
    pub fn push(&mut self, event: Event<'_>) -> Vec<Delta> {
        if !self.is_done() {
            match event {
                Event::Marker(marker) => self.marker(marker),
                Event::Bytes(bytes) => self.bytes(bytes),
                Event::Other => {}
            }
        }
        self.take_deltas()
    }

    /// Ends a reply that did not end itself and returns what was still held.
    pub fn finish(&mut self, cut: Cut) -> Vec<Delta> {
        if !self.is_done() {
            self.flush_utf8();
            self.end(Some(cut));
        }
        self.take_deltas()
    }

    /// Whether nothing that follows can change the reply.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.finish.is_some()
    }

    /// The stop sequence that ended the answer, if one did.
    #[must_use]
    pub fn stop_sequence(&self) -> Option<&str> {
        self.stops.found()
    }

    /// Whether the message ended by itself: it was closed, or its end token came.
    #[must_use]
    pub fn message_ended(&self) -> bool {
        self.is_closed
    }

    /// Whether the reply is still in the think channel.
    #[must_use]
    pub fn is_thinking(&self) -> bool {
        self.place == Place::Think && !self.is_closed && !self.is_done()
    }

    /// The channel that ordinary text would go to; none inside a tag or a call, nor after the end.
    #[must_use]
    pub fn text_channel(&self) -> Option<Channel> {
        match self.place {
            _ if self.header.is_some() || self.is_closed || self.is_done() => None,
            Place::Think => Some(Channel::Think),
            Place::Response | Place::Outside => Some(Channel::Response),
            Place::Tools => None,
        }
    }

    /// The reply as far as it was published. While it is not done, `finish` says `length`.
    #[must_use]
    pub fn answer(&self) -> Answer {
        Answer {
            reasoning_content: self.reasoning.clone(),
            content: self.content.clone(),
            tool_calls: self.calls.clone(),
            finish: self.finish.unwrap_or(Finish::Length),
        }
    }

    fn take_deltas(&mut self) -> Vec<Delta> {
        std::mem::take(&mut self.deltas)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if self.is_closed {
            return;
        }
        match &mut self.header {
            Some(header) => header.bytes.extend_from_slice(bytes),
            None => {
                let text = self.utf8.push(bytes);
                self.text(&text);
            }
        }
    }

    fn marker(&mut self, marker: Marker) {
        self.flush_utf8();
        if self.is_done() {
            return;
        }
        match marker {
            Marker::End => {
                self.is_closed = true;
                self.end(None);
            }
            _ if self.is_closed => {}
            Marker::Open => self.header = Some(Header::new(false)),
            Marker::Close => self.header = Some(Header::new(true)),
            Marker::Sep => {
                if let Some(header) = self.header.take() {
                    self.tag(header.read());
                }
            }
        }
    }

    fn tag(&mut self, mut tag: Tag) {
        match (tag.name.as_str(), tag.is_close) {
            ("think", false) => self.go(Place::Think),
            ("response", false) => self.go(Place::Response),
            ("tools", false) => self.go(Place::Tools),
            ("think", true) => self.leave(Place::Think),
            ("response", true) => self.leave(Place::Response),
            ("tools", true) => self.leave(Place::Tools),
            ("message", true) => self.close_message(),
            ("call", false) if matches!(self.place, Place::Tools | Place::Outside) => {
                self.go(Place::Tools);
                self.open_call(tag.take("tool").unwrap_or_default());
            }
            ("call", true) => self.close_call(),
            _ => self.call_tag(tag),
        }
    }

    /// Tags that mean something only inside a call.
    fn call_tag(&mut self, mut tag: Tag) {
        let Some(call) = &mut self.call else { return };
        match (tag.name.as_str(), tag.is_close) {
            ("argument", false) => call.open_argument(&mut tag),
            ("argument", true) => call.close_argument(),
            ("json", false) => call.open_json(),
            ("json", true) => call.close_json(),
            _ => {}
        }
        self.publish_fragment();
    }

    /// Opening the channel that is open changes nothing.
    fn go(&mut self, place: Place) {
        if self.place == place {
            return;
        }
        match self.place {
            Place::Think => self.end_reasoning(),
            Place::Response | Place::Outside => self.flush_stops(),
            Place::Tools => self.drop_call(),
        }
        self.place = place;
    }

    fn leave(&mut self, place: Place) {
        if self.place == place {
            self.go(Place::Outside);
        }
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.place {
            Place::Think => self.publish_reasoning(text),
            Place::Response | Place::Outside => {
                let (text, stopped) = self.stops.push(text);
                self.publish_content(text);
                if stopped {
                    self.finish = Some(Finish::Stop);
                }
            }
            Place::Tools => {
                if let Some(call) = &mut self.call {
                    call.text(text);
                    self.publish_fragment();
                }
            }
        }
    }

    fn open_call(&mut self, name: String) {
        self.drop_call();
        if self.publishes_call(&name) {
            let index = self.calls.len();
            self.deltas.push(Delta::CallBegin { index, name: name.clone() });
        }
        self.call = Some(OpenCall::new(name));
    }

    fn close_call(&mut self) {
        let Some(call) = self.call.take() else { return };
        if !self.publishes_call(&call.name) {
            return;
        }
        let (index, name) = (self.calls.len(), call.name.clone());
        let (fragment, arguments) = call.finish();
        if let Some(fragment) = fragment {
            self.deltas.push(Delta::CallArguments { index, fragment });
        }
        let call = Call { name, arguments };
        self.calls.push(call.clone());
        self.deltas.push(Delta::Call { index, call });
        if !self.options.parallel_tool_calls {
            self.finish = Some(Finish::ToolCalls);
        }
    }

    fn drop_call(&mut self) {
        if let Some(call) = self.call.take()
            && self.publishes_call(&call.name)
        {
            self.deltas.push(Delta::CallDropped { index: self.calls.len() });
        }
    }

    fn publishes_call(&self, name: &str) -> bool {
        self.options.tool_calls && !name.is_empty()
    }

    fn publish_fragment(&mut self) {
        let index = self.calls.len();
        if let Some(call) = &mut self.call
            && let Some(fragment) = call.take_fragment()
            && self.options.tool_calls
            && !call.name.is_empty()
        {
            self.deltas.push(Delta::CallArguments { index, fragment });
        }
    }

    fn publish_reasoning(&mut self, text: &str) {
        self.reasoning.push_str(text);
        self.deltas.push(Delta::Reasoning(text.to_owned()));
    }

    fn publish_content(&mut self, text: String) {
        if !text.is_empty() {
            self.content.push_str(&text);
            self.deltas.push(Delta::Content(text));
        }
    }

    fn end_reasoning(&mut self) {
        if !self.reasoning_ended {
            self.reasoning_ended = true;
            self.deltas.push(Delta::ReasoningEnd);
        }
    }

    fn flush_stops(&mut self) {
        let held = self.stops.flush();
        self.publish_content(held);
    }

    /// A marker ends a character that was still incomplete.
    fn flush_utf8(&mut self) {
        let text = self.utf8.finish();
        self.text(&text);
    }

    fn close_message(&mut self) {
        self.flush_stops();
        self.drop_call();
        self.is_closed = true;
    }

    fn end(&mut self, cut: Option<Cut>) {
        if self.is_done() {
            return;
        }
        self.header = None;
        self.flush_stops();
        self.drop_call();
        self.finish = Some(match cut {
            Some(Cut::Limit) if !self.is_closed => Finish::Length,
            Some(Cut::Cancelled) if !self.is_closed => Finish::Cancelled,
            _ if self.calls.is_empty() => Finish::Stop,
            _ => Finish::ToolCalls,
        });
    }
}
