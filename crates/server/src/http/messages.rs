//! Anthropic's Messages: chats under other names, with errors in another form.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, HeaderName};
use axum::response::Response;
use serde_json::json;

use super::body::Payload;
use super::generate::{Asked, Prepared, fresh_seed, generate, policy, prepare};
use super::prompt::{OPENING_TOKENS, render};
use super::small::on_body;
use super::{ApiError, set};
use crate::app::{App, Model};
use crate::request::fields::Fields;
use crate::request::{Conversation, anthropic};
use crate::response::{Shape, message_fault};

/// Where the request's name stands for Anthropic's clients.
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// What Anthropic's clients take for a server that has enough to do.
const OVERLOADED: u16 = 529;

/// `/v1/messages`.
pub(super) async fn create(asked: Asked, body: Payload) -> Result<Response, ApiError> {
    generate(asked, body, prepare_message).await
}

/// Agents ask for several models by name, and there is one.
fn prepare_message(app: &App, model: &Model, fields: &Fields<'_>) -> Result<Prepared, ApiError> {
    let chat = anthropic::read(fields, policy(app, &fresh_seed(app)))?;
    prepare(app, model, chat, ("messages", "msg_"), Shape::message)
}

/// `/v1/messages/count_tokens`.
pub(super) async fn count_tokens(
    app: State<Arc<App>>,
    body: Payload,
) -> Result<Response, ApiError> {
    on_body(app.0, body, |_, model, fields| {
        let Conversation { request, results, .. } = anthropic::conversation(fields)?;
        let prompt = render(model, "messages", &request, &results)?;
        Ok(json!({ "input_tokens": prompt.len().saturating_sub(OPENING_TOKENS) }).to_string())
    })
    .await
}

/// A response as these clients read it: a refusal gets their form and their status.
pub(super) fn in_dialect(mut response: Response, id: &str) -> Response {
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        *response.body_mut() = Body::from(message_fault(&error).to_string());
        response.headers_mut().remove(CONTENT_LENGTH);
        if error.status == StatusCode::TOO_MANY_REQUESTS
            && let Ok(status) = StatusCode::from_u16(OVERLOADED)
        {
            *response.status_mut() = status;
        }
    }
    set(response.headers_mut(), REQUEST_ID, id);
    response
}
