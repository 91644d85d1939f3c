//! What a client reads: documents, and the chunks of a stream. Both say the same.

mod chat;
mod logprobs;
mod message;
mod responses;
mod scribe;
pub(crate) mod stream;
mod text;

use std::fmt::Write as _;

use deltafin_text::reply::Finish;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::http::ApiError;
use crate::sink::{Piece, Summary};
use message::Blocks;
pub(crate) use message::fault as message_fault;
pub(crate) use responses::Frame;
use responses::Items;
use scribe::{Scribe, data};

/// What all documents of one reply share.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) fingerprint: String,
    pub(crate) prompt_tokens: usize,
    pub(crate) include_usage: bool,
    /// Signs of life are chunks as well as comments.
    pub(crate) ping_chunks: bool,
}

/// The form of a reply.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    head: Head,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Chat { thinking: bool },
    Text,
    Message,
    Response(Box<Frame>),
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

    /// One of Anthropic's messages.
    pub(crate) fn message(head: Head) -> Shape {
        Shape { head, kind: Kind::Message }
    }

    /// A response: a list of items.
    pub(crate) fn response(frame: Frame) -> Shape {
        Shape { head: frame.head.clone(), kind: Kind::Response(Box::new(frame)) }
    }

    /// The name of the reply.
    pub(crate) fn id(&self) -> &str {
        &self.head.id
    }

    /// The reply as one document of JSON.
    pub(crate) fn whole(&self, app: &App, summary: &Summary) -> String {
        let (object, choice, logprobs) = match &self.kind {
            Kind::Chat { thinking } => {
                let choice = chat::choice(app, summary, *thinking);
                ("chat.completion", choice, chat::logprobs_of(summary))
            }
            Kind::Text => ("text_completion", text::choice(summary), text::logprobs_of(summary)),
            Kind::Message => return message::whole(app, &self.head, summary).to_string(),
            Kind::Response(frame) => return frame.whole(app, summary),
        };
        let choice = with_written(choice.as_object(), "logprobs", &logprobs);
        let mut document = self.document(object, Value::Null);
        document.insert("usage".to_owned(), self.usage(summary));
        with_written(Some(&document), "choices", &format!("[{choice}]"))
    }

    /// A failure, where the status was sent before it struck.
    pub(crate) fn fault(&self, error: &ApiError) -> Value {
        match &self.kind {
            Kind::Chat { .. } | Kind::Text => error.document(),
            Kind::Message => message::fault(error),
            Kind::Response(frame) => frame.failed(error),
        }
    }

    /// Who writes the reply as a stream.
    pub(crate) fn scribe(self) -> Box<dyn Scribe> {
        match self.kind {
            Kind::Chat { .. } | Kind::Text => Box::new(self),
            Kind::Message => Box::new(Blocks::new(self.head)),
            Kind::Response(frame) => Box::new(Items::new(*frame)),
        }
    }

    fn chunk(&self, choice: Value) -> Value {
        Value::Object(self.document(self.chunk_object(), json!([choice])))
    }

    fn chunk_object(&self) -> &'static str {
        match self.kind {
            Kind::Chat { .. } => "chat.completion.chunk",
            _ => "text_completion",
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

/// Chats and completions: chunks without names.
impl Scribe for Shape {
    fn opening(&mut self) -> Vec<String> {
        match self.kind {
            Kind::Chat { .. } => vec![data(&self.chunk(chat::opening()))],
            _ => Vec::new(),
        }
    }

    fn piece(&mut self, app: &App, piece: &Piece) -> Vec<String> {
        let choices = match self.kind {
            Kind::Chat { .. } => chat::pieces(app, piece),
            _ => text::pieces(piece),
        };
        choices.into_iter().map(|choice| data(&self.chunk(choice))).collect()
    }

    fn closing(&mut self, _: &App, summary: &Summary) -> Vec<String> {
        let usage = self.usage(summary);
        let choice = match self.kind {
            Kind::Chat { .. } => chat::closing(summary, &usage),
            _ => text::closing(summary),
        };
        let mut events = vec![data(&self.chunk(choice))];
        if self.head.include_usage {
            let mut last = self.document(self.chunk_object(), json!([]));
            last.insert("usage".to_owned(), usage);
            events.push(data(&Value::Object(last)));
        }
        events.push("data: [DONE]\n\n".to_owned());
        events
    }

    fn sign_of_life(&mut self, status: &str) -> String {
        let comment = format!(": {status}\n\n");
        if !self.head.ping_chunks {
            return comment;
        }
        let choice = match self.kind {
            Kind::Chat { .. } => chat::silence(),
            _ => text::silence(),
        };
        comment + &data(&self.chunk(choice))
    }

    fn fault(&mut self, error: &ApiError) -> Vec<String> {
        vec![data(&error.document())]
    }
}

/// An object as text, with the text of one member in place of its value.
fn with_written(object: Option<&Map<String, Value>>, name: &str, text: &str) -> String {
    let mut whole = String::with_capacity(text.len() + 512);
    for (member, value) in object.into_iter().flatten() {
        whole.push(if whole.is_empty() { '{' } else { ',' });
        // Writing to a text does not fail.
        let _ = match member == name {
            true => write!(whole, "{}:{text}", json!(member)),
            false => write!(whole, "{}:{value}", json!(member)),
        };
    }
    if whole.is_empty() { "{}".to_owned() } else { whole + "}" }
}

/// A cancelled reply is never told as one, so what remains is a limit.
fn finish_word(summary: &Summary) -> &'static str {
    match summary.answer.finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length | Finish::Cancelled => "length",
    }
}
