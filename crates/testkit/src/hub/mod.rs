//! A model hub and its CDN on loopback, as faulty as the real ones and what is between.
//!
//! Two listeners, so two origins. The hub tells a repository's revision and files, holds the small
//! files, and sends whoever asks for a large one to the CDN, by a signed link that expires. All bytes
//! that leave are counted, file by file and range by range.

mod plan;
mod wire;

use std::collections::HashMap;
use std::io::{self, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub use plan::{Draw, Misstep, Missteps};
use wire::{Answer, Request, hold};

/// Smaller files lie in the hub itself.
const LARGE_BYTES: usize = 1 << 16;
/// The repository it has.
pub const REPOSITORY: &str = "deltafin/mini";
/// The repository of a drafter, where one is served; at the mirror it is a folder of the checkpoint's.
pub const DRAFTER: &str = "deltafin/mini-drafter";
/// Begins the names of its files.
const DRAFTER_FOLDER: &str = "drafter/";
/// The revision that `main` is.
pub const REVISION: &str = "5eed0000000000000000000000000000000000aa";

struct File {
    bytes: Vec<u8>,
    sha256: String,
    git: String,
}

/// What left the servers.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Of each file, the ranges whose bytes were sent, as (first byte, bytes).
    pub ranges: HashMap<String, Vec<(u64, u64)>>,
    /// Requests that carried a token to the CDN.
    pub tokens_leaked: u64,
    /// Requests without the token the hub wants.
    pub unauthorized: u64,
    /// Links that were made.
    pub links: u64,
}

impl Served {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.ranges.values().flatten().map(|range| range.1).sum()
    }
}

struct State {
    files: HashMap<String, File>,
    names: Vec<String>,
    cdn: SocketAddr,
    missteps: Mutex<Missteps>,
    served: Mutex<Served>,
    token: Mutex<Option<String>>,
    /// Lengths that are told instead of the true ones.
    announced: Mutex<HashMap<String, u64>>,
    /// How many requests a link is good for.
    link_uses: AtomicU64,
    links: Mutex<HashMap<String, u64>>,
    /// How late an answer with bytes of a file may be, in milliseconds.
    late_ms: AtomicU64,
    /// Answers with bytes of a file that are on their way.
    sending: AtomicU64,
    closed: AtomicBool,
}

