//! Bodies, both ways.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Request;
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::ApiError;
use crate::settings::Settings;

/// What a response says: all at once, or as it comes.
#[derive(Debug)]
pub(crate) enum Body {
    Whole(Option<Bytes>),
    Pieces(mpsc::Receiver<Bytes>),
}

impl From<String> for Body {
    fn from(text: String) -> Body {
        Body::Whole(Some(Bytes::from(text)).filter(|bytes| !bytes.is_empty()))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match self.get_mut() {
            Body::Whole(bytes) => Poll::Ready(bytes.take()),
            Body::Pieces(pieces) => pieces.poll_recv(context),
        };
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Body::Pieces(_) => SizeHint::default(),
        }
    }
}

/// A request's body, within its bound. One that says it is too long is refused unread.
pub(crate) async fn read(
    request: Request<Incoming>,
    settings: &Settings,
) -> Result<Vec<u8>, ApiError> {
    let limit = settings.max_body_bytes;
    let headers = request.headers();
    if !headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING) {
        return Err(ApiError::length_required());
    }
    let mut body = request.into_body();
    if body.size_hint().lower() > limit as u64 {
        return Err(ApiError::too_large(limit));
    }
    let mut bytes = Vec::new();
    loop {
        let piece = timeout(settings.body_pause_limit, piece(&mut body)).await;
        match piece.map_err(|_| ApiError::body_timeout())? {
            None => return Ok(bytes),
            Some(Err(error)) => return Err(ApiError::json(format!("the body broke off: {error}"))),
            Some(Ok(piece)) if bytes.len() + piece.len() > limit => {
                return Err(ApiError::too_large(limit));
            }
            Some(Ok(piece)) => bytes.extend_from_slice(&piece),
        }
    }
}

/// Reads a small body for nothing; says whether all of it is gone.
pub(crate) async fn discard(mut body: Incoming) -> bool {
    const MOST_BYTES: u64 = 256 << 10;
    const PATIENCE: Duration = Duration::from_secs(1);
    if body.size_hint().lower() > MOST_BYTES {
        return false;
    }
    let all = async {
        let mut taken = 0;
        while let Some(Ok(piece)) = piece(&mut body).await {
            taken += piece.len() as u64;
            if taken > MOST_BYTES {
                return false;
            }
        }
        true
    };
    timeout(PATIENCE, all).await.unwrap_or(false)
}

/// The next data; trailers say nothing here.
async fn piece(body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
    loop {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await? {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data));
                }
            }
            Err(error) => return Some(Err(error)),
        }
    }
}
