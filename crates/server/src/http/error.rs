//! The one form of every refusal.

use axum::http::StatusCode;
use axum::http::header::{HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::{close, set};

/// A request that is not answered as hoped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    kind: &'static str,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    param: Option<String>,
    pub(crate) retry_after_s: Option<u64>,
}

/// How long to wait for weights, for a place, or for another server.
const RETRY_UNAVAILABLE_S: u64 = 5;
/// The code of what is refused for others have all there is.
const BUSY: &str = "server_busy";
const SHUTTING_DOWN: &str = "shutting_down";

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: &'static str, message: String) -> Self {
        ApiError { status, kind, code, message, param: None, retry_after_s: None }
    }

    fn invalid(code: &'static str, param: &str, message: String) -> ApiError {
        let error = ApiError::new(StatusCode::BAD_REQUEST, "invalid_request_error", code, message);
        ApiError { param: (!param.is_empty()).then(|| param.to_owned()), ..error }
    }

    /// The body is not what it should be as a whole.
    pub(crate) fn json(message: String) -> ApiError {
        ApiError::invalid("invalid_json", "", message)
    }

    /// A value that cannot be meant.
    pub(crate) fn value(param: &str, message: impl Into<String>) -> ApiError {
        ApiError::invalid("invalid_value", param, message.into())
    }

    /// Something has to be there.
    pub(crate) fn missing(param: &str, message: impl Into<String>) -> ApiError {
        ApiError::invalid("missing_required_parameter", param, message.into())
    }

    /// Understood, and not done here.
    pub(crate) fn unsupported(param: &str, message: impl Into<String>) -> ApiError {
        ApiError::invalid("unsupported_parameter", param, message.into())
    }

    /// Content that is not text.
    pub(crate) fn content(param: &str, message: impl Into<String>) -> ApiError {
        ApiError::invalid("unsupported_content", param, message.into())
    }

    /// The prompt leaves no room. Agents look for these words and shorten their history.
    pub(crate) fn too_long(param: &str, prompt: usize, context: usize) -> ApiError {
        let message = format!(
            "This model's maximum context length is {context} tokens, but the prompt has {prompt} tokens: \
             shorten it, or start the server with a larger --context"
        );
        ApiError::invalid("context_length_exceeded", param, message)
    }

    /// Another model than the one that is served.
    pub(crate) fn model(asked: &str, served: &str) -> ApiError {
        let message = format!("the model '{asked}' is not served here: use '{served}'");
        let error = ApiError::new(
            StatusCode::NOT_FOUND,
            "invalid_request_error",
            "model_not_found",
            message,
        );
        ApiError { param: Some("model".to_owned()), ..error }
    }

    /// Nothing lives under this path.
    pub(crate) fn not_found(path: &str) -> ApiError {
        let path: String = path.chars().take(80).filter(|c| !c.is_control()).collect();
        let message = format!("there is no {path} here: see /v1/chat/completions and /v1/models");
        ApiError::new(StatusCode::NOT_FOUND, "invalid_request_error", "not_found", message)
    }

    /// No such generation.
    pub(crate) fn reply(id: &str) -> ApiError {
        let message = format!("no reply '{id}' is being generated: give the id of its chunks");
        let status = StatusCode::NOT_FOUND;
        let error = ApiError::new(status, "invalid_request_error", "not_found", message);
        ApiError { param: Some("id".to_owned()), ..error }
    }

    /// The path is right, the method is not.
    pub(crate) fn method(allow: &str) -> ApiError {
        let message = format!("this path takes {allow}");
        let status = StatusCode::METHOD_NOT_ALLOWED;
        ApiError::new(status, "invalid_request_error", "method_not_allowed", message)
    }

    /// A body of unknown length that is not chunked.
    pub(crate) fn length_required() -> ApiError {
        let message = "send a body with Content-Length or Transfer-Encoding: chunked".to_owned();
        let status = StatusCode::LENGTH_REQUIRED;
        ApiError::new(status, "invalid_request_error", "length_required", message)
    }

    /// A body that would have to be unpacked.
    pub(crate) fn encoding(name: &str) -> ApiError {
        let message =
            format!("the Content-Encoding '{name}' is not read here: send the JSON as it is");
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        ApiError::new(status, "invalid_request_error", "invalid_value", message)
    }

    /// Something is expected that is not done.
    pub(crate) fn expectation() -> ApiError {
        let message = "the Expect header may say 100-continue alone: leave it out".to_owned();
        let status = StatusCode::EXPECTATION_FAILED;
        ApiError::new(status, "invalid_request_error", "invalid_value", message)
    }

    /// The body is over the limit.
    pub(crate) fn too_large(limit: usize) -> ApiError {
        let message = format!(
            "the body is larger than {limit} bytes: send less, or start the server with a larger --max-body"
        );
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        ApiError::new(status, "invalid_request_error", "request_too_large", message)
    }

    /// The body is within the limit, and what is in it takes too much memory.
    pub(crate) fn too_dense() -> ApiError {
        let message = "the body has more values than there is memory to read them: send less, or start the \
                       server with more --memory or a larger --max-body";
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        ApiError::new(status, "invalid_request_error", "request_too_large", message.to_owned())
    }

    /// The bodies of others take all room.
    pub(crate) fn no_room() -> ApiError {
        let message = "other requests take all memory that is set aside for them: try again soon";
        ApiError::unavailable(BUSY, message)
    }

    /// The body did not come on, and others take its room.
    pub(crate) fn displaced() -> ApiError {
        let message = "the body stopped coming, or comes too slowly, while others need the memory for theirs: \
                       send it again without pauses";
        ApiError::unavailable(BUSY, message)
    }

    /// The body did not come.
    pub(crate) fn body_timeout() -> ApiError {
        let message =
            "the body stopped coming, or comes too slowly: send it without long pauses".to_owned();
        let status = StatusCode::REQUEST_TIMEOUT;
        ApiError::new(status, "invalid_request_error", "request_timeout", message)
    }

    /// What came is no request that can be read.
    pub(crate) fn unread(status: StatusCode) -> ApiError {
        let (code, message) = match status {
            StatusCode::URI_TOO_LONG => ("request_too_large", "the path is too long: shorten it"),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (
                "request_too_large",
                "the headers are too many or too large: send fewer, within 32 KiB",
            ),
            _ => ("invalid_value", "what came is no HTTP/1.1 request: send one, without TLS"),
        };
        ApiError::new(status, "invalid_request_error", code, message.to_owned())
    }

    /// What came is HTTP/2.
    pub(crate) fn unspoken() -> ApiError {
        let message = "this server speaks HTTP/1.1: ask without HTTP/2".to_owned();
        let status = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
        ApiError::new(status, "invalid_request_error", "invalid_value", message)
    }

    /// The host of a request is missing, or is none.
    pub(crate) fn host(message: &str) -> ApiError {
        ApiError::value("", message)
    }

    /// No key, or a wrong one.
    pub(crate) fn key() -> ApiError {
        let message = "the API key is missing or wrong: send Authorization: Bearer KEY".to_owned();
        ApiError::new(StatusCode::UNAUTHORIZED, "authentication_error", "invalid_api_key", message)
    }

    /// A page of a foreign origin, or a foreign name for this machine.
    pub(crate) fn origin(message: String) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, "permission_error", "origin_not_allowed", message)
    }

    /// The queue is full.
    pub(crate) fn busy(retry_after_s: u64) -> ApiError {
        let message = format!(
            "the model answers one request at a time and its queue is full: try again in {retry_after_s} s"
        );
        let status = StatusCode::TOO_MANY_REQUESTS;
        let error = ApiError::new(status, "rate_limit_error", BUSY, message);
        ApiError { retry_after_s: Some(retry_after_s), ..error }
    }

    /// All connections are at work.
    pub(crate) fn crowded() -> ApiError {
        let message = "all connections of this server are in use: try again soon";
        ApiError::unavailable(BUSY, message)
    }

    /// The generation failed.
    pub(crate) fn engine(reason: &str) -> ApiError {
        let message = format!("the generation failed: {reason}");
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        ApiError::new(status, "server_error", "engine_error", message)
    }

    /// A fault of our own.
    pub(crate) fn internal(reason: &str) -> ApiError {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        ApiError::new(status, "server_error", "internal_error", reason.to_owned())
    }

    /// Weights are still being read.
    pub(crate) fn loading() -> ApiError {
        ApiError::unavailable("model_loading", "the model is being loaded: try again soon")
    }

    /// The server is about to end.
    pub(crate) fn shutting_down() -> ApiError {
        ApiError::unavailable(SHUTTING_DOWN, "the server is shutting down: try again later")
    }

    fn unavailable(code: &'static str, message: &str) -> ApiError {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let error = ApiError::new(status, "server_error", code, message.to_owned());
        ApiError { retry_after_s: Some(RETRY_UNAVAILABLE_S), ..error }
    }

    /// The error as its own document.
    pub(crate) fn document(&self) -> Value {
        let ApiError { message, kind, param, code, .. } = self;
        json!({ "error": { "message": message, "type": kind, "param": param, "code": code } })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = super::json(self.status, &self.document());
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_s {
            set(headers, RETRY_AFTER, &seconds.to_string());
        }
        match self.status {
            // A failed generation would fail again, minutes later.
            StatusCode::INTERNAL_SERVER_ERROR => {
                set(headers, HeaderName::from_static("x-should-retry"), "false");
            }
            // What was not read would be taken for the next request.
            StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
            | StatusCode::EXPECTATION_FAILED
            | StatusCode::LENGTH_REQUIRED => close(headers),
            StatusCode::UNAUTHORIZED => set(headers, WWW_AUTHENTICATE, "Bearer"),
            StatusCode::SERVICE_UNAVAILABLE if self.code == BUSY => close(headers),
            // Said to every connection, also to one that has not heard yet that the server ends.
            StatusCode::SERVICE_UNAVAILABLE if self.code == SHUTTING_DOWN => close(headers),
            _ => {}
        }
        // For doors that say it in another dialect.
        response.extensions_mut().insert(self);
        response
    }
}