/// The two servers; they end with it.
pub struct Hub {
    state: Arc<State>,
    hub: SocketAddr,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// Serves these files.
    pub fn serve(files: Vec<(String, Vec<u8>)>, missteps: Missteps) -> Hub {
        let (hub, cdn) = (listener(), listener());
        let names = files.iter().map(|(name, _)| name.clone()).collect();
        let state = Arc::new(State {
            files: files.into_iter().map(|(name, bytes)| (name, File::new(bytes))).collect(),
            names,
            cdn: cdn.local_addr().unwrap(),
            missteps: Mutex::new(missteps),
            served: Mutex::default(),
            token: Mutex::default(),
            announced: Mutex::default(),
            link_uses: AtomicU64::new(u64::MAX),
            links: Mutex::default(),
            late_ms: AtomicU64::new(0),
            sending: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        let address = hub.local_addr().unwrap();
        listen(hub, state.clone(), State::hub);
        listen(cdn, state.clone(), State::cdn);
        Hub { state, hub: address }
    }

    /// Serves the files of a folder that belong to a checkpoint.
    pub fn serve_dir(dir: &Path, missteps: Missteps) -> Hub {
        Hub::serve(checkpoint_files(dir), missteps)
    }

    /// As [`Hub::serve_dir`], with a drafter.
    pub fn serve_with_drafter(dir: &Path, missteps: Missteps) -> Hub {
        let drafter = drafter_files().into_iter();
        let drafter = drafter.map(|(name, bytes)| (format!("{DRAFTER_FOLDER}{name}"), bytes));
        Hub::serve(checkpoint_files(dir).into_iter().chain(drafter).collect(), missteps)
    }

    /// What `HF_ENDPOINT` is to be.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.hub)
    }

    /// Where the same files are without a hub: `/NAME`.
    pub fn mirror(&self) -> String {
        format!("http://{}/mirror/", self.hub)
    }

    /// What was sent, once no answer is on its way; those that stand still are not waited for long.
    pub fn served(&self) -> Served {
        for _ in 0..200 {
            if self.state.sending.load(Ordering::SeqCst) == 0 {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        locked(&self.state.served).clone()
    }

    /// How many answers went wrong.
    pub fn missteps_made(&self) -> u64 {
        locked(&self.state.missteps).made()
    }

    /// Another plan from here on.
    pub fn misstep(&self, missteps: Missteps) {
        *locked(&self.state.missteps) = missteps;
    }

    /// Refuses whoever does not carry this token.
    pub fn require_token(&self, token: &str) {
        *locked(&self.state.token) = Some(format!("Bearer {token}"));
    }

    /// Refuses whoever does not carry this name and password, written as HTTP does.
    pub fn require_login(&self, base64: &str) {
        *locked(&self.state.token) = Some(format!("Basic {base64}"));
    }

    /// From here on a link is good for so many requests.
    pub fn expire_links_after(&self, uses: u64) {
        self.state.link_uses.store(uses, Ordering::SeqCst);
    }

    /// From here on answers are late, each by another time up to this one, so that they come in another order
    /// than they were asked for.
    pub fn answer_late(&self, most: Duration) {
        self.state.late_ms.store(most.as_millis() as u64, Ordering::SeqCst);
    }

    /// Tells another length of a file than it has.
    pub fn announce(&self, name: &str, bytes: u64) {
        locked(&self.state.announced).insert(name.to_owned(), bytes);
    }

    /// Bytes of all files, without those of a drafter.
    pub fn bytes(&self) -> u64 {
        let names = self.state.names.iter().filter(|name| !name.starts_with(DRAFTER_FOLDER));
        names.map(|name| self.state.files[name].bytes.len() as u64).sum()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::SeqCst);
        for address in [self.hub, self.state.cdn] {
            let _ = TcpStream::connect(address);
        }
    }
}

/// The files of a folder that a checkpoint consists of, by name.
pub fn checkpoint_files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names.retain(|name| !name.starts_with("golden") && name != "README.md");
    let read = |name: String| (name.clone(), fs::read(dir.join(name)).unwrap());
    names.into_iter().map(read).collect()
}

/// The files of a drafter: a configuration of the published form, and weights that are none.
pub fn drafter_files() -> Vec<(String, Vec<u8>)> {
    const ROWS: usize = 40_000;
    let config = json!({"architectures": ["K3DSparkModel"], "model_type": "k3_dspark"});
    let end = 2 * ROWS;
    let tensor = json!({"dtype": "BF16", "shape": [ROWS], "data_offsets": [0, end]});
    let mut header = json!({"context_norm.weight": tensor}).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut weights = (header.len() as u64).to_le_bytes().to_vec();
    weights.extend_from_slice(header.as_bytes());
    weights.extend((0..end).map(|at| (at * 7 % 251) as u8));
    let config = config.to_string().into_bytes();
    vec![("config.json".to_owned(), config), ("model.safetensors".to_owned(), weights)]
}

/// The repositories that there are, and what begins the names of their files.
const REPOSITORIES: [(&str, &str); 2] = [(REPOSITORY, ""), (DRAFTER, DRAFTER_FOLDER)];

impl File {
    fn new(bytes: Vec<u8>) -> File {
        let sha256 = hex(&Sha256::digest(&bytes));
        let mut git = sha1::Sha1::new();
        git.update(format!("blob {}\0", bytes.len()));
        git.update(&bytes);
        File { sha256, git: hex(&git.finalize()), bytes }
    }

    fn is_large(&self) -> bool {
        self.bytes.len() >= LARGE_BYTES
    }

    fn entry(&self, path: &str, size: u64) -> Value {
        let mut entry = json!({"type": "file", "path": path, "size": size, "oid": self.git});
        if self.is_large() {
            entry["oid"] = json!("0".repeat(40)); // of the pointer, which nobody needs
            entry["lfs"] = json!({"oid": self.sha256, "size": size, "pointerSize": 135});
        }
        entry
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn listener() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).unwrap()
}

type Answers = fn(&State, &Request, &mut TcpStream) -> io::Result<Next>;

/// What becomes of a connection.
enum Next {
    Go,
    Close,
}

fn listen(listener: TcpListener, state: Arc<State>, answers: Answers) {
    thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            if state.closed.load(Ordering::SeqCst) {
                return;
            }
            let state = state.clone();
            thread::spawn(move || converse(&state, connection, answers));
        }
    });
}

fn converse(state: &State, mut connection: TcpStream, answers: Answers) {
    let _ = connection.set_nodelay(true);
    let Ok(reading) = connection.try_clone() else { return };
    let mut reading = BufReader::new(reading);
    while let Ok(Some(request)) = Request::read(&mut reading) {
        match answers(state, &request, &mut connection) {
            Ok(Next::Go) if !state.closed.load(Ordering::SeqCst) => {}
            _ => return,
        }
    }
}

impl State {
    /// The hub: what there is, small files, links to large ones.
    fn hub(&self, request: &Request, to: &mut TcpStream) -> io::Result<Next> {
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
        match named.as_ref().and_then(|name| Some((name, self.files.get(name)?))) {
            Some((name, file)) if file.is_large() => self.link(name, file, request, to),
            Some((name, _)) => self.file(name, request, to, Some(REVISION)),
            None => self.plain(request, to, Answer::new(404, b"Entry not found")),
        }
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
            let file = &self.files[&format!("{folder}{name}")];
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
            .with("X-Repo-Commit", REVISION)
            .with("X-Linked-Size", file.bytes.len())
            .with("X-Linked-Etag", format!("\"{}\"", file.sha256));
        self.plain(request, to, answer)
    }

