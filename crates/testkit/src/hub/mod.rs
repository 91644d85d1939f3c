//! A model hub and its CDN on loopback, as faulty as the real ones and what is between.
//!
//! Two listeners, so two origins. The hub tells a repository's revision and files, holds the small
//! files, and sends whoever asks for a large one to the CDN, by a signed link that expires. All bytes
//! that leave are counted, file by file and range by range.

mod answers;
mod contents;
mod file;
mod part;
mod plan;
mod wire;

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

pub use contents::{checkpoint_files, drafter_files};
use file::File;
pub use plan::{Draw, Misstep, Missteps};
use wire::Request;

/// The repository it has.
pub const REPOSITORY: &str = "deltafin/mini";
/// The repository of a drafter, where one is served; at the mirror it is a folder of the checkpoint's.
pub const DRAFTER: &str = "deltafin/mini-drafter";
/// Begins the names of its files.
const DRAFTER_FOLDER: &str = "drafter/";
/// The revision that `main` is.
pub const REVISION: &str = "5eed0000000000000000000000000000000000aa";

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
    files: Mutex<HashMap<String, Arc<File>>>,
    names: Vec<String>,
    cdn: SocketAddr,
    missteps: Mutex<Missteps>,
    served: Mutex<Served>,
    token: Mutex<Option<String>>,
    /// What answers say of the state that a file is in.
    told: Mutex<Told>,
    /// The commit that the hub's answers say they are of.
    commit: Mutex<String>,
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

/// What tells one state of a file from another in answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// An entity tag.
    Tags,
    /// When the file was last changed.
    Dates,
    /// Neither.
    Nothing,
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
        let file = |(name, bytes)| (name, Arc::new(File::new(bytes, 0)));
        let state = Arc::new(State {
            files: Mutex::new(files.into_iter().map(file).collect()),
            names,
            cdn: cdn.local_addr().unwrap(),
            missteps: Mutex::new(missteps),
            served: Mutex::default(),
            token: Mutex::default(),
            told: Mutex::new(Told::Tags),
            commit: Mutex::new(REVISION.to_owned()),
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

    /// From here on a file has other bytes.
    pub fn replace(&self, name: &str, bytes: Vec<u8>) {
        let mut files = locked(&self.state.files);
        let version = files.get(name).map_or(0, |file| file.version + 1);
        files.insert(name.to_owned(), Arc::new(File::new(bytes, version)));
    }

    /// From here on answers say this of the state that a file is in.
    pub fn tell(&self, told: Told) {
        *locked(&self.state.told) = told;
    }

    /// From here on the hub's answers say that they are of this commit, whichever was asked for.
    pub fn answer_of(&self, commit: &str) {
        *locked(&self.state.commit) = commit.to_owned();
    }

    /// Bytes of all files, without those of a drafter.
    pub fn bytes(&self) -> u64 {
        let files = locked(&self.state.files);
        let names = self.state.names.iter().filter(|name| !name.starts_with(DRAFTER_FOLDER));
        names.map(|name| files[name].bytes.len() as u64).sum()
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
