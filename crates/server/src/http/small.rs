//! Endpoints that answer at once.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::body::{Payload, off_thread};
use super::prompt::render;
use super::{ApiError, json as document, text};
use crate::app::{App, Model, Phase};
use crate::request::fields::{Fields, shown, wrong_type};
use crate::request::{Conversation, chat};
use crate::room::Lease;

pub(super) async fn health(State(app): State<Arc<App>>) -> Response {
    match (app.phase(), app.model.get()) {
        (Phase::Serving, Some(_)) => document(StatusCode::OK, &json!({ "status": "ok" })),
        (Phase::Serving, None) => ApiError::loading().into_response(),
        _ => ApiError::shutting_down().into_response(),
    }
}

pub(super) async fn version() -> Response {
    document(StatusCode::OK, &json!({ "version": env!("CARGO_PKG_VERSION") }))
}

pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    text(StatusCode::OK, kind, app.metrics.text(app.gauges()))
}

pub(super) async fn models(State(app): State<Arc<App>>) -> Response {
    let data = json!([described(&app, &app.settings.model)]);
    document(StatusCode::OK, &json!({ "object": "list", "data": data }))
}

pub(super) async fn model(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let served = &app.settings.model;
    // No name of a model has bytes that are no text.
    let Ok(Path(name)) = name else { return Err(ApiError::model("\u{fffd}", served)) };
    let name = name.trim_end_matches('/');
    if name == served || app.settings.aliases.iter().any(|alias| alias == name) {
        Ok(document(StatusCode::OK, &described(&app, name)))
    } else {
        Err(ApiError::model(&shown(name), served))
    }
}

/// The context is known once the model is loaded.
fn described(app: &App, name: &str) -> Value {
    let context = app.model.get().map(|model| model.backend.facts().context);
    json!({
        "id": name,
        "object": "model",
        "created": app.since,
        "owned_by": "deltafin",
        "max_model_len": context,
        "context_length": context,
    })
}

/// Text or a conversation into ids.
pub(super) async fn tokenize(
    State(app): State<Arc<App>>,
    payload: Payload,
) -> Result<Response, ApiError> {
    on_body(app, payload, |app, model, fields| {
        let tokens = match fields.string("content")?.or(fields.string("prompt")?) {
            Some(text) => model.tokenizer.encode_text(text),
            None if fields.get("messages").is_some() => {
                let usual = app.settings.default_effort;
                let Conversation { request, results, .. } = chat::conversation(fields, usual)?;
                render(model, "messages", &request, &results)?
            }
            None => {
                let message = "give content, prompt or messages";
                return Err(ApiError::missing("content", message));
            }
        };
        Ok(told(&tokens))
    })
    .await
}

/// Ids as a document. Not by way of values, each of which would take twenty times as much as an id, and in
/// one piece of memory that does not grow.
fn told(ids: &[u32]) -> String {
    const ID_BYTES: usize = "163840,".len();
    let mut document = String::with_capacity(ids.len() * ID_BYTES + 64);
    let _ = write!(document, "{{\"count\":{},\"tokens\":[", ids.len());
    for (at, id) in ids.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(document, "{comma}{id}");
    }
    document.push_str("]}");
    document
}

/// Ids into text.
pub(super) async fn detokenize(
    State(app): State<Arc<App>>,
    payload: Payload,
) -> Result<Response, ApiError> {
    let (ids, lease) = payload.read(app.clone(), ids).await?;
    // They are few and small, and their text may be much longer than their body was.
    drop(lease);
    let model = app.model()?;
    let length = ids.iter().map(|id| model.tokenizer.token_bytes(*id).map_or(0, <[u8]>::len));
    let lease = model.room.answering(length.sum(), &app.lines).await?;
    // Whoever leaves meanwhile, the room is taken until this is done.
    let answered = off_thread(move || {
        let text = app.model()?.tokenizer.text(&ids);
        let text = text.map_err(|error| ApiError::value("tokens", error.to_string()))?;
        Ok(leased(said_twice(&text)?, lease))
    });
    answered.await
}

fn ids(_: &App, model: &Model, fields: &Fields<'_>) -> Result<Vec<u32>, ApiError> {
    let tokens = fields.array("tokens")?.ok_or_else(|| fields.missing("tokens"))?;
    let (count, context) = (tokens.len(), model.backend.facts().context);
    if count > context {
        let message = format!("tokens has {count} ids, more than the context of {context}");
        return Err(ApiError::value("tokens", message));
    }
    let id = |(at, value): (usize, &Value)| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| wrong_type(&format!("tokens[{at}]"), "a token id", value))
    };
    tokens.iter().enumerate().map(id).collect()
}

/// A text under both names that clients look for, in one piece of memory that does not grow.
fn said_twice(text: &str) -> Result<String, ApiError> {
    let broken = |error: serde_json::Error| ApiError::internal(&error.to_string());
    let mut count = Count(0);
    serde_json::to_writer(&mut count, text).map_err(broken)?;
    let mut document = Vec::with_capacity(2 * count.0 + 64);
    for (name, end) in [("{\"content\":", ","), ("\"prompt\":", "}")] {
        document.extend_from_slice(name.as_bytes());
        serde_json::to_writer(&mut document, text).map_err(broken)?;
        document.extend_from_slice(end.as_bytes());
    }
    String::from_utf8(document).map_err(|error| ApiError::internal(&error.to_string()))
}

/// Bytes that were written.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Steers a generation that runs.
pub(super) async fn control(
    State(app): State<Arc<App>>,
    payload: Payload,
) -> Result<Response, ApiError> {
    on_body(app, payload, |app, _, fields| {
        let id = fields.needed_string("id")?;
        match fields.needed_string("action")? {
            "reasoning_end" => {}
            other => {
                let message = format!("action is '{}': use reasoning_end", shown(other));
                return Err(ApiError::value("action", message));
            }
        }
        let applied = app.controls.end_reasoning(id).ok_or_else(|| ApiError::reply(&shown(id)))?;
        Ok(json!({ "id": id, "action": "reasoning_end", "applied": applied }).to_string())
    })
    .await
}

pub(super) async fn on_body(
    app: Arc<App>,
    payload: Payload,
    work: fn(&App, &Model, &Fields<'_>) -> Result<String, ApiError>,
) -> Result<Response, ApiError> {
    let (answer, lease) = payload.read(app, work).await?;
    Ok(leased(answer, lease))
}

fn leased(document: String, lease: Lease) -> Response {
    text(StatusCode::OK, "application/json", lease.around(document))
}
