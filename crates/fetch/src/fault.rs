//! What is wrong with one answer, told apart by what helps.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use http::StatusCode;
use thiserror::Error;

use crate::line::Kind;

/// Whether something is likely to pass, if it did not after a few tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hope {
    /// It is: sources and networks have bad times.
    Good,
    /// It is where the source gave something before, for then it is there, and it is the network that went away.
    WhereKnown,
    /// It is not.
    Slight,
}

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
        /// Whether it is likely to pass.
        hope: Hope,
    },
    /// The file is not the one that was begun.
    Changed(String),
    /// Asking again is no use.
    Lasting(String),
}

impl Fault {
    /// Something that may pass.
    pub(crate) fn passing(why: impl Into<String>) -> Fault {
        Fault::hoped(why, Hope::Good)
    }

    fn hoped(why: impl Into<String>, hope: Hope) -> Fault {
        Fault::Passing { why: why.into(), after: None, crowded: false, hope }
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
        // As the client says it of servers that speak plain HTTP, and of buckets.
        if words.contains("Range request not supported") || words.contains("non-partial response") {
            let words =
                "it sends whole files where ranges of them are asked for; another source is needed";
            return Fault::hoped(words, Hope::Slight);
        }
        match where_nobody_is(error, &words) {
            Some(remedy) => Fault::hoped(format!("{words}; {remedy}"), Hope::WhereKnown),
            None => Fault::passing(words),
        }
    }
}

/// What to look at where an error says that there is no such server, or none that talks as it should.
fn where_nobody_is(error: &(dyn Error + 'static), words: &str) -> Option<&'static str> {
    // What the C libraries of Linux and macOS say of a name that is not known, rather than not answered for.
    const UNKNOWN: [&str; 4] = [
        "Name or service not known",
        "No address associated with hostname",
        "nodename nor servname provided",
        "Name does not resolve",
    ];
    if UNKNOWN.iter().any(|unknown| words.contains(unknown)) {
        return Some("check the address and the network");
    }
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(remedy) = error.downcast_ref().and_then(where_nobody_talks) {
            return Some(remedy);
        }
        cause = error.source();
    }
    None
}

/// The same of an error of the system, and of those that it wraps: they are not among its causes.
fn where_nobody_talks(error: &io::Error) -> Option<&'static str> {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        return Some("check the address, the network and HTTPS_PROXY");
    }
    let inner = error.get_ref()?;
    if inner.is::<rustls::Error>() {
        return Some("check the address: no safe connection can be made there");
    }
    inner.downcast_ref().and_then(where_nobody_talks)
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
            // Where a link led that the origin makes anew for each of them.
            401 | 403 | 404 | 410 | 451 => Fault::hoped(why, Hope::Slight),
            status => {
                let crowded = matches!(status, 429 | 503);
                Fault::Passing { why, after: self.after, crowded, hope: Hope::Good }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Error)]
    #[error("sending: {0}")]
    struct Sending(#[source] io::Error);

    fn hope(error: io::Error) -> Option<Hope> {
        match Fault::of(&Sending(error)) {
            Fault::Passing { hope, .. } => Some(hope),
            Fault::Changed(_) | Fault::Lasting(_) => None,
        }
    }

    #[test]
    fn what_a_network_says_is_told_apart_by_whether_it_passes() {
        let lookup = |words: &str| {
            hope(io::Error::other(format!("failed to lookup address information: {words}")))
        };
        assert_eq!(lookup("Name or service not known"), Some(Hope::WhereKnown));
        let on_macos = "nodename nor servname provided, or not known";
        assert_eq!(lookup(on_macos), Some(Hope::WhereKnown));
        assert_eq!(lookup("Temporary failure in name resolution"), Some(Hope::Good));
        assert_eq!(hope(io::ErrorKind::ConnectionRefused.into()), Some(Hope::WhereKnown));
        for passes in [io::ErrorKind::ConnectionReset, io::ErrorKind::NetworkUnreachable] {
            assert_eq!(hope(passes.into()), Some(Hope::Good), "{passes}");
        }
        assert_eq!(
            hope(io::Error::other(rustls::Error::HandshakeNotComplete)),
            Some(Hope::WhereKnown)
        );
        let unsigned = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        assert_eq!(hope(io::Error::other(unsigned)), None, "nobody waits for that");
    }
}
