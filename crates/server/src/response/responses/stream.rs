//! Writes a response item by item.

use deltafin_text::{Delta, reply};
use serde_json::{Value, json};

use super::items::{self, Call, Kind, Status};
use super::{Frame, cut};
use crate::app::App;
use crate::http::ApiError;
use crate::response::logprobs;
use crate::response::scribe::{Scribe, named};
use crate::sink::{Likely, Piece, Summary};

/// A stream of numbered events.
#[derive(Debug)]
pub(crate) struct Items {
    frame: Frame,
    events: u64,
    done: Vec<Value>,
    open: Option<Open>,
}

/// An item of text that goes on.
#[derive(Debug)]
struct Open {
    kind: Kind,
    id: String,
    text: String,
    /// Of its tokens, where that is told.
    logprobs: Vec<Value>,
}

impl Items {
    pub(in crate::response) fn new(frame: Frame) -> Items {
        Items { frame, events: 0, done: Vec::new(), open: None }
    }

    /// An event of this type, with these members.
    fn event(&mut self, kind: &str, members: &Value) -> String {
        let mut event = json!({ "type": kind, "sequence_number": self.events });
        self.events += 1;
        for (name, value) in members.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        named(&event)
    }

    fn response(&mut self, kind: &str, response: Value) -> String {
        self.event(kind, &json!({ "response": response }))
    }

    fn in_progress(&mut self, kind: &str) -> String {
        let response = self.frame.object(Status::InProgress.word(), &self.done);
        self.response(kind, response)
    }

    fn item(&mut self, kind: &str, item: Value) -> String {
        let index = self.done.len();
        self.event(kind, &json!({ "output_index": index, "item": item }))
    }

    /// An event about a part of the item that is open, or that is told at once.
    fn part(&mut self, kind: &str, item_id: &str, members: Value) -> String {
        let mut of = json!({ "item_id": item_id, "output_index": self.done.len() });
        for (name, value) in members.as_object().into_iter().flatten() {
            of[name] = value.clone();
        }
        self.event(kind, &of)
    }

    fn text(&mut self, app: &App, kind: Kind, text: &str, tokens: &[Likely]) -> Vec<String> {
        let mut events = Vec::new();
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            events.extend(self.leave(Status::Completed));
            events.extend(self.enter(kind, app.fresh(kind.prefix())));
        }
        let Some(open) = &mut self.open else { return events };
        // Reasoning has no place for probabilities.
        let tokens = if kind == Kind::Message { tokens } else { &[] };
        let logprobs = logprobs::list(tokens);
        open.text.push_str(text);
        open.logprobs.extend(logprobs.as_array().into_iter().flatten().cloned());
        let id = open.id.clone();
        events.push(match kind {
            Kind::Reasoning => self.part(
                "response.reasoning_text.delta",
                &id,
                json!({ "content_index": 0, "delta": text }),
            ),
            Kind::Message => self.part(
                "response.output_text.delta",
                &id,
                json!({ "content_index": 0, "delta": text, "logprobs": logprobs }),
            ),
        });
        events
    }

    fn enter(&mut self, kind: Kind, id: String) -> Vec<String> {
        let item = items::text(kind, &id, "", json!([]), Status::InProgress);
        let mut events = vec![self.item("response.output_item.added", item)];
        // Clients put text only where a part was announced, reasoning included.
        let part = json!({ "content_index": 0, "part": items::part(kind, "", json!([])) });
        events.push(self.part("response.content_part.added", &id, part));
        self.open = Some(Open { kind, id, text: String::new(), logprobs: Vec::new() });
        events
    }

    /// Ends the item that is open.
    fn leave(&mut self, status: Status) -> Vec<String> {
        let Some(Open { kind, id, text, logprobs }) = self.open.take() else { return Vec::new() };
        let mut events = Vec::new();
        match kind {
            Kind::Reasoning => events.push(self.part(
                "response.reasoning_text.done",
                &id,
                json!({ "content_index": 0, "text": text }),
            )),
            Kind::Message => {
                let whole = json!({ "content_index": 0, "text": text, "logprobs": logprobs });
                events.push(self.part("response.output_text.done", &id, whole));
            }
        }
        let logprobs = Value::Array(logprobs);
        let part = items::part(kind, &text, logprobs.clone());
        let part = json!({ "content_index": 0, "part": part });
        events.push(self.part("response.content_part.done", &id, part));
        events.push(self.finish(items::text(kind, &id, &text, logprobs, status)));
        events
    }

    fn finish(&mut self, item: Value) -> String {
        let event = self.item("response.output_item.done", item.clone());
        self.done.push(item);
        event
    }

    /// A call is told when it is complete, as in a chat.
    fn call(&mut self, app: &App, told: &reply::Call) -> Vec<String> {
        let mut events = self.leave(Status::Completed);
        let custom = std::mem::take(&mut self.frame.custom);
        let call = Call::new(app, told, &custom);
        let item = call.item("", Status::InProgress);
        events.push(self.item("response.output_item.added", item));
        let arguments = told.arguments.as_str();
        let (kind, delta, done) = if call.is_custom {
            let input = items::free_text(arguments);
            ("custom_tool_call_input", json!({ "delta": input }), json!({ "input": input }))
        } else {
            let done = json!({ "name": call.name, "arguments": arguments });
            ("function_call_arguments", json!({ "delta": arguments }), done)
        };
        events.push(self.part(&format!("response.{kind}.delta"), &call.id, delta));
        events.push(self.part(&format!("response.{kind}.done"), &call.id, done));
        events.push(self.finish(call.item(arguments, Status::Completed)));
        self.frame.custom = custom;
        events
    }
}

impl Scribe for Items {
    fn opening(&mut self) -> Vec<String> {
        ["response.created", "response.in_progress"].map(|kind| self.in_progress(kind)).into()
    }

    fn piece(&mut self, app: &App, piece: &Piece) -> Vec<String> {
        match &piece.delta {
            Delta::Reasoning(text) => self.text(app, Kind::Reasoning, text, &[]),
            Delta::ReasoningEnd => self.leave(Status::Completed),
            Delta::Content(text) => self.text(app, Kind::Message, text, &piece.tokens),
            Delta::Call { call, .. } => self.call(app, call),
            Delta::CallBegin { .. } | Delta::CallArguments { .. } | Delta::CallDropped { .. } => {
                Vec::new()
            }
        }
    }

    fn closing(&mut self, _: &App, summary: &Summary) -> Vec<String> {
        let status = cut(summary);
        let mut events = self.leave(status);
        let response = self.frame.ended(&self.done, summary);
        events.push(self.response(&format!("response.{}", status.word()), response));
        events
    }

    /// Agents wait for events; comments do not count for them.
    fn sign_of_life(&mut self, _: &str) -> String {
        self.in_progress("response.in_progress")
    }

    fn fault(&mut self, error: &ApiError) -> Vec<String> {
        let response = self.frame.failed(&self.done, error);
        vec![self.response("response.failed", response)]
    }
}
