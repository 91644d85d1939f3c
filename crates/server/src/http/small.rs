//! Endpoints that answer at once.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::body::Payload;
use super::prompt::render;
use super::{ApiError, json as document, text};
use crate::app::{App, Model, Phase};
use crate::request::fields::{Fields, shown, wrong_type};
use crate::request::{Conversation, chat};

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
        // Not by way of values: each would take twenty times as much as an id.
        let ids = serde_json::to_string(&tokens);
        let ids = ids.map_err(|error| ApiError::internal(&error.to_string()))?;
        Ok(format!("{{\"count\":{},\"tokens\":{ids}}}", tokens.len()))
    })
    .await
}

/// Ids into text.
pub(super) async fn detokenize(
    State(app): State<Arc<App>>,
    payload: Payload,
) -> Result<Response, ApiError> {
    on_body(app, payload, |_, model, fields| {
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
        let ids: Vec<u32> = tokens.iter().enumerate().map(id).collect::<Result<_, _>>()?;
        let text = model.tokenizer.text(&ids);
        let text = text.map_err(|error| ApiError::value("tokens", error.to_string()))?;
        Ok(json!({ "content": text, "prompt": text }).to_string())
    })
    .await
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
    let mut response = text(StatusCode::OK, "application/json", answer);
    response.extensions_mut().insert(lease);
    Ok(response)
}
