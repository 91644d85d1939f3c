//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;

use crate::app::App;
use crate::http::{self, Guest};
use crate::line::{Line, Patience};
use crate::passing::Passing;
use crate::room::{HEAD_BYTES, earned};
use crate::speech::Speech;

/// How long a connection is welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    /// As long as both want.
    Usual,
    /// For one answer, for there is no place.
    Guest,
    /// The same, for the server is about to end: it goes on after that for nobody.
    Late,
}

/// How long a guest may say nothing.
const GUEST_PATIENCE: Duration = Duration::from_secs(2);

/// Answers over a line until it is over. Who is a guest is answered once.
pub(crate) async fn converse(app: &Arc<App>, router: Router, line: Arc<Line>, stay: Stay) {
    let is_guest = stay != Stay::Usual;
    let asked_to_leave = async || match stay {
        // Whoever comes now knows nothing of it yet.
        Stay::Late => pending().await,
        _ => app.drains().await,
    };
    let (listening, stall) = (line.clone(), app.settings.stall_limit);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request: Request<Incoming>| {
        let line = listening.clone();
        line.asked(!request.body().is_end_stream());
        let mut request = request.map(|body| Passing::heard(body, line.clone()));
        request.extensions_mut().insert(line.clone());
        if is_guest {
            request.extensions_mut().insert(Guest);
        }
        let response = router.call(request);
        async move {
            let response = response.await?;
            // What is told as it is made may take its time; what is there already takes room.
            let length = response.body().size_hint().exact();
            line.answered(length.map(|bytes| stall.saturating_add(earned(bytes))));
            Ok::<_, Infallible>(response.map(|body| Passing::said(body, line)))
        }
    });
    let refuser = app.clone();
    let refuse = Box::new(move |status| http::unread(&refuser, status));
    let speech = Speech::new(line.clone(), refuse);
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        // Who has finished sending may still listen: the endpoints find out, over the line.
        .half_close(true)
        .max_buf_size(HEAD_BYTES)
        // What is there when a head has ended may be a little more than the buffer.
        .max_header_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(speech), service);
    let mut connection = std::pin::pin!(connection);
    let conversation = async {
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = asked_to_leave() => None,
        };
        match ended {
            Some(Err(error)) if error.is_parse_version_h2() => line.say(&http::unspoken(app)).await,
            Some(_) => {}
            None => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
        line.linger().await;
    };
    tokio::select! {
        () = conversation => {}
        () = line.over(patience(app, is_guest), asked_to_leave()) => {}
    }
}

fn patience(app: &App, is_guest: bool) -> Patience {
    let settings = &app.settings;
    let short = |usual: Duration| if is_guest { usual.min(GUEST_PATIENCE) } else { usual };
    Patience {
        idle: short(settings.idle_limit),
        head: short(settings.head_limit),
        stall: settings.stall_limit,
    }
}
