//! The way of a request: where redirects lead, who gets the token, what a status means.
//!
//! A link that a hub sends us to is kept and used until it is refused; then the hub is asked again.
//! The token goes to the origin it is for, and nowhere else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use http::header::{AUTHORIZATION, COOKIE, HeaderValue, LOCATION, RETRY_AFTER};
use http::{HeaderMap, Request, StatusCode, request};
use http_body_util::{BodyExt as _, Limited};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequestBody, HttpResponse, HttpService,
};
use reqwest::Url;
use reqwest::redirect::Policy;

use crate::FetchError;
use crate::fault::{Fault, Refusal};

/// More would be a circle.
const REDIRECTS_MAX: usize = 5;
/// No page of a listing is longer.
const PAGE_BYTES_MAX: usize = 64 << 20;
/// Of establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Sends requests.
#[derive(Clone, Debug)]
pub(crate) struct Line(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: reqwest::Client,
    origin: Url,
    token: Option<HeaderValue>,
    /// The commit that an answer must be of, if it says.
    commit: Mutex<Option<String>>,
    /// Where the origin sent us, by what was asked of it.
    links: Mutex<HashMap<String, Url>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Line {
    /// A line to the server of `origin`, with the token that is for it.
    pub(crate) fn new(origin: &Url, token: Option<&str>) -> Result<Line, FetchError> {
        let fault = |why: String| FetchError::Source { what: host(origin), why };
        secure(origin)?;
        let client = reqwest::Client::builder()
            .user_agent(concat!("deltafin/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            // Ranges in parallel have a connection each; shared ones would share their window.
            .http1_only()
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|error| fault(error.to_string()))?;
        let token = token.map(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))?;
            value.set_sensitive(true);
            Ok::<_, http::header::InvalidHeaderValue>(value)
        });
        let token = token.transpose().map_err(|_| {
            fault("the token has characters that no token has; check HF_TOKEN".to_owned())
        })?;
        let (commit, links) = (Mutex::default(), Mutex::default());
        Ok(Line(Arc::new(Inner { client, origin: origin.clone(), token, commit, links })))
    }

    /// From here on, an answer that says it is of another commit is refused.
    pub(crate) fn pin(&self, commit: &str) {
        *locked(&self.0.commit) = Some(commit.to_owned());
    }

    /// The body of a page, and its headers.
    pub(crate) async fn page(&self, url: &Url) -> Result<(Vec<u8>, HeaderMap), Fault> {
        let request = Request::get(url.as_str()).body(HttpRequestBody::empty());
        let request = request.map_err(|error| Fault::Lasting(error.to_string()))?;
        let reply = self.call(request).await.map_err(|error| Fault::of(&error))?;
        let (parts, body) = reply.into_parts();
        let body = Limited::new(body, PAGE_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Fault::passing(error.to_string()))?;
        Ok((body.to_bytes().to_vec(), parts.headers))
    }

    /// One request to one server, without following where it points.
    async fn send(
        &self,
        parts: &request::Parts,
        body: &HttpRequestBody,
        to: &Url,
    ) -> Result<HttpResponse, HttpError> {
        let mut request = Request::builder().method(parts.method.clone()).uri(to.as_str());
        let is_home = is_same_origin(to, &self.0.origin);
        if let Some(headers) = request.headers_mut() {
            *headers = parts.headers.clone();
            if !is_home {
                headers.remove(AUTHORIZATION);
                headers.remove(COOKIE);
            } else if let Some(token) = &self.0.token {
                headers.insert(AUTHORIZATION, token.clone());
            }
        }
        let request = request.body(body.clone());
        let request = request.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let reply = self.0.client.call(request).await?;
        self.check_commit(&reply, to)?;
        Ok(reply)
    }

    fn check_commit(&self, reply: &HttpResponse, to: &Url) -> Result<(), HttpError> {
        let said = reply.headers().get("x-repo-commit").and_then(|value| value.to_str().ok());
        match (said, locked(&self.0.commit).as_deref()) {
            (Some(said), Some(wanted)) if said != wanted => {
                Err(refused(StatusCode::CONFLICT, None, to, true))
            }
            _ => Ok(()),
        }
    }

    /// Asks the origin, and goes where it sends us.
    async fn resolve(
        &self,
        parts: &request::Parts,
        body: &HttpRequestBody,
        asked: &Url,
    ) -> Result<HttpResponse, HttpError> {
        let mut at = asked.clone();
        for _ in 0..REDIRECTS_MAX {
            let reply = self.send(parts, body, &at).await?;
            let is_home = is_same_origin(&at, &self.0.origin);
            if !reply.status().is_redirection() || reply.status() == StatusCode::NOT_MODIFIED {
                if !is_home && reply.status().is_success() {
                    locked(&self.0.links).insert(asked.to_string(), at);
                    return Ok(reply);
                }
                return judged(reply, &at, is_home);
            }
            let location = reply.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let Some(next) = location.and_then(|to| at.join(to).ok()) else {
                return Err(refused(reply.status(), None, &at, is_home));
            };
            // What is asked for in safety is not answered in the clear.
            let is_exposed = at.scheme() == "https" && next.scheme() != "https";
            if is_exposed || !is_possible(&next) {
                return Err(refused(reply.status(), None, &at, is_home));
            }
            at = next;
        }
        Err(refused(StatusCode::LOOP_DETECTED, None, &at, false))
    }
}

