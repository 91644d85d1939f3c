//! Bodies, both ways.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::ApiError;
use crate::app::{App, Model};
use crate::request::fields::{Fields, shown};
use crate::room::{Held, Lease, Weight};

/// A response's body that comes as it is sent.
pub(crate) fn pieces(mut pieces: mpsc::Receiver<Bytes>) -> Body {
    Body::from_stream(futures_util::stream::poll_fn(move |context| {
        pieces.poll_recv(context).map(|piece| piece.map(Ok::<_, Infallible>))
    }))
}

/// A body comes so fast on the whole, in bytes a second, once a first pause is over.
const LEAST_RATE: u64 = 64 << 10;

/// A request's body, within its bound. One that says it is too long is refused unread, and nothing
/// is read for a model that is not there.
#[derive(Debug)]
pub(super) struct Payload {
    bytes: Vec<u8>,
    held: Held,
    weight: Weight,
}

impl Payload {
    /// Has the document read, where there is room for that and off the threads that connections need. The
    /// room is kept with what came of it.
    pub(super) async fn read<T: Send + 'static>(
        self,
        app: Arc<App>,
        work: impl FnOnce(&App, &Model, &Fields<'_>) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<(T, Lease), ApiError> {
        let Payload { bytes, held, weight } = self;
        let room = app.model()?.room.reading(weight.bytes()).await?;
        off_thread(move || {
            let read = parse(&bytes)
                .and_then(|value| work(&app, app.model()?, &Fields::of_request(&value)?));
            drop((bytes, held));
            Ok((read?, Lease::new(room)))
        })
        .await
    }
}

/// Reading and tokenizing megabytes takes a while; connections are not to wait for it.
pub(super) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(ApiError::internal("reading the request failed")))
}

/// A body's JSON, whatever its content type says.
fn parse(body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::json(format!("the body is not JSON: {}", shown(&error.to_string())))
    })
}

impl FromRequest<Arc<App>> for Payload {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Payload, ApiError> {
        tokio::select! {
            payload = whole(request, app) => payload,
            // Nothing new is taken, and so nobody waits for the rest of it.
            () = app.drains() => Err(ApiError::shutting_down()),
        }
    }
}

async fn whole(request: Request, app: &App) -> Result<Payload, ApiError> {
    let room = &app.model()?.room;
    let headers = request.headers();
    if !headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING) {
        return Err(ApiError::length_required());
    }
    let limit = room.body_max;
    let body = request.into_body();
    if body.size_hint().lower() > limit as u64 {
        return Err(ApiError::too_large(limit));
    }
    let mut body = Limited::new(body, limit);
    let (mut bytes, mut held, mut weight) = (Vec::new(), room.body(), Weight::default());
    let mut pace = Pace::new(app.settings.body_pause_limit);
    while let Some(frame) = pace.next(body.frame(), bytes.len()).await? {
        match frame {
            // Trailers say nothing here.
            Ok(frame) => {
                let Some(more) = frame.data_ref() else { continue };
                held.grow(bytes.len() + more.len())?;
                weight.add(more);
                bytes.extend_from_slice(more);
            }
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(ApiError::too_large(limit));
            }
            Err(error) => return Err(ApiError::json(format!("the body broke off: {error}"))),
        }
    }
    Ok(Payload { bytes, held, weight })
}

/// How a body comes: without long pauses, and not too slowly on the whole. What has come takes room.
struct Pace {
    pause: Duration,
    began: Instant,
}

impl Pace {
    fn new(pause: Duration) -> Pace {
        Pace { pause, began: Instant::now() }
    }

    /// The next of a body of which so many bytes have come.
    async fn next<T>(
        &mut self,
        next: impl Future<Output = T>,
        bytes: usize,
    ) -> Result<T, ApiError> {
        let earned = Duration::from_secs_f64(bytes as f64 / LEAST_RATE as f64);
        let end = self.began.checked_add(self.pause.saturating_add(earned));
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        timeout(self.pause.min(left), next).await.map_err(|_| ApiError::body_timeout())
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
