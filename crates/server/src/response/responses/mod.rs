//! A reply as a response: a list of items, whole or streamed.

mod items;
mod stream;

use deltafin_text::reply::Finish;
use serde_json::{Map, Value, json};

use super::{Head, with_written};
use crate::app::App;
use crate::http::ApiError;
use crate::sink::Summary;
use items::Status;
pub(super) use stream::Items;

/// What surrounds the items.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) head: Head,
    /// Members that repeat what was asked for.
    pub(crate) repeated: Map<String, Value>,
    /// Tools that take free text.
    pub(crate) custom: Vec<String>,
}

impl Frame {
    /// The reply as one document.
    pub(super) fn whole(&self, app: &App, summary: &Summary) -> String {
        let answer = &summary.answer;
        let texts = [
            (items::Kind::Reasoning, &answer.reasoning_content, &summary.likely.0),
            (items::Kind::Message, &answer.content, &summary.likely.1),
        ];
        let said: Vec<_> = texts.into_iter().filter(|(_, text, _)| !text.is_empty()).collect();
        let last = said.len();
        let mut output: Vec<String> = Vec::new();
        for (at, (kind, text, likely)) in said.into_iter().enumerate() {
            let is_last = at + 1 == last && answer.tool_calls.is_empty();
            let status = if is_last { cut(summary) } else { Status::Completed };
            let item = items::text(kind, &app.fresh(kind.prefix()), text, status);
            output.push(items::written(&item, likely));
        }
        output.extend(answer.tool_calls.iter().map(|call| {
            let call_item = items::Call::new(app, call, &self.custom);
            call_item.item(&call.arguments, Status::Completed).to_string()
        }));
        self.ended(&output, summary)
    }

    /// A reply that is over.
    fn ended(&self, output: &[String], summary: &Summary) -> String {
        let mut response = self.object(cut(summary).word());
        response["usage"] = self.usage(summary);
        if cut(summary) == Status::Incomplete {
            response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        with_output(&response, output)
    }

    /// A reply that failed.
    pub(super) fn failed(&self, error: &ApiError) -> Value {
        let mut response = self.object("failed");
        response["error"] = json!({ "code": "server_error", "message": error.message });
        response
    }

    /// Without items.
    fn object(&self, status: &str) -> Value {
        let Head { id, created, model, .. } = &self.head;
        let mut response = json!({
            "id": id,
            "object": "response",
            "created_at": created,
            "status": status,
            "background": false,
            "error": null,
            "incomplete_details": null,
            "model": model,
            "output": [],
            "previous_response_id": null,
            "store": false,
            "truncation": "disabled",
            "usage": null,
        });
        for (name, value) in &self.repeated {
            response[name] = value.clone();
        }
        response
    }

    fn usage(&self, summary: &Summary) -> Value {
        let prompt = self.head.prompt_tokens;
        json!({
            "input_tokens": prompt,
            "input_tokens_details": { "cached_tokens": summary.cached.min(prompt) },
            "output_tokens": summary.tokens,
            "output_tokens_details": { "reasoning_tokens": summary.reasoning_tokens },
            "total_tokens": prompt + summary.tokens,
        })
    }
}

/// A response as text, with items that are written already.
fn with_output(response: &Value, output: &[String]) -> String {
    with_written(response.as_object(), "output", &format!("[{}]", output.join(",")))
}

/// Whether a limit cut the reply.
fn cut(summary: &Summary) -> Status {
    match summary.answer.finish {
        Finish::Stop | Finish::ToolCalls => Status::Completed,
        Finish::Length | Finish::Cancelled => Status::Incomplete,
    }
}
