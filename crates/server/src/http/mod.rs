//! From a request on the wire to a response: who may ask, what is asked, the form of refusals.

mod answer;
mod body;
mod error;
mod generate;
mod guard;
mod host;
mod messages;
mod page;
mod prompt;
mod props;
mod responses;
mod small;
mod unread;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use serde_json::Value;

pub(crate) use body::pieces;
pub(crate) use error::ApiError;

use crate::app::App;
pub(crate) use guard::Guest;
use guard::{Door, Endpoint};
pub(crate) use unread::{unread, unspoken};

type Routes = MethodRouter<Arc<App>>;

/// Every endpoint under its path. Each path is served with and without `/v1`, with and without a slash at its end.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let door = |endpoint| from_fn_with_state(Door { app: app.clone(), endpoint }, guard::answer);
    let named = Endpoint::named;
    let health = named("health").open();
    let endpoints = [
        ("/chat/completions", named("chat").logged(), posted(generate::chat)),
        ("/chat/completions/control", named("control"), posted(small::control)),
        ("/completions", named("completions").logged(), posted(generate::completion)),
        ("/responses", named("responses").logged(), posted(responses::create)),
        ("/messages", named("messages").logged().anthropic(), posted(messages::create)),
        (
            "/messages/count_tokens",
            named("count_tokens").anthropic(),
            posted(messages::count_tokens),
        ),
        ("/tokenize", named("tokenize"), posted(small::tokenize)),
        ("/detokenize", named("detokenize"), posted(small::detokenize)),
        ("/models", named("models"), read(small::models)),
        ("/models/{*id}", named("models"), read(small::model)),
        ("/health", health, read(small::health)),
        ("/healthz", health, read(small::health)),
        ("/metrics", named("metrics"), read(small::metrics)),
        ("/version", named("version"), read(small::version)),
        ("/props", named("props"), read(props::props)),
        ("/slots", named("slots"), read(props::slots)),
    ];
    let mut router = Router::new();
    for (path, endpoint, routes) in endpoints {
        let routes = routes.layer(door(endpoint));
        let ends: &[&str] = if path.ends_with('}') { &[""] } else { &["", "/"] };
        for (prefix, end) in ["", "/v1"].into_iter().flat_map(|p| ends.iter().map(move |e| (p, e)))
        {
            router = router.route(&format!("{prefix}{path}{end}"), routes.clone());
        }
    }
    let unknown = |request: Request| async move {
        let error = ApiError::not_found(request.uri().path());
        guard::refuse_unread(error, request.into_body()).await
    };
    router = router.route("/", read(page::page).layer(door(named("page").open())));
    router.fallback(unknown.layer(door(named("other")))).with_state(app.clone())
}

/// An endpoint that takes a body.
fn posted<T: 'static>(handler: impl Handler<T, Arc<App>>) -> Routes {
    post(handler).fallback(|request: Request| wrong_method("POST", request))
}

/// An endpoint that only tells.
fn read<T: 'static>(handler: impl Handler<T, Arc<App>>) -> Routes {
    get(handler).fallback(|request: Request| wrong_method("GET, HEAD", request))
}

async fn wrong_method(allow: &'static str, request: Request) -> Response {
    let mut response = guard::refuse_unread(ApiError::method(allow), request.into_body()).await;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// A JSON document.
pub(crate) fn json(status: StatusCode, document: &Value) -> Response {
    written(status, document.to_string())
}

/// A JSON document that is written already.
fn written(status: StatusCode, document: String) -> Response {
    text(status, "application/json", document)
}

fn text(status: StatusCode, kind: &'static str, text: impl Into<Body>) -> Response {
    (status, [(CONTENT_TYPE, kind)], text.into()).into_response()
}

/// Sets a header to a text that is one by construction, or leaves it out.
pub(crate) fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// What follows on this connection would be taken for a request.
fn close(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
}
