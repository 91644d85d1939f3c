//! The answer to bytes that are no request.

use axum::http::StatusCode;

use super::ApiError;
use crate::app::App;
use crate::log::Entry;

/// The whole answer, with the status that was found for it. What follows on its connection is not looked at.
pub(crate) fn unread(app: &App, status: u16) -> Vec<u8> {
    let error = ApiError::unread(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST));
    let (id, status) = (app.fresh("req_"), error.status);
    app.metrics.answered("other", status.as_u16());
    let entry = Entry::new("request", format!("{id} {}: {}", status.as_u16(), error.message));
    app.log(&entry.with("request", id.as_str()).with("status", status.as_u16()));
    let body = error.document().to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-request-id: {id}\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