    /// The CDN: large files to whoever has a good link.
    fn cdn(&self, request: &Request, to: &mut TcpStream) -> io::Result<Next> {
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
        let Some(file) = self.files.get(name) else {
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
        let part = Part { name, file, first, last, ranged: request.range().is_some(), commit };
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

/// What is asked for of a file.
struct Part<'a> {
    name: &'a str,
    file: &'a File,
    first: u64,
    last: u64,
    ranged: bool,
    commit: Option<&'a str>,
}

impl Part<'_> {
    fn slice(&self) -> &[u8] {
        match self.file.bytes.is_empty() {
            true => &[],
            false => &self.file.bytes[self.first as usize..=self.last as usize],
        }
    }

    /// The right answer with these bytes.
    fn right<'b>(&self, body: &'b [u8]) -> Answer<'b> {
        let mut answer = Answer::new(if self.ranged { 206 } else { 200 }, body);
        if self.ranged {
            let length = self.file.bytes.len();
            let place = format!("bytes {}-{}/{length}", self.first, self.last);
            answer = answer.with("Content-Range", place);
        }
        if let Some(commit) = self.commit {
            answer = answer.with("X-Repo-Commit", commit);
        }
        answer.with("ETag", format!("\"{}\"", self.file.sha256)).with("Accept-Ranges", "bytes")
    }

    /// Sends what a misstep makes of it; gives the bytes of body that went out.
    fn send(
        &self,
        misstep: Option<Misstep>,
        request: &Request,
        to: &mut TcpStream,
    ) -> io::Result<(u64, Next)> {
        let (slice, method) = (self.slice(), request.method.as_str());
        let length = self.file.bytes.len() as u64;
        let go = |answer: Answer<'_>, to: &mut TcpStream| Ok((answer.send(to, method)?, Next::Go));
        let refusal = |status| Answer::new(status, b"no" as &[u8]);
        let Some(misstep) = misstep else { return go(self.right(slice), to) };
        match misstep {
            Misstep::WholeFile => {
                let tag = format!("\"{}\"", self.file.sha256);
                go(Answer::new(200, &self.file.bytes).with("ETag", tag), to)
            }
            Misstep::OddStatus => {
                go(Answer { status: 200, headers: Vec::new(), ..self.right(slice) }, to)
            }
            Misstep::Shifted => {
                let shift = 1 + self.first.min(6);
                let first = (self.first + shift).min(length.saturating_sub(1));
                let last = (self.last + shift).min(length.saturating_sub(1));
                let moved = Part { first, last, commit: None, ..*self };
                go(moved.right(moved.slice()), to)
            }
            Misstep::Cut => {
                let answer = Answer { sent: slice.len() / 2, ..self.right(slice) };
                Ok((answer.send(to, method)?, Next::Close))
            }
            Misstep::Less => {
                let less = Part { last: self.first + (self.last - self.first) / 2, ..*self };
                go(less.right(less.slice()), to)
            }
            Misstep::Flipped => {
                let mut flipped = slice.to_vec();
                let middle = flipped.len() / 2;
                flipped.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 0x10);
                go(self.right(&flipped), to)
            }
            Misstep::OutOfRange => {
                go(refusal(416).with("Content-Range", format!("bytes */{length}")), to)
            }
            Misstep::TooMany => go(refusal(429).with("Retry-After", 0), to),
            Misstep::Unavailable => go(refusal(503), to),
            Misstep::Internal => go(refusal(500), to),
            Misstep::Forbidden => go(refusal(403), to),
            Misstep::Stall => {
                let answer = Answer { sent: slice.len() / 2, ..self.right(slice) };
                let sent = answer.send(to, method)?;
                hold(to);
                Ok((sent, Next::Close))
            }
            Misstep::Silence => {
                hold(to);
                Ok((0, Next::Close))
            }
            Misstep::OtherTag => {
                let mut answer = self.right(slice);
                answer.headers.retain(|header| header.0 != "ETag");
                go(answer.with("ETag", format!("\"other-{}\"", self.name)), to)
            }
            Misstep::Reset => Ok((0, Next::Close)),
            Misstep::Page => {
                go(Answer::new(200, b"<html>sign in</html>").with("Content-Type", "text/html"), to)
            }
            Misstep::Garbage => {
                to.write_all(b"\x16\x03\x01 this is no answer\r\n\r\n")?;
                Ok((0, Next::Close))
            }
            Misstep::Empty => go(Answer::new(200, b""), to),
        }
    }
}
