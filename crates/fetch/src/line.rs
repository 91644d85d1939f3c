//! The way of a request: where redirects lead, who gets the token, what a status means.
//!
//! A link that a hub sends us to is kept and used until it is refused; then the hub is asked again.
//! The token goes to the origin it is for, and nowhere else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use http::header::{AUTHORIZATION, COOKIE, DATE, HeaderValue, LOCATION, RETRY_AFTER};
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
use crate::login;
use crate::secrecy::{is_possible, secure};

/// More would be a circle.
const REDIRECTS_MAX: usize = 5;
/// No page of a listing is longer.
const PAGE_BYTES_MAX: usize = 64 << 20;
/// Of establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What kind of server is asked: what redirects mean, and what helps against a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A model hub.
    Hub,
    /// Files side by side.
    Web,
    /// A bucket of an object store, which sends nobody elsewhere: requests are signed for one server.
    Bucket,
}

impl Kind {
    /// What to do where access is refused.
    pub(crate) fn when_refused(self) -> &'static str {
        match self {
            Kind::Hub => "if it asks for an account, put its token in HF_TOKEN",
            Kind::Web => {
                "a name and a password go before the host: https://NAME:PASSWORD@HOST/PATH/"
            }
            Kind::Bucket => {
                "put a key that may list and read the bucket in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            }
        }
    }

    /// What to do where something is not there.
    pub(crate) fn when_absent(self) -> &'static str {
        match self {
            Kind::Hub => "check the name and the revision",
            Kind::Web => "check the address",
            Kind::Bucket => "check the bucket and the prefix",
        }
    }
}

/// Sends requests.
#[derive(Clone, Debug)]
pub(crate) struct Line(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: reqwest::Client,
    origin: Url,
    kind: Kind,
    token: Option<HeaderValue>,
    /// The commit that an answer must be of, if it says.
    commit: Mutex<Option<String>>,
    /// Where the origin sent us, by what was asked of it.
    links: Mutex<HashMap<String, Url>>,
    /// How far this machine's clock was before a server's when it last told the time.
    clock_ahead_seconds: Mutex<Option<i64>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Line {
    /// A line to the server of `origin`, with the token, or the name and password, that are for it. A connection
    /// that brings no byte for as long as `stall` is a fault.
    pub(crate) fn new(
        origin: &Url,
        token: Option<&str>,
        kind: Kind,
        stall: Duration,
    ) -> Result<Line, FetchError> {
        let fault = |why: String| FetchError::Source { what: host(origin), why };
        secure(origin)?;
        let client = reqwest::Client::builder()
            .user_agent(concat!("deltafin/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            // Ranges in parallel have a connection each; shared ones would share their window.
            .http1_only()
            .connect_timeout(CONNECT_TIMEOUT.min(stall))
            .read_timeout(stall)
            .build()
            .map_err(|error| fault(error.to_string()))?;
        let token = token.map(login::of_token).or_else(|| login::of_url(origin));
        let token = token.transpose().map_err(|_| {
            fault("the token has characters that no token has; check HF_TOKEN".to_owned())
        })?;
        Ok(Line(Arc::new(Inner {
            client,
            origin: origin.clone(),
            kind,
            token,
            commit: Mutex::default(),
            links: Mutex::default(),
            clock_ahead_seconds: Mutex::default(),
        })))
    }

    /// From here on, an answer that says it is of another commit is refused.
    pub(crate) fn pin(&self, commit: &str) {
        *locked(&self.0.commit) = Some(commit.to_owned());
    }

    /// How far this machine's clock is before that of a server that told the time.
    pub(crate) fn clock_ahead_seconds(&self) -> Option<i64> {
        *locked(&self.0.clock_ahead_seconds)
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
        asked: &Url,
        to: &Url,
    ) -> Result<HttpResponse, HttpError> {
        let mut request = Request::builder().method(parts.method.clone()).uri(to.as_str());
        if let Some(headers) = request.headers_mut() {
            *headers = parts.headers.clone();
            if !is_same_origin(to, asked) {
                headers.remove(AUTHORIZATION);
                headers.remove(COOKIE);
            }
            if let Some(token) = &self.0.token
                && is_same_origin(to, &self.0.origin)
            {
                headers.insert(AUTHORIZATION, token.clone());
            }
        }
        let request = request.body(body.clone());
        let request = request.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let reply = self.0.client.call(request).await?;
        if let Some(ahead) = reply.headers().get(DATE).and_then(clock_ahead) {
            *locked(&self.0.clock_ahead_seconds) = Some(ahead);
        }
        self.check_commit(&reply, to)?;
        Ok(reply)
    }

    fn check_commit(&self, reply: &HttpResponse, to: &Url) -> Result<(), HttpError> {
        let said = reply.headers().get("x-repo-commit").and_then(|value| value.to_str().ok());
        match (said, locked(&self.0.commit).as_deref()) {
            (Some(said), Some(wanted)) if said != wanted => {
                Err(self.refused(StatusCode::CONFLICT, None, to, true))
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
            let reply = self.send(parts, body, asked, &at).await?;
            let is_home = is_same_origin(&at, asked);
            if !is_elsewhere(reply.status()) || self.0.kind == Kind::Bucket {
                if !is_home && reply.status().is_success() {
                    locked(&self.0.links).insert(asked.to_string(), at);
                    return Ok(reply);
                }
                return self.judged(reply, &at, is_home);
            }
            let location = reply.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let Some(next) = location.and_then(|to| at.join(to).ok()) else {
                return Err(self.refused(reply.status(), None, &at, is_home));
            };
            // What is asked for in safety is not answered in the clear.
            let is_exposed = at.scheme() == "https" && next.scheme() != "https";
            if is_exposed || !is_possible(&next) {
                return Err(self.refused(reply.status(), None, &at, is_home));
            }
            at = next;
        }
        Err(self.refused(StatusCode::LOOP_DETECTED, None, &at, false))
    }

    fn judged(
        &self,
        reply: HttpResponse,
        by: &Url,
        by_origin: bool,
    ) -> Result<HttpResponse, HttpError> {
        if reply.status().is_success() {
            return Ok(reply);
        }
        let after = reply.headers().get(RETRY_AFTER).and_then(retry_after);
        Err(self.refused(reply.status(), after, by, by_origin))
    }

    fn refused(
        &self,
        status: StatusCode,
        after: Option<Duration>,
        by: &Url,
        by_origin: bool,
    ) -> HttpError {
        let refusal = Refusal { status, after, host: host(by), kind: self.0.kind, by_origin };
        HttpError::new(HttpErrorKind::Unknown, refusal)
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
            let reply = self.send(&parts, &body, &asked, &link).await?;
            if !is_stale(reply.status()) {
                return self.judged(reply, &link, false);
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

/// Statuses that send the request to another address.
fn is_elsewhere(status: StatusCode) -> bool {
    status.is_redirection() && status != StatusCode::NOT_MODIFIED
}

/// How far this machine's clock is before a time that a server told.
fn clock_ahead(told: &HeaderValue) -> Option<i64> {
    let seconds = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    };
    let told = httpdate::parse_http_date(told.to_str().ok()?).ok()?;
    Some(seconds(SystemTime::now())? - seconds(told)?)
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

fn is_same_origin(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin()
}

/// A server's name as it is said to people: without what may be secret.
pub(crate) fn host(url: &Url) -> String {
    url.host_str().unwrap_or("the source").to_owned()
}
