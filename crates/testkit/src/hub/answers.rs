//! Who is answered what: the hub's listing, small files and links, and the CDN's bytes.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::file::File;
use super::part::Part;
use super::plan::Draw;
use super::wire::{Answer, Request};
use super::{DRAFTER, DRAFTER_FOLDER, Next, REPOSITORY, REVISION, State, locked};

/// The repositories that there are, and what begins the names of their files.
const REPOSITORIES: [(&str, &str); 2] = [(REPOSITORY, ""), (DRAFTER, DRAFTER_FOLDER)];

impl State {
    /// The hub: what there is, small files, links to large ones.
    pub(super) fn hub(&self, request: &Request, to: &mut TcpStream) -> io::Result<Next> {
        if let Some(token) = locked(&self.token).as_ref()
            && request.header("authorization") != Some(token.as_str())
        {
            locked(&self.served).unauthorized += 1;
            return self.plain(request, to, Answer::new(401, b"a token is needed"));
        }
        let path = request.path.trim_start_matches('/');
        for (repository, folder) in REPOSITORIES {
            let api = format!("api/models/{repository}/");
            if let Some(rest) = path.strip_prefix(&api) {
                return self.api(repository, folder, rest, request, to);
            }
        }
        if let Some(name) = path.strip_prefix("mirror/") {
            return self.file(name, request, to, None);
        }
        let named = REPOSITORIES.iter().find_map(|(repository, folder)| {
            let name = path.strip_prefix(&format!("{repository}/resolve/{REVISION}/"))?;
            Some(format!("{folder}{name}"))
        });
        let commit = locked(&self.commit).clone();
        match named.as_ref().and_then(|name| Some((name, self.of(name)?))) {
            Some((name, file)) if file.is_large() => self.link(name, &file, request, to),
            Some((name, _)) => self.file(name, request, to, Some(&commit)),
            None => self.plain(request, to, Answer::new(404, b"Entry not found")),
        }
    }

    /// A file as it is at this moment.
    fn of(&self, name: &str) -> Option<Arc<File>> {
        locked(&self.files).get(name).cloned()
    }

    fn plain(&self, request: &Request, to: &mut TcpStream, answer: Answer<'_>) -> io::Result<Next> {
        answer.send(to, &request.method)?;
        Ok(Next::Go)
    }

    /// The names of a repository's files, without what they begin with here.
    fn names(&self, folder: &str) -> Vec<&str> {
        let is_in = |name: &&str| !folder.is_empty() || !name.starts_with(DRAFTER_FOLDER);
        let names = self.names.iter().filter_map(|name| name.strip_prefix(folder));
        names.filter(is_in).collect()
    }

    fn api(
        &self,
        repository: &str,
        folder: &str,
        rest: &str,
        request: &Request,
        to: &mut TcpStream,
    ) -> io::Result<Next> {
        let names = self.names(folder);
        let known = if names.is_empty() { ["", ""] } else { ["main", REVISION] };
        let body = match rest.split_once('/') {
            Some(("revision", revision)) if known.contains(&revision) => {
                let siblings = names.iter().map(|name| json!({"rfilename": name}));
                let siblings: Vec<_> = siblings.collect();
                json!({"id": repository, "sha": REVISION, "siblings": siblings})
            }
            Some(("tree", revision)) if known.contains(&revision) => {
                return self.tree(folder, &names, request, to);
            }
            _ => return self.plain(request, to, Answer::new(404, b"Repository not found")),
        };
        self.plain(request, to, Answer::new(200, body.to_string().as_bytes()))
    }

    /// The tree, a few entries at a time, with a link to the next ones.
    fn tree(
        &self,
        folder: &str,
        all: &[&str],
        request: &Request,
        to: &mut TcpStream,
    ) -> io::Result<Next> {
        const PAGE: usize = 7;
        let from = request.asked("cursor").and_then(|at| at.parse().ok()).unwrap_or(0);
        let names = all.iter().skip(from).take(PAGE);
        let announced = locked(&self.announced).clone();
        let entry = |name: &&str| {
            let file = locked(&self.files)[&format!("{folder}{name}")].clone();
            let size = announced.get(*name).copied().unwrap_or(file.bytes.len() as u64);
            file.entry(name, size)
        };
        let entries: Vec<_> = names.map(entry).collect();
        let body = json!(entries).to_string();
        let answer = Answer::new(200, body.as_bytes());
        let next = from + PAGE;
        if next >= all.len() {
            return self.plain(request, to, answer);
        }
        let host = request.header("host").unwrap_or_default();
        let link = format!("<http://{host}{}?cursor={next}>; rel=\"next\"", request.path);
        self.plain(request, to, answer.with("Link", link))
    }

    /// A signed link to the CDN.
    fn link(
        &self,
        name: &str,
        file: &File,
        request: &Request,
        to: &mut TcpStream,
    ) -> io::Result<Next> {
        let signature = {
            let mut served = locked(&self.served);
            served.links += 1;
            format!("{:016x}", Draw(served.links).number())
        };
        locked(&self.links).insert(signature.clone(), self.link_uses.load(Ordering::SeqCst));
        let target = format!("http://{}/{name}?Expires=1&Signature={signature}", self.cdn);
        let answer = Answer::new(302, b"")
            .with("Location", target)
            .with("X-Repo-Commit", locked(&self.commit).as_str())
            .with("X-Linked-Size", file.bytes.len())
            .with("X-Linked-Etag", format!("\"{}\"", file.sha256));
        self.plain(request, to, answer)
    }

    /// The CDN: large files to whoever has a good link.
    pub(super) fn cdn(&self, request: &Request, to: &mut TcpStream) -> io::Result<Next> {
        if request.header("authorization").is_some() {
            locked(&self.served).tokens_leaked += 1;
        }
        let good = request.asked("Signature").is_some_and(|signature| {
            let mut links = locked(&self.links);
            let Some(uses) = links.get_mut(signature) else { return false };
            let good = *uses > 0;
            *uses = uses.saturating_sub(1);
            good
        });
        if !good {
            return self.plain(request, to, Answer::new(403, b"Request has expired"));
        }
        self.file(request.path.trim_start_matches('/'), request, to, None)
    }

    /// A file, or a slice of it, or what is sent in its place.
    fn file(
        &self,
        name: &str,
        request: &Request,
        to: &mut TcpStream,
        commit: Option<&str>,
    ) -> io::Result<Next> {
        let Some(file) = self.of(name) else {
            return self.plain(request, to, Answer::new(404, b"Entry not found"));
        };
        let length = file.bytes.len() as u64;
        let (first, last) = request.range().unwrap_or((0, length.saturating_sub(1)));
        let last = last.min(length.saturating_sub(1));
        if first > last && length > 0 {
            return self.plain(request, to, Answer::new(416, b""));
        }
        let misstep = match request.method.as_str() {
            "GET" => locked(&self.missteps).next(name),
            _ => None,
        };
        let (ranged, told) = (request.range().is_some(), *locked(&self.told));
        let part = Part { name, file: &file, first, last, ranged, commit, told };
        let number = self.sending.fetch_add(1, Ordering::SeqCst);
        let late_ms = self.late_ms.load(Ordering::SeqCst);
        if late_ms > 0 {
            thread::sleep(Duration::from_millis(Draw(first ^ number).below(late_ms)));
        }
        let ended = part.send(misstep, request, to);
        if let Ok((sent @ 1.., _)) = ended {
            let mut served = locked(&self.served);
            served.ranges.entry(name.to_owned()).or_default().push((first, sent));
        }
        self.sending.fetch_sub(1, Ordering::SeqCst);
        ended.map(|(_, next)| next)
    }
}
