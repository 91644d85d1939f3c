//! The answer to bytes that are no request.

use axum::http::StatusCode;

use super::ApiError;
use crate::app::App;
use crate::log::Entry;

/// The whole answer, with the status that was found for it. What follows on its connection is not looked at.
pub(crate) fn unread(app: &App, status: u16) -> Vec<u8> {
    let error = ApiError::unread(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST));
    let (id, status) = (noted(app, &error), error.status);
    let body = error.document().to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-request-id: {id}\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The whole answer to a client that speaks HTTP/2 from its first byte, in frames that it understands: RFC 9113 has
/// a code for servers that want HTTP/1.1. The error's document is what such clients show for debugging.
pub(crate) fn unspoken(app: &App) -> Vec<u8> {
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    const HTTP_1_1_REQUIRED: u32 = 13;
    let error = ApiError::unspoken();
    noted(app, &error);
    let none_taken = 0_u32.to_be_bytes();
    let document = error.document().to_string();
    let reason = [&none_taken[..], &HTTP_1_1_REQUIRED.to_be_bytes(), document.as_bytes()].concat();
    [frame(SETTINGS, &[]), frame(GOAWAY, &reason)].concat()
}

/// A frame about the whole connection.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let (flags, stream) = ([0], [0; 4]);
    [&length[1..], &[kind], &flags, &stream, payload].concat()
}

/// Counts and logs it under a name of its own.
fn noted(app: &App, error: &ApiError) -> String {
    let (id, status) = (app.fresh("req_"), error.status.as_u16());
    app.metrics.answered("other", status);
    let entry = Entry::new("request", format!("{id} {status}: {}", error.message));
    app.log(&entry.with("request", id.as_str()).with("status", status));
    id
}
