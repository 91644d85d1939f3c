//! Endpoints that answer at once.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};

use super::generate::{off_thread, parse, render};
use super::{ApiError, Body, body, json as document, text};
use crate::app::{App, Model, Phase};
use crate::request::chat;
use crate::request::fields::{Fields, wrong_type};

pub(super) fn health(app: &App) -> Response<Body> {
    match (app.phase(), app.model.get()) {
        (Phase::Serving, Some(_)) => document(StatusCode::OK, &json!({ "status": "ok" })),
        (Phase::Serving, None) => super::refusal(&ApiError::loading()),
        _ => super::refusal(&ApiError::shutting_down()),
    }
}

pub(super) fn version() -> Response<Body> {
    document(StatusCode::OK, &json!({ "version": env!("CARGO_PKG_VERSION") }))
}

pub(super) fn metrics(app: &App) -> Response<Body> {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    text(StatusCode::OK, kind, app.metrics.text(app.gauges()))
}

pub(super) fn models(app: &App) -> Response<Body> {
    let data = json!([described(app, &app.settings.model)]);
    document(StatusCode::OK, &json!({ "object": "list", "data": data }))
}

pub(super) fn model(app: &App, name: &str) -> Result<Response<Body>, ApiError> {
    let served = &app.settings.model;
    if name == served || app.settings.aliases.iter().any(|alias| alias == name) {
        Ok(document(StatusCode::OK, &described(app, name)))
    } else {
        Err(ApiError::model(&crate::request::fields::shown(name), served))
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
    app: &Arc<App>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    on_body(app, request, |model, fields| {
        let tokens = match fields.string("content")?.or(fields.string("prompt")?) {
            Some(text) => model.tokenizer.encode_text(text),
            None if fields.get("messages").is_some() => {
                render(model, &chat::conversation(fields)?.0)?
            }
            None => {
                let message = "give content, prompt or messages";
                return Err(ApiError::missing("content", message));
            }
        };
        Ok(json!({ "count": tokens.len(), "tokens": tokens }))
    })
    .await
}

/// Ids into text.
pub(super) async fn detokenize(
    app: &Arc<App>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    on_body(app, request, |model, fields| {
        let tokens = fields
            .array("tokens")?
            .ok_or_else(|| ApiError::missing("tokens", "tokens is missing"))?;
        let id = |(at, value): (usize, &Value)| {
            let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
            id.ok_or_else(|| wrong_type(&format!("tokens[{at}]"), "a token id", value))
        };
        let ids: Vec<u32> = tokens.iter().enumerate().map(id).collect::<Result<_, _>>()?;
        let text = model.tokenizer.text(&ids);
        let text = text.map_err(|error| ApiError::value("tokens", error.to_string()))?;
        Ok(json!({ "content": text, "prompt": text }))
    })
    .await
}

async fn on_body(
    app: &Arc<App>,
    request: Request<Incoming>,
    work: fn(&Model, &Fields<'_>) -> Result<Value, ApiError>,
) -> Result<Response<Body>, ApiError> {
    app.model()?;
    let body = body::read(request, &app.settings).await?;
    let shared = app.clone();
    let answer = off_thread(move || {
        let value = parse(&body)?;
        work(shared.model()?, &Fields::of_request(&value)?)
    })
    .await?;
    Ok(document(StatusCode::OK, &answer))
}
