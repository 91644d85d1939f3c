//! Paths. Each is served with and without `/v1`, with or without a slash at its end.

use hyper::Method;

use super::ApiError;

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Chat,
    Completion,
    Models,
    Model(String),
    Health,
    Metrics,
    Version,
    Tokenize,
    Detokenize,
}

/// A path, known or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    endpoint: Option<Endpoint>,
    path: String,
}

impl Route {
    pub(super) fn of(path: &str) -> Route {
        let short = path.strip_prefix("/v1").filter(|rest| rest.starts_with('/')).unwrap_or(path);
        let short = short.strip_suffix('/').unwrap_or(short);
        let endpoint = match short {
            "/chat/completions" => Some(Endpoint::Chat),
            "/completions" => Some(Endpoint::Completion),
            "/models" => Some(Endpoint::Models),
            "/health" | "/healthz" => Some(Endpoint::Health),
            "/metrics" => Some(Endpoint::Metrics),
            "/version" => Some(Endpoint::Version),
            "/tokenize" => Some(Endpoint::Tokenize),
            "/detokenize" => Some(Endpoint::Detokenize),
            _ => short.strip_prefix("/models/").map(|id| Endpoint::Model(percent_decoded(id))),
        };
        let path = path.chars().take(80).filter(|c| !c.is_control()).collect();
        Route { endpoint, path }
    }

    /// The endpoint, if the method fits.
    pub(super) fn endpoint(&self, method: &Method) -> Result<Endpoint, ApiError> {
        let endpoint = self.endpoint.clone().ok_or_else(|| ApiError::not_found(&self.path))?;
        let fits = match self.takes_a_body() {
            true => method == Method::POST,
            false => method == Method::GET || method == Method::HEAD,
        };
        if fits { Ok(endpoint) } else { Err(ApiError::method(self.allow())) }
    }

    /// The methods it takes.
    pub(super) fn allow(&self) -> &'static str {
        if self.takes_a_body() { "POST" } else { "GET, HEAD" }
    }

    fn takes_a_body(&self) -> bool {
        use Endpoint::{Chat, Completion, Detokenize, Tokenize};
        matches!(self.endpoint, Some(Chat | Completion | Tokenize | Detokenize))
    }

    /// Whether it needs no key.
    pub(super) fn is_open(&self) -> bool {
        self.endpoint == Some(Endpoint::Health)
    }

    /// Probes come by the minute and say nothing.
    pub(super) fn is_worth_a_line(&self) -> bool {
        matches!(self.endpoint, Some(Endpoint::Chat | Endpoint::Completion))
    }

    /// Its name in metrics; all unknown paths share one.
    pub(super) fn name(&self) -> &'static str {
        match &self.endpoint {
            Some(Endpoint::Chat) => "chat",
            Some(Endpoint::Completion) => "completions",
            Some(Endpoint::Models | Endpoint::Model(_)) => "models",
            Some(Endpoint::Health) => "health",
            Some(Endpoint::Metrics) => "metrics",
            Some(Endpoint::Version) => "version",
            Some(Endpoint::Tokenize) => "tokenize",
            Some(Endpoint::Detokenize) => "detokenize",
            None => "other",
        }
    }
}

/// Ids may contain any character.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, decoded) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_four_spellings() {
        for path in ["/v1/models", "/v1/models/", "/models", "/models/"] {
            assert_eq!(Route::of(path).endpoint, Some(Endpoint::Models), "{path}");
        }
        for path in ["/v1", "/", "/v1models", "/v2/models", "/chat"] {
            assert_eq!(Route::of(path).endpoint, None, "{path}");
        }
    }

    #[test]
    fn model_ids_may_have_any_character() {
        for (path, id) in [
            ("a/b", "a/b"),
            ("a%2Fb", "a/b"),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz", "%zz"),
            ("%C3%A9", "é"),
        ] {
            let route = Route::of(&format!("/v1/models/{path}"));
            assert_eq!(route.endpoint, Some(Endpoint::Model(id.to_owned())), "{path}");
        }
    }
}
