//! Bodies, both ways.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::ApiError;
use crate::app::{App, Model};
use crate::request::fields::{Fields, shown};
use crate::room::{Came, Coming, Lease, Weight, earned};

/// A response's body that comes as it is sent.
pub(crate) fn pieces(mut pieces: mpsc::Receiver<Bytes>) -> Body {
    Body::from_stream(futures_util::stream::poll_fn(move |context| {
        pieces.poll_recv(context).map(|piece| piece.map(Ok::<_, Infallible>))
    }))
}

/// What is made of a document of less weight is left to the allocator.
const MUCH_BYTES: u64 = 1 << 20;

/// A request's body, within its bound. One that says it is too long is refused unread, and nothing
/// is read for a model that is not there.
#[derive(Debug)]
pub(super) struct Payload {
    bytes: Vec<u8>,
    room: Came,
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
        let Payload { bytes, room, weight } = self;
        let lease = app.model()?.room.reading(weight.bytes(), &app.lines).await?;
        off_thread(move || {
            let read = parse(&bytes)
                .and_then(|value| work(&app, app.model()?, &Fields::of_request(&value)?));
            drop(bytes);
            if weight.bytes() > MUCH_BYTES {
                (app.settings.freed)();
            }
            // Only now is there room for others.
            drop(room);
            Ok((read?, lease))
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
    // Some editors and shells begin a text with its byte order mark.
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
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
    let encoding = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?"));
    if let Some(encoding) = encoding.filter(|name| !name.trim().eq_ignore_ascii_case("identity")) {
        return Err(ApiError::encoding(&shown(encoding)));
    }
    if !headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING) {
        return Err(ApiError::length_required());
    }
    let limit = room.body_max;
    let body = request.into_body();
    if body.size_hint().lower() > limit as u64 {
        return Err(ApiError::too_large(limit));
    }
    let mut body = Limited::new(body, limit);
    let (mut bytes, mut room, mut weight) = (Vec::new(), room.body(), Weight::default());
    let pace = Pace { pause: app.settings.body_pause_limit, began: Instant::now() };
    while let Some(frame) = pace.next(body.frame(), bytes.len(), &room).await? {
        match frame {
            // Trailers say nothing here.
            Ok(frame) => {
                let Some(more) = frame.data_ref() else { continue };
                hold(&mut bytes, more.len(), limit, &mut room).await?;
                weight.add(more);
                bytes.extend_from_slice(more);
            }
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(ApiError::too_large(limit));
            }
            Err(error) => return Err(ApiError::json(format!("the body broke off: {error}"))),
        }
    }
    Ok(Payload { bytes, room: room.came(), weight })
}

/// Makes place for more bytes. What is allocated counts, and so it grows in small steps.
async fn hold(
    bytes: &mut Vec<u8>,
    more: usize,
    limit: usize,
    room: &mut Coming,
) -> Result<(), ApiError> {
    let wanted = bytes.len() + more;
    let capacity = match wanted <= bytes.capacity() {
        true => bytes.capacity(),
        false => (wanted + wanted / 8).min(limit).max(wanted),
    };
    room.grow(capacity, more).await?;
    bytes.reserve_exact(capacity - bytes.len());
    Ok(())
}

/// How a body comes: without long pauses, and not too slowly on the whole once a first one is over. What has come
/// takes room, and who comes yet more slowly than others gives it to them.
struct Pace {
    pause: Duration,
    began: Instant,
}

impl Pace {
    /// The next of a body of which so many bytes have come.
    async fn next<T>(
        &self,
        next: impl Future<Output = T>,
        bytes: usize,
        room: &Coming,
    ) -> Result<T, ApiError> {
        let end = self.began.checked_add(self.pause.saturating_add(earned(bytes as u64)));
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        tokio::select! {
            biased;
            next = timeout(self.pause.min(left), next) => next.map_err(|_| ApiError::body_timeout()),
            () = room.displaced() => Err(ApiError::displaced()),
        }
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
