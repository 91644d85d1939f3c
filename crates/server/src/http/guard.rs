//! Who may ask: request ids, keys, names of this machine, pages of other origins.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONNECTION, EXPECT, HOST, HeaderName,
    HeaderValue, ORIGIN, VARY,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::{ApiError, body, close, host, messages, set};
use crate::app::{App, Phase};
use crate::log::Entry;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const ID_BYTES_MAX: usize = 128;

/// What is the same for all requests to one endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoint {
    /// Its name in metrics; all unknown paths share one.
    name: &'static str,
    /// Whoever reaches us may ask without a key: it knows nothing.
    is_open: bool,
    /// Each request is worth a line in the log. Probes come by the minute and say nothing.
    is_logged: bool,
    /// Its clients are Anthropic's, who read refusals in another form.
    is_anthropic: bool,
}

impl Endpoint {
    pub(super) const fn named(name: &'static str) -> Endpoint {
        Endpoint { name, is_open: false, is_logged: false, is_anthropic: false }
    }

    pub(super) const fn open(self) -> Endpoint {
        Endpoint { is_open: true, ..self }
    }

    pub(super) const fn logged(self) -> Endpoint {
        Endpoint { is_logged: true, ..self }
    }

    pub(super) const fn anthropic(self) -> Endpoint {
        Endpoint { is_anthropic: true, ..self }
    }
}

/// The way into one endpoint.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub(super) app: Arc<App>,
    pub(super) endpoint: Endpoint,
}

/// The name of a request, in its response and in the log.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub(super) String);

/// The mark of a request for which there is no place, or no time: all it can have is what is told at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guest;

/// Around every endpoint: lets in who may ask, counts, and says so in the log.
pub(super) async fn answer(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let Door { app, endpoint } = &door;
    let id = request_id(app, request.headers());
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let origin = allowed_origin(app, request.headers());
    let admitted = origin.clone().and_then(|_| admit(app, *endpoint, &request));
    let is_guest = request.extensions().get::<Guest>().is_some();
    let mut response = match (&origin, admitted) {
        (Ok(Some(_)), _) if is_preflight(&request) => preflight(request.headers()),
        (_, Err(error)) => refuse_unread(error, request.into_body()).await,
        (_, Ok(())) if is_guest && request.method() == Method::POST => {
            let error = match app.phase() {
                Phase::Serving => ApiError::crowded(),
                _ => ApiError::shutting_down(),
            };
            refuse_unread(error, request.into_body()).await
        }
        (_, Ok(())) => {
            request.extensions_mut().insert(RequestId(id.clone()));
            next.run(request).await
        }
    };
    if endpoint.is_anthropic {
        response = messages::in_dialect(response, &id);
    }
    let headers = response.headers_mut();
    if let Ok(Some(origin)) = &origin {
        expose(headers, origin);
    }
    if is_guest {
        close(headers);
    }
    set(headers, REQUEST_ID, &id);
    let status = response.status().as_u16();
    app.metrics.answered(endpoint.name, status);
    if endpoint.is_logged || status >= 400 {
        let entry = Entry::new("request", format!("{id} {method} {path} {status}"));
        let entry = entry.with("request", id).with("method", method).with("path", path);
        app.log(&entry.with("status", status));
    }
    response
}

/// A refusal that does not look at the body: a small one is taken in, so that the connection
/// can go on; after a large one it ends.
pub(super) async fn refuse_unread(error: ApiError, body: Body) -> Response {
    let mut response = error.into_response();
    // Who waits for a word before the body sends none.
    let ends = response.headers().contains_key(CONNECTION);
    if !ends && !body::discard(body).await {
        close(response.headers_mut());
    }
    response
}

/// The client's own name for its request if it is a decent one, else a new one.
fn request_id(app: &App, headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).map(HeaderValue::as_bytes).unwrap_or_default();
    let decent = (1..=ID_BYTES_MAX).contains(&given.len())
        && given.iter().all(|byte| byte.is_ascii_graphic());
    match std::str::from_utf8(given) {
        Ok(id) if decent => id.to_owned(),
        _ => app.fresh("req_"),
    }
}

/// Host name and key.
fn admit(app: &App, endpoint: Endpoint, request: &Request) -> Result<(), ApiError> {
    let headers = request.headers();
    host::check(request, app.loopback)?;
    let expected = headers.get_all(EXPECT).iter();
    if expected.map(HeaderValue::as_bytes).any(|what| !what.eq_ignore_ascii_case(b"100-continue")) {
        return Err(ApiError::expectation());
    }
    if endpoint.is_open || app.settings.api_keys.is_empty() {
        return Ok(());
    }
    let bearer = header(headers, AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    // Clients with a key of their own in one header are given ours in the other: either will do.
    let given = [bearer, header(headers, HeaderName::from_static("x-api-key"))];
    let fits = |given: &str| {
        // All keys are compared, so that time does not tell which one was near.
        app.settings.api_keys.iter().fold(false, |found, key| found | same(given, key))
    };
    let found = given.into_iter().flatten().fold(false, |found, given| found | fits(given));
    if found { Ok(()) } else { Err(ApiError::key()) }
}

/// The foreign origin that may ask; nothing for a request that has none or comes from our own.
fn allowed_origin(app: &App, headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(ORIGIN) else { return Ok(None) };
    let origin = value.to_str().unwrap_or_default();
    let allowed = &app.settings.cors_origins;
    if allowed.iter().any(|one| one == "*" || one == origin) {
        return Ok(Some(origin.to_owned()));
    }
    if header(headers, HOST)
        .is_some_and(|host| origin.eq_ignore_ascii_case(&format!("http://{host}")))
    {
        return Ok(None);
    }
    Err(ApiError::origin(
        "pages of this origin may not ask: start the server with --cors-origin to let them"
            .to_owned(),
    ))
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// What a browser wants to know before it asks.
fn preflight(asked: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    for (question, answer) in [
        (ACCESS_CONTROL_REQUEST_METHOD, ACCESS_CONTROL_ALLOW_METHODS),
        (ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_ALLOW_HEADERS),
    ] {
        if let Some(value) = asked.get(question) {
            headers.insert(answer, value.clone());
        }
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Lets the page of an allowed origin read the response.
fn expose(headers: &mut HeaderMap, origin: &str) {
    set(headers, ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(VARY, HeaderValue::from_static("Origin"));
    let exposed = HeaderValue::from_static("x-request-id, retry-after");
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}

fn header(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Compares in a time that depends on the lengths alone.
fn same(given: &str, key: &str) -> bool {
    let differing = given.bytes().zip(key.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differing) == 0 && given.len() == key.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_same_only_whole() {
        assert!(same("abc", "abc"));
        assert!(
            !same("ab", "abc") && !same("abcd", "abc") && !same("", "abc") && !same("abd", "abc")
        );
    }
}
