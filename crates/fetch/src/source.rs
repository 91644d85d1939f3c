//! Where a checkpoint comes from, in one notation.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use reqwest::Url;

use crate::FetchError;

/// A place that a checkpoint can be had from.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// `hf:owner/name[@revision]`: a repository of a model hub.
    Hub {
        /// `owner/name`.
        repository: String,
        /// A branch, a tag or a commit.
        revision: String,
    },
    /// `https://host/path/`: the files of a checkpoint side by side. With `NAME:PASSWORD@` before the host
    /// the server is told these; nothing shows or notes them.
    Web(Url),
    /// `s3://bucket/prefix/`: the same as objects of a store that speaks S3.
    Bucket(Url),
    /// A folder of this machine, or one that is mounted.
    Folder(PathBuf),
}

/// The branch that is meant when none is said.
const MAIN: &str = "main";

impl Source {
    /// The released K3.
    pub fn released() -> Source {
        Source::Hub { repository: "moonshotai/Kimi-K3".to_owned(), revision: MAIN.to_owned() }
    }

    /// The source with the name and password that its server is to be told, if it has such. Not to be shown.
    pub fn with_login(&self) -> Option<String> {
        match self {
            Source::Web(url) if without_login(url) != *url => Some(url.to_string()),
            _ => None,
        }
    }
}

impl FromStr for Source {
    type Err = FetchError;

    fn from_str(text: &str) -> Result<Source, FetchError> {
        // As it comes from a page or a script. The name of a folder may begin and end with blanks.
        let text = match text.trim() {
            trimmed if trimmed.starts_with("hf:") || trimmed.contains("://") => trimmed,
            _ => text,
        };
        let refused = |reason: &'static str| FetchError::Notation { given: shown(text), reason };
        if let Some(rest) = text.strip_prefix("hf:") {
            let (repository, revision) = rest.split_once('@').unwrap_or((rest, MAIN));
            let plain = |word: &str| {
                let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                !word.is_empty() && !word.starts_with('.') && word.chars().all(fits)
            };
            return match repository.split_once('/') {
                Some((owner, name)) if plain(owner) && plain(name) => {
                    if !revision.split('/').all(plain) {
                        return Err(refused("what follows '@' is no revision"));
                    }
                    let (repository, revision) = (repository.to_owned(), revision.to_owned());
                    Ok(Source::Hub { repository, revision })
                }
                _ => Err(refused("a repository is written hf:owner/name[@revision]")),
            };
        }
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        match scheme.as_deref() {
            Some("http" | "https") => Ok(Source::Web(folder(text).map_err(refused)?)),
            Some("s3") => {
                let url = folder(text).map_err(refused)?;
                let has_more = !url.username().is_empty() || url.password().is_some();
                match url.host_str().is_none_or(str::is_empty) || has_more || url.port().is_some() {
                    true => Err(refused("a bucket is written s3://bucket/prefix/")),
                    false => Ok(Source::Bucket(url)),
                }
            }
            Some("gs") => Err(refused(
                "write it s3://, with AWS_ENDPOINT_URL=https://storage.googleapis.com and a key for that",
            )),
            Some(_) => Err(refused(
                "known are hf:owner/name, https://host/path/, s3://bucket/prefix/ and folders",
            )),
            None if text.is_empty() => Err(refused("it is empty")),
            None if is_half_an_address(text) => {
                Err(refused("an address has two slashes: https://host/path/"))
            }
            None => Ok(Source::Folder(PathBuf::from(text))),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({self})")
    }
}

/// A URL without what its server alone is to know: a name may be a token, too.
pub(crate) fn without_login(url: &Url) -> Url {
    let mut url = url.clone();
    // These fail where there is no host, and then there is no login.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url
}

/// What was typed, as it may be shown.
pub(crate) fn shown(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let begin = rest[..host].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[begin..])
        }
        None if is_half_an_address(text) => {
            let (scheme, rest) = text.split_once(':').unwrap_or_default();
            let begin = rest.rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}:{}", &rest[begin..])
        }
        None => text.to_owned(),
    }
}

/// Whether it is meant to be an address of a server, and is none: no folder, for it may have a password in it.
fn is_half_an_address(text: &str) -> bool {
    let scheme = text.trim_start().split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https")) && !text.contains("://")
}

/// The URL of a folder, with a slash at its end.
fn folder(text: &str) -> Result<Url, &'static str> {
    let mut url = Url::parse(text).map_err(|_| "it is no URL")?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err("the URL of a folder has no '?' and no '#'");
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Hub { repository, revision } if revision == MAIN => {
                write!(f, "hf:{repository}")
            }
            Source::Hub { repository, revision } => write!(f, "hf:{repository}@{revision}"),
            Source::Bucket(url) => url.fmt(f),
            Source::Web(url) => without_login(url).fmt(f),
            Source::Folder(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_what_is_printed() {
        for text in [
            "hf:moonshotai/Kimi-K3",
            "hf:a/b@refs/pr/1",
            "hf:a/b@0123abcd",
            "https://mirror.example/k3/",
            "s3://bucket/",
            "s3://bucket.of-mine/some/prefix/",
            "/some/folder",
            "folder",
        ] {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
        assert_eq!("hf:a/b@main".parse::<Source>().unwrap().to_string(), "hf:a/b");
        assert_eq!("s3://b".parse::<Source>().unwrap().to_string(), "s3://b/");
        assert_eq!("http://h/x".parse::<Source>().unwrap().to_string(), "http://h/x/");
        for text in [" hf:a/b", "http://h/x/ \n", "s3://b/", " a folder "] {
            let wanted = if text.contains(':') { text.trim() } else { text };
            assert_eq!(text.parse::<Source>().unwrap().to_string(), wanted);
        }
        for login in ["u:p", "token", ":p"] {
            let source: Source = format!("https://{login}@h/x/").parse().unwrap();
            assert_eq!(source.to_string(), "https://h/x/");
            assert_eq!(source.with_login(), Some(format!("https://{login}@h/x/")));
            let shown = format!("{source:?} {source}");
            assert!(!shown.contains(login), "{shown}");
        }
        assert_eq!("https://h/x/".parse::<Source>().unwrap().with_login(), None);
    }

    #[test]
    fn a_refusal_shows_no_password() {
        for text in ["https://u:p%40ss@h/?x", "https://u:p%40ss@h/#x", "ftp://u:p%40ss@h/a@b"] {
            let error = text.parse::<Source>().unwrap_err().to_string();
            assert!(!error.contains("p%40ss") && error.contains("://h/"), "{error}");
        }
        for text in ["https:/u:p%40ss@h/x/", "HTTP:u:p%40ss@h/x/", " http:/u:p%40ss@h"] {
            let error = text.parse::<Source>().unwrap_err().to_string();
            assert!(!error.contains("p%40ss") && error.contains("two slashes"), "{error}");
        }
    }

    #[test]
    fn what_is_no_source_is_refused() {
        for text in [
            "",
            "hf:",
            "hf:a",
            "hf:a/b/c",
            "hf:a/b@",
            "hf:../b",
            "ftp://h/x",
            "https://h/?x",
            "s3://",
            "s3:///prefix",
            "s3://key:secret@b/x",
            "s3://b:80/x",
            "gs://b/x",
            "hf:a/b@../c",
        ] {
            let error = text.parse::<Source>().unwrap_err();
            assert!(matches!(error, FetchError::Notation { .. }), "{text}: {error}");
        }
    }
}
