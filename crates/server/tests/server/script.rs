//! An engine that does what it is told.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use deltafin_server::{Backend, End, Entry, Facts, Job, Server, Settings};
use deltafin_text::Tokenizer;

/// What it does next.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Takes in one row of the prompt for so many milliseconds.
    Prefill(u64),
    /// Says what these ids spell; markers are structure.
    Say(&'static str),
    /// Says one id.
    Id(u32),
    /// Is silent for so many milliseconds.
    Wait(u64),
    /// Wants nothing in particular, until it has reached a stop id.
    Noise(u64),
    /// From the beginning, says what must come without being asked to choose it.
    Hasty,
    /// Says `a` every so many milliseconds, for ever.
    Forever(u64),
    /// Fails.
    Fail,
    /// Panics, as no engine should.
    Panic,
    /// Reaches the stop id.
    Stop,
}

/// What it did.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) jobs: AtomicUsize,
    pub(crate) ids: AtomicUsize,
    /// Those of them that had to come.
    pub(crate) forced: AtomicUsize,
    pub(crate) busy: AtomicBool,
    pub(crate) broken_off: AtomicBool,
    /// The last prompt.
    pub(crate) prompt: Mutex<Vec<u32>>,
}

struct Scripted {
    facts: Facts,
    acts: Vec<Act>,
    log: Arc<Log>,
}

/// A server with a script behind it.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) at: SocketAddr,
    pub(crate) log: Arc<Log>,
}

pub(crate) const CONTEXT: usize = 400;

pub(crate) fn tokenizer() -> Tokenizer {
    let file = |name| deltafin_demo::file(name).expect("carried");
    Tokenizer::new(file("tiktoken.model"), Some(file("tokenizer_config.json"))).expect("sound")
}

/// Settings whose clocks a test can wait for.
pub(crate) fn quick() -> Settings {
    Settings {
        model: "test".to_owned(),
        ping_interval: Duration::from_millis(100),
        stall_limit: Duration::from_millis(500),
        shutdown_grace: Duration::from_millis(300),
        replay: Duration::ZERO,
        ..Settings::default()
    }
}

/// The same, with a plain reply's status sent before the engine has said anything. Elsewhere the status
/// waits as long as `serve` lets it: a busy machine must not turn a failure into a late 200.
pub(crate) fn early_status() -> Settings {
    Settings { status_hold: Duration::from_millis(150), ..quick() }
}

pub(crate) fn start_unloaded(settings: Settings) -> (Server, SocketAddr) {
    start_telling(settings, |_| {})
}

fn start_telling(
    settings: Settings,
    log: impl Fn(&Entry) + Send + Sync + 'static,
) -> (Server, SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let server = Server::start(listener, settings, log).expect("starts");
    let at = server.address();
    (server, at)
}

/// With the lines of its log: each the event and its words.
pub(crate) fn start_logged(settings: Settings, acts: &[Act]) -> (Rig, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::<Mutex<Vec<String>>>::default();
    let kept = lines.clone();
    let log = move |entry: &Entry| {
        kept.lock().expect("whole").push(format!("{} {}", entry.event, entry.words));
    };
    (loaded(start_telling(settings, log), acts, CONTEXT), lines)
}

pub(crate) fn start_with(settings: Settings, acts: &[Act]) -> Rig {
    start_wide(settings, acts, CONTEXT)
}

/// With so much room that a reply fills every buffer on its way.
pub(crate) fn start_wide(settings: Settings, acts: &[Act], context: usize) -> Rig {
    loaded(start_unloaded(settings), acts, context)
}

fn loaded((server, at): (Server, SocketAddr), acts: &[Act], context: usize) -> Rig {
    let log = Arc::new(Log::default());
    let facts = Facts { context, fingerprint: "fp_00000000".to_owned(), request_bytes: None };
    server.ready(tokenizer(), Scripted { facts, acts: acts.to_vec(), log: log.clone() });
    Rig { server, at, log }
}

pub(crate) fn start(acts: &[Act]) -> Rig {
    start_with(quick(), acts)
}

/// Waits for something that must come soon.
#[track_caller]
pub(crate) fn soon(what: &str, is_so: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(5);
    while !is_so() {
        assert!(Instant::now() < patience, "{what}: not within 5 s");
        sleep(Duration::from_millis(2));
    }
}

impl Rig {
    #[track_caller]
    pub(crate) fn until_busy(&self) {
        soon("busy", || self.log.busy.load(Ordering::SeqCst));
    }

    #[track_caller]
    pub(crate) fn until_idle(&self) {
        soon("idle", || !self.log.busy.load(Ordering::SeqCst));
    }
}

impl Backend for Scripted {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn submit(&self, job: Job) {
        let (acts, log) = (self.acts.clone(), self.log.clone());
        log.jobs.fetch_add(1, Ordering::SeqCst);
        log.prompt.lock().expect("whole").clone_from(&job.prompt);
        assert!(!log.busy.swap(true, Ordering::SeqCst), "two jobs at a time");
        std::thread::spawn(move || play(job, &acts, &log));
    }
}