#[async_trait]
impl HttpService for Line {
    async fn call(
        &self,
        request: http::Request<HttpRequestBody>,
    ) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let asked = Url::parse(&parts.uri.to_string());
        let asked = asked.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let link = locked(&self.0.links).get(asked.as_str()).cloned();
        if let Some(link) = link {
            let reply = self.send(&parts, &body, &link).await?;
            if !is_stale(reply.status()) {
                return judged(reply, &link, false);
            }
            locked(&self.0.links).remove(asked.as_str());
        }
        self.resolve(&parts, &body, &asked).await
    }
}

impl HttpConnector for Line {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

/// Statuses of a link that is no longer good, or a redirect to yet another.
fn is_stale(status: StatusCode) -> bool {
    status.is_redirection() || matches!(status.as_u16(), 400 | 401 | 403 | 404 | 410)
}

fn judged(reply: HttpResponse, by: &Url, by_origin: bool) -> Result<HttpResponse, HttpError> {
    if reply.status().is_success() {
        return Ok(reply);
    }
    let after = reply.headers().get(RETRY_AFTER).and_then(retry_after);
    Err(refused(reply.status(), after, by, by_origin))
}

/// Seconds, or a date.
fn retry_after(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

fn refused(status: StatusCode, after: Option<Duration>, by: &Url, by_origin: bool) -> HttpError {
    let refusal = Refusal { status, after, host: host(by), by_origin };
    HttpError::new(HttpErrorKind::Unknown, refusal)
}

fn is_same_origin(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin()
}

/// A server's name as it is said to people: without what may be secret.
pub(crate) fn host(url: &Url) -> String {
    url.host_str().unwrap_or("the source").to_owned()
}

/// Sees to it that connections can be made safe, where they are to be.
fn secure(origin: &Url) -> Result<(), FetchError> {
    static ONCE: Once = Once::new();
    if !is_possible(origin) {
        return Err(FetchError::NoCryptography);
    }
    ONCE.call_once(|| {
        // Fails where this process has chosen already, which is as good.
        let _ = rustls_graviola::default_provider().install_default();
    });
    Ok(())
}

fn is_possible(to: &Url) -> bool {
    to.scheme() != "https" || can_encrypt()
}

/// Whether this processor has what the cryptography is made of.
#[cfg(target_arch = "x86_64")]
fn can_encrypt() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("aes") && has!("pclmulqdq") && has!("bmi1") && has!("adx") && has!("avx2")
}

/// Whether this processor has what the cryptography is made of.
#[cfg(target_arch = "aarch64")]
fn can_encrypt() -> bool {
    use std::arch::is_aarch64_feature_detected as has;
    has!("aes") && has!("pmull") && has!("sha2")
}
