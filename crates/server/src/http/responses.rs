//! Responses: chats under other names, of which nothing is kept.

use axum::response::Response;

use super::ApiError;
use super::body::Payload;
use super::generate::{Asked, Prepared, check_model, fresh_seed, generate, policy, prepare};
use crate::app::{App, Model};
use crate::request::fields::Fields;
use crate::request::responses;
use crate::response::{Frame, Shape};

/// `/v1/responses`.
pub(super) async fn create(asked: Asked, body: Payload) -> Result<Response, ApiError> {
    generate(asked, body, prepare_response).await
}

fn prepare_response(app: &App, model: &Model, fields: &Fields<'_>) -> Result<Prepared, ApiError> {
    check_model(app, fields)?;
    let responses::Asked { chat, repeated, custom } =
        responses::read(fields, policy(app, &fresh_seed(app)))?;
    prepare(app, model, chat, ("input", "resp_"), |head| {
        Shape::response(Frame { head, repeated, custom })
    })
}