fn play(job: Job, acts: &[Act], log: &Log) {
    let tokenizer = tokenizer();
    let Job { prompt, max_new, mut sink } = job;
    sink.begin(0);
    let mut said = 0;
    let stops = tokenizer.stop_ids();
    let is_hasty = acts.iter().any(|act| matches!(act, Act::Hasty));
    let mut choose = |sink: &mut deltafin_server::Sink, logits: &dyn Fn(usize) -> Vec<f32>| {
        if said == max_new {
            return Some(End::Length);
        }
        let id = sink.choose(&logits(said));
        said += 1;
        log.ids.fetch_add(1, Ordering::SeqCst);
        if stops.contains(&id) {
            return Some(End::Stop(id));
        }
        let mut flow = sink.id(id);
        let forced = if is_hasty && flow.is_continue() { sink.forced() } else { Vec::new() };
        for id in forced {
            if said == max_new || flow.is_break() {
                break;
            }
            said += 1;
            log.ids.fetch_add(1, Ordering::SeqCst);
            log.forced.fetch_add(1, Ordering::SeqCst);
            flow = sink.id(id);
        }
        log.broken_off.fetch_or(flow.is_break(), Ordering::SeqCst);
        flow.is_break().then_some(End::Cancelled)
    };
    let mut rows = 0;
    for act in acts {
        let end = match act {
            Act::Prefill(ms) => {
                rows += 1;
                sleep(Duration::from_millis(*ms));
                let flow = sink.prefill(rows, prompt.len());
                log.broken_off.fetch_or(flow.is_break(), Ordering::SeqCst);
                flow.is_break().then_some(End::Cancelled)
            }
            Act::Noise(seed) => loop {
                if let Some(end) = choose(&mut sink, &|step| noise(*seed, step, &tokenizer)) {
                    break Some(end);
                }
            },
            Act::Hasty => None,
            Act::Say(text) => say(&mut choose, &mut sink, &tokenizer.encode_markup(text)),
            Act::Id(id) => say(&mut choose, &mut sink, &[*id]),
            Act::Wait(ms) => {
                sleep(Duration::from_millis(*ms));
                None
            }
            Act::Forever(ms) => loop {
                sleep(Duration::from_millis(*ms));
                if let Some(end) = say(&mut choose, &mut sink, &tokenizer.encode_text("a")) {
                    break Some(end);
                }
            },
            Act::Fail => return fail(log, || sink.fail("the disk is gone".to_owned())),
            Act::Panic => {
                log.busy.store(false, Ordering::SeqCst);
                panic!("a scripted panic");
            }
            Act::Stop => Some(End::Stop(tokenizer.stop_ids()[0])),
        };
        if let Some(end) = end {
            log.busy.store(false, Ordering::SeqCst);
            return sink.end(end);
        }
    }
    log.busy.store(false, Ordering::SeqCst);
    sink.end(End::Length);
}

type Choose<'a> =
    dyn FnMut(&mut deltafin_server::Sink, &dyn Fn(usize) -> Vec<f32>) -> Option<End> + 'a;

fn say(choose: &mut Choose<'_>, sink: &mut deltafin_server::Sink, ids: &[u32]) -> Option<End> {
    ids.iter().find_map(|&id| choose(sink, &|_| leaning(id)))
}

/// Logits of a model that wants nothing in particular; one time in four it wants to come to an end.
fn noise(seed: u64, step: usize, tokenizer: &Tokenizer) -> Vec<f32> {
    let mix = |x: u64| {
        let x = (x ^ (x >> 31)).wrapping_mul(0x7fb5_d329_728e_a185);
        (x ^ (x >> 27)).wrapping_mul(0x81da_def4_bc2d_d44d) >> 40
    };
    let wants_end = mix(seed ^ mix(step as u64)) % 4 == 0;
    let logit = |id: u32| {
        let bytes = tokenizer.token_bytes(id).expect("in the table");
        let ends = id >= tokenizer.base() || bytes.iter().any(|byte| b"\"}]".contains(byte));
        let rest = mix(mix(seed).wrapping_add((step as u64) << 20) ^ u64::from(id)) as f32;
        if ends && wants_end { rest * 2.0 } else { rest }
    };
    (0..tokenizer.vocab_size()).map(logit).collect()
}

/// Logits of a model that wants this id and hesitates between the first ones of the vocabulary.
fn leaning(id: u32) -> Vec<f32> {
    static SIZE: OnceLock<usize> = OnceLock::new();
    let mut logits = vec![0.0; *SIZE.get_or_init(|| tokenizer().vocab_size() as usize)];
    logits[..8].copy_from_slice(&[2.0, 1.5, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0]);
    if let Some(logit) = logits.get_mut(id as usize) {
        *logit = 9.0;
        return logits;
    }
    // Past the table, as a model with a larger vocabulary may do.
    logits.resize(id as usize + 1, 9.0);
    logits
}

fn fail(log: &Log, tell: impl FnOnce()) {
    log.busy.store(false, Ordering::SeqCst);
    tell();
}
