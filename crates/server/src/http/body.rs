//! Bodies, both ways.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http_body_util::{BodyExt as _, Limited};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::ApiError;
use crate::app::App;

/// A response's body that comes as it is sent.
pub(crate) fn pieces(mut pieces: mpsc::Receiver<Bytes>) -> Body {
    Body::from_stream(futures_util::stream::poll_fn(move |context| {
        pieces.poll_recv(context).map(|piece| piece.map(Ok::<_, Infallible>))
    }))
}

/// A request's body, within its bound. One that says it is too long is refused unread, and nothing
/// is read for a model that is not there.
#[derive(Debug)]
pub(super) struct Payload(pub(super) Vec<u8>);

impl FromRequest<Arc<App>> for Payload {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Payload, ApiError> {
        app.model()?;
        let headers = request.headers();
        if !headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING) {
            return Err(ApiError::length_required());
        }
        let limit = app.settings.max_body_bytes;
        let body = request.into_body();
        if body.size_hint().lower() > limit as u64 {
            return Err(ApiError::too_large(limit));
        }
        let mut body = Limited::new(body, limit);
        let mut bytes = Vec::new();
        while let Some(frame) = timeout(app.settings.body_pause_limit, body.frame())
            .await
            .map_err(|_| ApiError::body_timeout())?
        {
            match frame {
                // Trailers say nothing here.
                Ok(frame) => bytes.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
                Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                    return Err(ApiError::too_large(limit));
                }
                Err(error) => return Err(ApiError::json(format!("the body broke off: {error}"))),
            }
        }
        Ok(Payload(bytes))
    }
}

/// Reads a small body for nothing; says whether all of it is gone.
pub(super) async fn discard(body: Body) -> bool {
    const MOST_BYTES: usize = 256 << 10;
    const PATIENCE: Duration = Duration::from_secs(1);
    if body.size_hint().lower() > MOST_BYTES as u64 {
        return false;
    }
    let all = Limited::new(body, MOST_BYTES).collect();
    timeout(PATIENCE, all).await.is_ok_and(|read| read.is_ok())
}
