//! What a response consists of: reasoning, a message, calls.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::app::App;
use crate::response::{logprobs, with_written};
use crate::sink::Likely;

/// How far an item, or the whole response, has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    InProgress,
    Completed,
    Incomplete,
}

impl Status {
    pub(super) fn word(self) -> &'static str {
        match self {
            Status::InProgress => "in_progress",
            Status::Completed => "completed",
            Status::Incomplete => "incomplete",
        }
    }
}

/// An item that consists of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Reasoning,
    Message,
}

impl Kind {
    /// How its id begins.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Kind::Reasoning => "rs_",
            Kind::Message => "msg_",
        }
    }
}

/// An item of text; one that was only begun has no content.
pub(super) fn text(kind: Kind, id: &str, text: &str, status: Status) -> Value {
    let content = match status {
        Status::InProgress => json!([]),
        _ => json!([part(kind, text)]),
    };
    let status = status.word();
    match kind {
        Kind::Reasoning => json!({
            "id": id, "type": "reasoning", "summary": [], "content": content, "status": status,
        }),
        Kind::Message => json!({
            "id": id, "type": "message", "role": "assistant", "content": content, "status": status,
        }),
    }
}

/// The one part of such an item. Reasoning has no place for probabilities.
pub(super) fn part(kind: Kind, text: &str) -> Value {
    match kind {
        Kind::Reasoning => json!({ "type": "reasoning_text", "text": text }),
        Kind::Message => {
            json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
        }
    }
}

/// An item of text as JSON, with the probabilities of its tokens.
pub(super) fn written(item: &Value, likely: &[Arc<Likely>]) -> String {
    let part = written_part(&item["content"][0], likely);
    with_written(item.as_object(), "content", &format!("[{part}]"))
}

/// The same of its part.
pub(super) fn written_part(part: &Value, likely: &[Arc<Likely>]) -> String {
    with_written(part.as_object(), "logprobs", &logprobs::written_list(likely))
}

/// A call of a function, or of a tool that takes free text.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) id: String,
    call_id: String,
    pub(super) name: &'a str,
    pub(super) is_custom: bool,
}

impl<'a> Call<'a> {
    pub(super) fn new(
        app: &App,
        call: &'a deltafin_text::reply::Call,
        custom: &[String],
    ) -> Call<'a> {
        let is_custom = custom.contains(&call.name);
        let id = app.fresh(if is_custom { "ctc_" } else { "fc_" });
        Call { id, call_id: app.fresh("call_"), name: &call.name, is_custom }
    }

    /// The item, with arguments as the model wrote them.
    pub(super) fn item(&self, arguments: &str, status: Status) -> Value {
        let Call { id, call_id, name, is_custom } = self;
        let status = status.word();
        if *is_custom {
            let input = free_text(arguments);
            return json!({
                "id": id, "type": "custom_tool_call", "call_id": call_id, "name": name,
                "input": input, "status": status,
            });
        }
        json!({
            "id": id, "type": "function_call", "call_id": call_id, "name": name,
            "arguments": arguments, "status": status,
        })
    }
}

/// The one argument of a tool that takes free text; all of them where the model gave something else.
pub(super) fn free_text(arguments: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(arguments).ok();
    let input = parsed.as_ref().and_then(|arguments| arguments.get("input")?.as_str());
    input.unwrap_or(arguments).to_owned()
}
