//! What is wrong with one answer, told apart by what helps.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use http::StatusCode;
use thiserror::Error;

use crate::line::Kind;

/// One request that did not bring what it asked for.
#[derive(Debug)]
pub(crate) enum Fault {
    /// May be gone the next time.
    Passing {
        /// What came.
        why: String,
        /// How long the server asks to be left alone.
        after: Option<Duration>,
        /// Whether fewer requests at once would help.
        crowded: bool,
    },
    /// The file is not the one that was begun.
    Changed(String),
    /// Asking again is no use.
    Lasting(String),
}

impl Fault {
    /// Something that may pass.
    pub(crate) fn passing(why: impl Into<String>) -> Fault {
        Fault::Passing { why: why.into(), after: None, crowded: false }
    }

    /// Whether an error says that there is no such file.
    pub(crate) fn is_absence(error: &(dyn Error + 'static)) -> bool {
        refusal(error).is_some_and(|refusal| refusal.status == StatusCode::NOT_FOUND)
    }

    /// What an error of the transport means.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Fault {
        if let Some(refusal) = refusal(error) {
            return refusal.meaning();
        }
        let mut deepest = error;
        while let Some(cause) = deepest.source() {
            deepest = cause;
        }
        let words = deepest.to_string();
        // Nobody's patience makes a certificate good.
        if words.contains("certificate") {
            return Fault::Lasting(format!(
                "the server's certificate is not accepted ({words}); if your network has its own authority, name its file in SSL_CERT_FILE"
            ));
        }
        Fault::passing(words)
    }
}

/// The refusal that caused an error, if one did.
fn refusal<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Refusal> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref() {
            return Some(refusal);
        }
        cause = error.source();
    }
    None
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Passing { why, .. } | Fault::Changed(why) | Fault::Lasting(why) => {
                f.write_str(why)
            }
        }
    }
}

/// A status that is no success.
#[derive(Clone, Debug, Error)]
#[error("{host} answers {status}")]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) after: Option<Duration>,
    pub(crate) host: String,
    pub(crate) kind: Kind,
    /// Said by the server that was asked first, not by one that it sent us to.
    pub(crate) by_origin: bool,
}

impl Refusal {
    fn meaning(&self) -> Fault {
        let why = self.to_string();
        match self.status.as_u16() {
            401 | 403 if self.by_origin => {
                Fault::Lasting(format!("{why}; {}", self.kind.when_refused()))
            }
            404 | 410 | 451 if self.by_origin => {
                Fault::Lasting(format!("{why}; {}", self.kind.when_absent()))
            }
            300..=399 if self.by_origin && self.kind == Kind::Bucket => {
                let remedy = "the bucket is in another region, name it in AWS_REGION";
                Fault::Lasting(format!("{why}; {remedy}"))
            }
            409 if self.by_origin => Fault::Changed("the source gives another revision".to_owned()),
            429 | 503 => Fault::Passing { why, after: self.after, crowded: true },
            _ => Fault::Passing { why, after: self.after, crowded: false },
        }
    }
}
