//! What a client reads: documents, and the chunks of a stream. Both say the same.

mod chat;
mod logprobs;
pub(crate) mod stream;
mod text;

use deltafin_text::reply::Finish;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::sink::{Piece, Summary};

/// What all documents of one reply share.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) fingerprint: String,
    pub(crate) prompt_tokens: usize,
    pub(crate) include_usage: bool,
}

/// The form of a reply.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    head: Head,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Chat { thinking: bool },
    Text,
}

impl Shape {
    /// A message of a conversation.
    pub(crate) fn chat(head: Head, thinking: bool) -> Shape {
        Shape { head, kind: Kind::Chat { thinking } }
    }

    /// A text that goes on.
    pub(crate) fn text(head: Head) -> Shape {
        Shape { head, kind: Kind::Text }
    }

    /// The name of the reply.
    pub(crate) fn id(&self) -> &str {
        &self.head.id
    }

    /// The reply as one document.
    pub(crate) fn whole(&self, app: &App, summary: &Summary) -> Value {
        let (object, choice) = match self.kind {
            Kind::Chat { thinking } => ("chat.completion", chat::choice(app, summary, thinking)),
            Kind::Text => ("text_completion", text::choice(summary)),
        };
        let mut document = self.document(object, json!([choice]));
        document.insert("usage".to_owned(), self.usage(summary));
        Value::Object(document)
    }

    /// The chunk that opens a stream.
    pub(crate) fn opening(&self) -> Option<Value> {
        match self.kind {
            Kind::Chat { .. } => Some(self.chunk(chat::opening())),
            Kind::Text => None,
        }
    }

    /// The chunks that a piece of the reply becomes.
    pub(crate) fn pieces(&self, app: &App, piece: &Piece) -> Vec<Value> {
        let choices = match self.kind {
            Kind::Chat { .. } => chat::pieces(app, piece),
            Kind::Text => text::pieces(piece),
        };
        choices.into_iter().map(|choice| self.chunk(choice)).collect()
    }

    /// The chunks at the end.
    pub(crate) fn closing(&self, summary: &Summary) -> Vec<Value> {
        let usage = self.usage(summary);
        let choice = match self.kind {
            Kind::Chat { .. } => chat::closing(summary, &usage),
            Kind::Text => text::closing(summary),
        };
        let mut chunks = vec![self.chunk(choice)];
        if self.head.include_usage {
            let mut last = self.document(self.chunk_object(), json!([]));
            last.insert("usage".to_owned(), usage);
            chunks.push(Value::Object(last));
        }
        chunks
    }

    fn chunk(&self, choice: Value) -> Value {
        Value::Object(self.document(self.chunk_object(), json!([choice])))
    }

    fn chunk_object(&self) -> &'static str {
        match self.kind {
            Kind::Chat { .. } => "chat.completion.chunk",
            Kind::Text => "text_completion",
        }
    }

    fn document(&self, object: &str, choices: Value) -> Map<String, Value> {
        let Head { id, created, model, fingerprint, .. } = &self.head;
        let mut document = Map::new();
        for (name, value) in [
            ("id", json!(id)),
            ("object", json!(object)),
            ("created", json!(created)),
            ("model", json!(model)),
            ("system_fingerprint", json!(fingerprint)),
            ("choices", choices),
        ] {
            document.insert(name.to_owned(), value);
        }
        document
    }

    /// A reused state may cover the opening of the reply, which is not counted as prompt.
    fn usage(&self, summary: &Summary) -> Value {
        let prompt = self.head.prompt_tokens;
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": summary.tokens,
            "total_tokens": prompt + summary.tokens,
            "prompt_tokens_details": { "cached_tokens": summary.cached.min(prompt) },
            "completion_tokens_details": { "reasoning_tokens": summary.reasoning_tokens },
        })
    }
}

/// A cancelled reply is never told as one, so what remains is a limit.
fn finish_word(summary: &Summary) -> &'static str {
    match summary.answer.finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length | Finish::Cancelled => "length",
    }
}
