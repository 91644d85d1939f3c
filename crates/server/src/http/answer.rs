//! From a generation to its response, whole or streamed, for as long as its client is there.
//!
//! Promises: who streams is gone when it closes its side; who waits for the whole may close its side and
//! listen, and is gone when what is sent to it does not arrive.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{StatusCode, Version};
use axum::response::{IntoResponse as _, Response};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::{pieces, written};
use crate::app::App;
use crate::generation::Generation;
use crate::line::Line;
use crate::log::Entry;
use crate::response::{Shape, stream};

/// Pieces of a response that may wait for the socket.
const PIECES_MAX: usize = 16;
/// The first pause between signs of life to a client that has finished sending; each is twice the one before.
/// A host whose client is gone refuses the first sign, and then none can be sent any more.
const DOUBT: Duration = Duration::from_millis(200);

/// A response that comes as it is generated.
pub(super) fn streamed(
    app: &Arc<App>,
    generation: Generation,
    shape: Shape,
    line: Arc<Line>,
) -> Response {
    let (sender, body) = mpsc::channel(PIECES_MAX);
    let settings = &app.settings;
    let out =
        stream::Out { pieces: sender, ping: settings.ping_interval, stall: settings.stall_limit };
    let telling = stream::run(generation, shape.scribe(), app.clone(), out);
    tokio::spawn(async move {
        tokio::select! {
            () = telling => {}
            // Never comes back: with the connection the body goes, by which the telling ends.
            () = line.finished(true) => {}
        }
    });
    let mut response = Response::new(pieces(body));
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A response in one piece. The status is held back for a while, so that quick failures have their
/// own; then it is 200, and blanks keep the connection alive until the document is there. A client that
/// has finished sending gets them at once: nothing else tells whether it is there.
pub(super) async fn whole(
    app: &Arc<App>,
    mut generation: Generation,
    shape: Shape,
    version: Version,
    line: Arc<Line>,
) -> Response {
    let settings = &app.settings;
    // A client that cannot read chunks must wait for the length.
    let patient = version < Version::HTTP_11 || settings.ping_interval.is_zero();
    let hold = if patient { Duration::MAX } else { settings.status_hold };
    let strict = settings.cancel_on_eof || hold == Duration::MAX;
    let ended = tokio::select! {
        biased;
        ended = timeout(hold, generation.whole()) => ended.ok(),
        () = line.finished(strict) => None,
    };
    match ended {
        Some(Ok(summary)) => written(StatusCode::OK, shape.whole(app, &summary)),
        Some(Err(error)) => error.into_response(),
        None => {
            let (sender, body) = mpsc::channel(PIECES_MAX);
            tokio::spawn(blanks(app.clone(), generation, shape, sender, line));
            let mut response = Response::new(pieces(body));
            let kind = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
    }
}

async fn blanks(
    app: Arc<App>,
    mut generation: Generation,
    shape: Shape,
    pieces: mpsc::Sender<Bytes>,
    line: Arc<Line>,
) {
    let settings = &app.settings;
    let (mut pause, mut is_sending) = (settings.ping_interval, true);
    let document = loop {
        if pieces.try_send(Bytes::from_static(b" ")).is_err() && pieces.is_closed() {
            return;
        }
        tokio::select! {
            ended = generation.whole() => break match ended {
                Ok(summary) => shape.whole(&app, &summary),
                Err(error) => {
                    let words = format!("an error was sent under status 200: {}", error.message);
                    app.log(&Entry::new("late_error", words).with("code", error.code));
                    shape.fault(&error).to_string()
                }
            },
            () = pieces.closed() => return,
            () = line.finished(settings.cancel_on_eof), if is_sending => {
                (pause, is_sending) = (DOUBT.min(settings.ping_interval), false);
            }
            () = sleep(pause) => pause = (pause * 2).min(settings.ping_interval),
        }
    };
    let _ = pieces.send(Bytes::from(document)).await;
}
