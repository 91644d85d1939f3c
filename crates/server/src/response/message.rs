//! A reply as one of Anthropic's messages: a list of blocks, whole or streamed.

use deltafin_text::Delta;
use deltafin_text::reply::{Call, Finish};
use serde_json::{Value, json};

use super::Head;
use super::scribe::{Scribe, named};
use crate::app::App;
use crate::http::ApiError;
use crate::sink::{Piece, Summary};

/// Clients send thinking back only with a signature, which nobody checks here.
const SIGNATURE: &str = "deltafin";

/// The message as one document.
pub(super) fn whole(app: &App, head: &Head, summary: &Summary) -> Value {
    let answer = &summary.answer;
    let mut content = Vec::new();
    if !answer.reasoning_content.is_empty() {
        let thinking = &answer.reasoning_content;
        content.push(json!({ "type": "thinking", "thinking": thinking, "signature": SIGNATURE }));
    }
    if !answer.content.is_empty() {
        content.push(json!({ "type": "text", "text": answer.content }));
    }
    content.extend(answer.tool_calls.iter().map(|call| tool_use(app, call, input(call))));
    let mut message = blank(head, usage(head, summary));
    message["content"] = json!(content);
    message["stop_reason"] = json!(stop_reason(summary));
    message["stop_sequence"] = json!(summary.stop_sequence);
    message
}

/// A message that says nothing yet.
fn blank(head: &Head, usage: Value) -> Value {
    json!({
        "id": head.id,
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage,
    })
}

fn tool_use(app: &App, call: &Call, input: Value) -> Value {
    json!({ "type": "tool_use", "id": app.fresh("toolu_"), "name": call.name, "input": input })
}

/// An input must be an object. Where the model wrote something else, its text is handed on as it is, for
/// the tool to refuse.
fn input(call: &Call) -> Value {
    object(call).unwrap_or_else(|| json!({ "arguments": call.arguments }))
}

/// The same as the model wrote it.
fn input_text(call: &Call) -> String {
    match object(call) {
        Some(_) => call.arguments.clone(),
        None => input(call).to_string(),
    }
}

fn object(call: &Call) -> Option<Value> {
    serde_json::from_str(&call.arguments).ok().filter(Value::is_object)
}

fn stop_reason(summary: &Summary) -> &'static str {
    match summary.answer.finish {
        Finish::Stop if summary.stop_sequence.is_some() => "stop_sequence",
        Finish::Stop => "end_turn",
        Finish::ToolCalls => "tool_use",
        Finish::Length | Finish::Cancelled => "max_tokens",
    }
}

/// What was reused is not counted among the input, unlike in a chat.
fn usage(head: &Head, summary: &Summary) -> Value {
    let cached = summary.cached.min(head.prompt_tokens);
    json!({
        "input_tokens": head.prompt_tokens - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": summary.tokens,
        "output_tokens_details": { "thinking_tokens": summary.reasoning_tokens },
    })
}

/// A failure, in the dialect's form.
pub(crate) fn fault(error: &ApiError) -> Value {
    let kind = match error.status.as_u16() {
        400 | 405 | 408 | 411 | 415 | 417 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "overloaded_error",
        _ => "api_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": error.message } })
}

/// Writes a message block by block.
#[derive(Debug)]
pub(super) struct Blocks {
    head: Head,
    open: Option<Block>,
    /// The index of the block that is open, or comes next.
    index: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
}

impl Blocks {
    pub(super) fn new(head: Head) -> Blocks {
        Blocks { head, open: None, index: 0 }
    }

    /// Text for a block, which is opened where it is not.
    fn text(&mut self, block: Block, text: &str) -> Vec<String> {
        let mut events = Vec::new();
        if self.open != Some(block) {
            events.extend(self.leave());
            self.open = Some(block);
            events.push(self.start(&match block {
                Block::Thinking => json!({ "type": "thinking", "thinking": "", "signature": "" }),
                Block::Text => json!({ "type": "text", "text": "" }),
            }));
        }
        events.push(self.delta(&match block {
            Block::Thinking => json!({ "type": "thinking_delta", "thinking": text }),
            Block::Text => json!({ "type": "text_delta", "text": text }),
        }));
        events
    }

    /// Ends the block that is open.
    fn leave(&mut self) -> Vec<String> {
        let Some(block) = self.open.take() else { return Vec::new() };
        let mut events = Vec::new();
        if block == Block::Thinking {
            let signature = json!({ "type": "signature_delta", "signature": SIGNATURE });
            events.push(self.delta(&signature));
        }
        events.push(self.stop());
        events
    }

    /// A call is told when it is complete, as in a chat.
    fn call(&mut self, app: &App, call: &Call) -> Vec<String> {
        let mut events = self.leave();
        events.push(self.start(&tool_use(app, call, json!({}))));
        let input = input_text(call);
        events.push(self.delta(&json!({ "type": "input_json_delta", "partial_json": input })));
        events.push(self.stop());
        events
    }

    fn start(&self, block: &Value) -> String {
        let index = self.index;
        named(&json!({ "type": "content_block_start", "index": index, "content_block": block }))
    }

    fn delta(&self, delta: &Value) -> String {
        let index = self.index;
        named(&json!({ "type": "content_block_delta", "index": index, "delta": delta }))
    }

    fn stop(&mut self) -> String {
        let index = self.index;
        self.index += 1;
        named(&json!({ "type": "content_block_stop", "index": index }))
    }
}

impl Scribe for Blocks {
    /// What was reused is known only at the end, and told there.
    fn opening(&mut self) -> Vec<String> {
        let usage = json!({
            "input_tokens": self.head.prompt_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
        });
        let message = blank(&self.head, usage);
        vec![named(&json!({ "type": "message_start", "message": message }))]
    }

    fn piece(&mut self, app: &App, piece: &Piece) -> Vec<String> {
        match &piece.delta {
            Delta::Reasoning(text) => self.text(Block::Thinking, text),
            Delta::ReasoningEnd => self.leave(),
            Delta::Content(text) => self.text(Block::Text, text),
            Delta::Call { call, .. } => self.call(app, call),
            Delta::CallBegin { .. } | Delta::CallArguments { .. } | Delta::CallDropped { .. } => {
                Vec::new()
            }
        }
    }

    fn closing(&mut self, _: &App, summary: &Summary) -> Vec<String> {
        let mut events = self.leave();
        let delta = json!({
            "stop_reason": stop_reason(summary),
            "stop_sequence": summary.stop_sequence,
        });
        let usage = usage(&self.head, summary);
        events.push(named(&json!({ "type": "message_delta", "delta": delta, "usage": usage })));
        events.push(named(&json!({ "type": "message_stop" })));
        events
    }

    fn sign_of_life(&mut self, _: &str) -> String {
        named(&json!({ "type": "ping" }))
    }

    fn fault(&mut self, error: &ApiError) -> Vec<String> {
        vec![named(&fault(error))]
    }
}
