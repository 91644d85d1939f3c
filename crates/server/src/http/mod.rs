//! From a request on the wire to a response: who may ask, what is asked, the form of refusals.

mod body;
mod error;
mod generate;
mod guard;
mod route;
mod small;

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Request, Response, StatusCode};
use serde_json::Value;

pub(crate) use body::Body;
pub(crate) use error::ApiError;

use crate::app::App;
use route::{Endpoint, Route};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Answers one request.
pub(crate) async fn answer(
    app: Arc<App>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let id = guard::request_id(&app, request.headers());
    let line = format!("{} {}", request.method(), request.uri().path());
    let route = Route::of(request.uri().path());
    let origin = guard::allowed_origin(&app, request.headers());
    let mut response = match (&origin, guard::is_preflight(&request)) {
        (Ok(Some(_)), true) => guard::preflight(request.headers()),
        _ => respond(&app, &route, request, &id, origin.as_ref().err()).await,
    };
    let headers = response.headers_mut();
    if let Ok(Some(origin)) = &origin {
        guard::expose(headers, origin);
    }
    set(headers, REQUEST_ID, &id);
    let status = response.status().as_u16();
    app.metrics.answered(route.name(), status);
    if route.is_worth_a_line() || status >= 400 {
        app.log(&format!("{id} {line} {status}"));
    }
    Ok(response)
}

async fn respond(
    app: &Arc<App>,
    route: &Route,
    request: Request<Incoming>,
    id: &str,
    foreign: Option<&ApiError>,
) -> Response<Body> {
    let admitted = match foreign {
        Some(error) => Err(error.clone()),
        None => guard::admit(app, route, &request),
    };
    let endpoint = match admitted.and_then(|()| route.endpoint(request.method())) {
        Ok(endpoint) => endpoint,
        Err(error) => return refuse_early(route, request, &error).await,
    };
    let answered = match endpoint {
        Endpoint::Chat => generate::chat(app, request, id).await,
        Endpoint::Completion => generate::completion(app, request, id).await,
        Endpoint::Tokenize => small::tokenize(app, request).await,
        Endpoint::Detokenize => small::detokenize(app, request).await,
        Endpoint::Models => Ok(small::models(app)),
        Endpoint::Model(name) => small::model(app, &name),
        Endpoint::Health => Ok(small::health(app)),
        Endpoint::Metrics => Ok(small::metrics(app)),
        Endpoint::Version => Ok(small::version()),
    };
    answered.unwrap_or_else(|error| refusal(&error))
}

/// A refusal that does not look at the body: a small one is taken in, so that the connection
/// can go on; after a large one it ends.
async fn refuse_early(
    route: &Route,
    request: Request<Incoming>,
    error: &ApiError,
) -> Response<Body> {
    let mut response = refusal(error);
    if error.status == StatusCode::METHOD_NOT_ALLOWED {
        set(response.headers_mut(), ALLOW, route.allow());
    }
    if !body::discard(request.into_body()).await {
        set(response.headers_mut(), CONNECTION, "close");
    }
    response
}

/// The response that an error is.
pub(crate) fn refusal(error: &ApiError) -> Response<Body> {
    let mut response = json(error.status, &error.document());
    let headers = response.headers_mut();
    if let Some(seconds) = error.retry_after_s {
        set(headers, RETRY_AFTER, &seconds.to_string());
    }
    match error.status {
        // A failed generation would fail again, minutes later.
        StatusCode::INTERNAL_SERVER_ERROR => set(headers, SHOULD_RETRY, "false"),
        // What was not read would be taken for the next request.
        StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::LENGTH_REQUIRED => {
            set(headers, CONNECTION, "close");
        }
        _ => {}
    }
    response
}

/// A JSON document.
pub(crate) fn json(status: StatusCode, document: &Value) -> Response<Body> {
    text(status, "application/json", document.to_string())
}

pub(crate) fn text(status: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Sets a header to a text that is one by construction, or leaves it out.
pub(crate) fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
