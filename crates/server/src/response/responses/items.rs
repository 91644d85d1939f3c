//! What a response consists of: reasoning, a message, calls.

use serde_json::{Value, json};

use crate::app::App;

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

/// An item of text, with the probabilities of its tokens; one that was only begun has no content.
pub(super) fn text(kind: Kind, id: &str, text: &str, logprobs: Value, status: Status) -> Value {
    let content = match status {
        Status::InProgress => json!([]),
        _ => json!([part(kind, text, logprobs)]),
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
pub(super) fn part(kind: Kind, text: &str, logprobs: Value) -> Value {
    match kind {
        Kind::Reasoning => json!({ "type": "reasoning_text", "text": text }),
        Kind::Message => {
            json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": logprobs })
        }
    }
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
