//! Writes a response item by item.

use std::sync::Arc;

use deltafin_text::{Delta, reply};
use serde_json::{Value, json};

use super::items::{self, Call, Kind, Status};
use super::{Frame, cut, with_output};
use crate::app::App;
use crate::http::ApiError;
use crate::response::scribe::Scribe;
use crate::response::{logprobs, with_written};
use crate::sink::{Likely, Piece, Summary};

/// A stream of numbered events.
#[derive(Debug)]
pub(crate) struct Items {
    frame: Frame,
    events: u64,
    /// Items that are complete, as text.
    done: Vec<String>,
    open: Option<Open>,
}

/// An item of text that goes on.
#[derive(Debug)]
struct Open {
    kind: Kind,
    id: String,
    text: String,
    /// Of its tokens, where that is told.
    likely: Vec<Arc<Likely>>,
}

impl Items {
    pub(in crate::response) fn new(frame: Frame) -> Items {
        Items { frame, events: 0, done: Vec::new(), open: None }
    }

    /// An event of this type, with these members, and the text of one of them in place of its value.
    fn event_with(&mut self, kind: &str, members: &Value, name: &str, text: &str) -> String {
        let mut event = json!({ "type": kind, "sequence_number": self.events });
        self.events += 1;
        for (name, value) in members.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        let document = with_written(event.as_object(), name, text);
        format!("event: {kind}\ndata: {document}\n\n")
    }

    fn response(&mut self, kind: &str, response: &str) -> String {
        self.event_with(kind, &json!({ "response": null }), "response", response)
    }

    fn in_progress(&mut self, kind: &str) -> String {
        let response = self.frame.object(Status::InProgress.word());
        self.response(kind, &with_output(&response, &self.done))
    }

    fn item(&mut self, kind: &str, item: &str) -> String {
        let index = self.done.len();
        self.event_with(kind, &json!({ "output_index": index, "item": null }), "item", item)
    }

    /// An event about a part of the item that is open, or that is told at once.
    fn part(&mut self, kind: &str, item_id: &str, members: &Value) -> String {
        self.part_with(kind, item_id, members, "", "")
    }

    fn part_with(
        &mut self,
        kind: &str,
        item_id: &str,
        members: &Value,
        name: &str,
        text: &str,
    ) -> String {
        let mut of = json!({ "item_id": item_id, "output_index": self.done.len() });
        for (name, value) in members.as_object().into_iter().flatten() {
            of[name] = value.clone();
        }
        self.event_with(kind, &of, name, text)
    }

    fn text(&mut self, app: &App, kind: Kind, text: &str, tokens: &[Arc<Likely>]) -> Vec<String> {
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
        open.likely.extend_from_slice(tokens);
        let id = open.id.clone();
        events.push(match kind {
            Kind::Reasoning => self.part(
                "response.reasoning_text.delta",
                &id,
                &json!({ "content_index": 0, "delta": text }),
            ),
            Kind::Message => self.part(
                "response.output_text.delta",
                &id,
                &json!({ "content_index": 0, "delta": text, "logprobs": logprobs }),
            ),
        });
        events
    }

    fn enter(&mut self, kind: Kind, id: String) -> Vec<String> {
        let item = items::text(kind, &id, "", Status::InProgress).to_string();
        let mut events = vec![self.item("response.output_item.added", &item)];
        // Clients put text only where a part was announced, reasoning included.
        let part = json!({ "content_index": 0, "part": items::part(kind, "") });
        events.push(self.part("response.content_part.added", &id, &part));
        self.open = Some(Open { kind, id, text: String::new(), likely: Vec::new() });
        events
    }

    /// Ends the item that is open.
    fn leave(&mut self, status: Status) -> Vec<String> {
        let Some(Open { kind, id, text, likely }) = self.open.take() else { return Vec::new() };
        let mut events = Vec::new();
        match kind {
            Kind::Reasoning => events.push(self.part(
                "response.reasoning_text.done",
                &id,
                &json!({ "content_index": 0, "text": text }),
            )),
            Kind::Message => {
                let whole = json!({ "content_index": 0, "text": text, "logprobs": [] });
                let list = logprobs::written_list(&likely);
                let kind = "response.output_text.done";
                events.push(self.part_with(kind, &id, &whole, "logprobs", &list));
            }
        }
        let part = items::written_part(&items::part(kind, &text), &likely);
        let around = json!({ "content_index": 0, "part": null });
        events.push(self.part_with("response.content_part.done", &id, &around, "part", &part));
        let item = items::text(kind, &id, &text, status);
        events.push(self.finish(items::written(&item, &likely)));
        events
    }

    fn finish(&mut self, item: String) -> String {
        let event = self.item("response.output_item.done", &item);
        self.done.push(item);
        event
    }

    /// A call is told when it is complete, as in a chat.
    fn call(&mut self, app: &App, told: &reply::Call) -> Vec<String> {
        let mut events = self.leave(Status::Completed);
        let custom = std::mem::take(&mut self.frame.custom);
        let call = Call::new(app, told, &custom);
        let item = call.item("", Status::InProgress).to_string();
        events.push(self.item("response.output_item.added", &item));
        let arguments = told.arguments.as_str();
        let (kind, delta, done) = if call.is_custom {
            let input = items::free_text(arguments);
            ("custom_tool_call_input", json!({ "delta": input }), json!({ "input": input }))
        } else {
            let done = json!({ "name": call.name, "arguments": arguments });
            ("function_call_arguments", json!({ "delta": arguments }), done)
        };
        events.push(self.part(&format!("response.{kind}.delta"), &call.id, &delta));
        events.push(self.part(&format!("response.{kind}.done"), &call.id, &done));
        events.push(self.finish(call.item(arguments, Status::Completed).to_string()));
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
        events.push(self.response(&format!("response.{}", status.word()), &response));
        events
    }

    /// Agents wait for events; comments do not count for them.
    fn sign_of_life(&mut self, _: &str) -> String {
        self.in_progress("response.in_progress")
    }

    fn fault(&mut self, error: &ApiError) -> Vec<String> {
        let response = with_output(&self.frame.failed(error), &self.done);
        vec![self.response("response.failed", &response)]
    }
}
