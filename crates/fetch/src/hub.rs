//! What a model hub says of a repository.

pub(crate) mod answer;

use std::collections::HashSet;
use std::env;
use std::path::{Path, PathBuf};

use hf_hub::{Cache, Repo, RepoType};
use http::header::LINK;
use reqwest::Url;

use crate::fault::Fault;
use crate::line::Line;
use crate::listing::{Listing, RemoteFile};
use crate::source::shown;
use crate::{FetchError, Source};

/// Where the hub is, unless `HF_ENDPOINT` says otherwise.
const ENDPOINT: &str = "https://huggingface.co";
/// More pages than any repository has.
const PAGES_MAX: usize = 1000;

/// A repository and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Repository {
    endpoint: Url,
    name: String,
    revision: String,
}

/// The address of the hub.
pub(crate) fn endpoint(given: Option<&str>) -> Result<Url, FetchError> {
    let text = given.unwrap_or(ENDPOINT);
    let parsed = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    parsed.ok_or_else(|| FetchError::Source {
        what: format!("HF_ENDPOINT is '{}'", shown(text)),
        why: "it is to be a URL such as https://huggingface.co".to_owned(),
    })
}

/// The token of this user: in `HF_TOKEN`, or where the hub's own tools keep it.
pub(crate) fn token() -> Option<String> {
    let given = env::var("HF_TOKEN").ok().filter(|token| !token.trim().is_empty());
    given.or_else(|| if has_home() { Cache::from_env().token() } else { None })
}

/// Whether there is a place where the hub's own tools keep things.
fn has_home() -> bool {
    ["HF_HOME", "HOME"].iter().any(|name| env::var_os(name).is_some_and(|path| !path.is_empty()))
}

/// Where the cache of the hub's own tools has a repository, as far as it has it.
pub fn cached(source: &Source) -> Option<PathBuf> {
    let Source::Hub { repository, revision } = source else { return None };
    if !has_home() {
        return None;
    }
    let repo = Repo::with_revision(repository.clone(), RepoType::Model, revision.clone());
    let cache = Cache::from_env().repo(repo);
    // A branch or a tag is looked up there; a commit names its folder.
    let snapshot = match cache.get("config.json") {
        Some(config) => config.parent().map(Path::to_owned),
        None => Some(cache.pointer_path(revision)),
    };
    snapshot.filter(|snapshot| snapshot.is_dir())
}

impl Repository {
    /// The repository at a hub.
    pub(crate) fn new(endpoint: Url, name: &str, revision: &str) -> Repository {
        Repository { endpoint, name: name.to_owned(), revision: revision.to_owned() }
    }

    /// Where its files of a commit are, side by side.
    pub(crate) fn folder(&self, commit: &str) -> Result<Url, Fault> {
        self.url(&["resolve", commit], &[])
    }

    /// What it has, at the commit that the revision is at this moment.
    pub(crate) async fn listing(&self, line: &Line) -> Result<(Listing, String), Fault> {
        let repo = Repo::with_revision(self.name.clone(), RepoType::Model, self.revision.clone());
        let info = self.url(&["revision", repo.revision()], &["api", "models"])?;
        let sha = answer::commit(&line.page(&info).await?.0).map_err(Fault::passing)?;
        let files = self.files(line, &sha).await?;
        let pinned = Source::Hub { repository: self.name.clone(), revision: sha.clone() };
        Ok((Listing::new(pinned.to_string(), files), sha))
    }

    async fn files(&self, line: &Line, commit: &str) -> Result<Vec<RemoteFile>, Fault> {
        let mut next = Some(self.url(&["tree", commit], &["api", "models"])?);
        let (mut files, mut seen) = (Vec::new(), HashSet::new());
        for _ in 0..PAGES_MAX {
            let Some(url) = next else { return Ok(files) };
            let (page, headers) = line.page(&url).await?;
            let told = answer::files(&page).map_err(Fault::passing)?;
            files.extend(told.into_iter().filter(|file| seen.insert(file.name.clone())));
            let link = headers.get(LINK).and_then(|value| value.to_str().ok());
            next = link.and_then(answer::following).and_then(|link| url.join(link).ok());
        }
        Err(Fault::Lasting("the list of files has no end".to_owned()))
    }

    /// `ENDPOINT/before…/owner/name/after…`
    fn url(&self, after: &[&str], before: &[&str]) -> Result<Url, Fault> {
        let mut url = self.endpoint.clone();
        let no_path = |()| Fault::Lasting("the address of the hub has no path".to_owned());
        let mut path = url.path_segments_mut().map_err(no_path)?;
        path.pop_if_empty().extend(before).extend(self.name.split('/')).extend(after);
        drop(path);
        Ok(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let at = |endpoint: &str| {
            Repository::new(super::endpoint(Some(endpoint)).unwrap(), "a/b", "refs/pr/1")
        };
        let url = |endpoint| at(endpoint).url(&["tree", "refs/pr/1"], &["api", "models"]).unwrap();
        assert_eq!(url("https://h").as_str(), "https://h/api/models/a/b/tree/refs%2Fpr%2F1");
        assert_eq!(url("https://h/x/").as_str(), "https://h/x/api/models/a/b/tree/refs%2Fpr%2F1");
        assert_eq!(at("http://h").folder("c0").unwrap().as_str(), "http://h/a/b/resolve/c0");
        assert!(endpoint(Some("huggingface.co")).is_err());
        let refused = endpoint(Some("ftp://name:word@host/")).unwrap_err().to_string();
        assert!(refused.starts_with("HF_ENDPOINT is 'ftp://host/'"), "{refused}");
    }
}
