//! Choices of a conversation.

use deltafin_text::Delta;
use deltafin_text::reply::Call;
use serde_json::{Map, Value, json};

use super::{finish_word, logprobs};
use crate::app::App;
use crate::settings::ReasoningField;
use crate::sink::{Piece, Summary};

/// The whole message but for its probabilities. Reasoning goes under the names that clients know, and under none when
/// thinking is off.
pub(super) fn choice(app: &App, summary: &Summary, thinking: bool) -> Value {
    let answer = &summary.answer;
    let mut message = Map::new();
    let mut put = |name: &str, value: Value| message.insert(name.to_owned(), value);
    put("role", json!("assistant"));
    put(
        "content",
        match answer.content.as_str() {
            "" if !answer.tool_calls.is_empty() => Value::Null,
            content => json!(content),
        },
    );
    if thinking {
        for name in reasoning_names(app) {
            put(name, json!(answer.reasoning_content));
        }
    }
    if !answer.tool_calls.is_empty() {
        let calls = answer.tool_calls.iter().map(|call| whole_call(app, call));
        put("tool_calls", calls.collect());
    }
    put("refusal", Value::Null);
    json!({
        "index": 0,
        "message": message,
        "logprobs": null,
        "finish_reason": finish_word(summary),
    })
}

/// The probabilities of the whole message, as text.
pub(super) fn logprobs_of(summary: &Summary) -> String {
    logprobs::written(&summary.likely.0, &summary.likely.1)
}

fn whole_call(app: &App, call: &Call) -> Value {
    let function = json!({ "name": call.name, "arguments": call.arguments });
    json!({ "id": app.fresh("call_"), "type": "function", "function": function })
}

/// A piece that says nothing.
pub(super) fn silence() -> Value {
    delta(json!({}))
}

/// The role, told once.
pub(super) fn opening() -> Value {
    delta(json!({ "role": "assistant", "content": "" }))
}

/// One kind of increment for each choice. A call is told when it is complete: until then the model
/// may still drop it or repeat an argument, and what was told cannot be taken back.
pub(super) fn pieces(app: &App, piece: &Piece) -> Vec<Value> {
    let tokens = &piece.tokens;
    match &piece.delta {
        Delta::Reasoning(_) | Delta::ReasoningEnd if reasoning_names(app).is_empty() => Vec::new(),
        Delta::Reasoning(text) => vec![likely(reasoning(app, text), logprobs::of(tokens, &[]))],
        Delta::ReasoningEnd => vec![reasoning(app, "")],
        Delta::Content(text) => {
            vec![likely(delta(json!({ "content": text })), logprobs::of(&[], tokens))]
        }
        Delta::Call { index, call } => {
            let function = json!({ "name": call.name, "arguments": "" });
            let id = app.fresh("call_");
            let begin =
                json!({ "index": index, "id": id, "type": "function", "function": function });
            let rest = json!({ "index": index, "function": { "arguments": call.arguments } });
            [begin, rest].map(|call| delta(json!({ "tool_calls": [call] }))).into()
        }
        Delta::CallBegin { .. } | Delta::CallArguments { .. } | Delta::CallDropped { .. } => {
            Vec::new()
        }
    }
}

/// The end. Some clients read usage here.
pub(super) fn closing(summary: &Summary, usage: &Value) -> Value {
    json!({
        "index": 0,
        "delta": {},
        "logprobs": null,
        "finish_reason": finish_word(summary),
        "usage": usage,
    })
}

fn reasoning(app: &App, text: &str) -> Value {
    let members = reasoning_names(app).iter().map(|name| ((*name).to_owned(), json!(text)));
    delta(Value::Object(members.collect()))
}

fn reasoning_names(app: &App) -> &'static [&'static str] {
    match app.settings.reasoning_field {
        ReasoningField::Both => &["reasoning_content", "reasoning"],
        ReasoningField::ReasoningContent => &["reasoning_content"],
        ReasoningField::Reasoning => &["reasoning"],
        ReasoningField::None => &[],
    }
}

fn likely(mut choice: Value, logprobs: Value) -> Value {
    choice["logprobs"] = logprobs;
    choice
}

fn delta(delta: Value) -> Value {
    json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": null })
}
