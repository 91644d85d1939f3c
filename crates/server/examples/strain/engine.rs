//! An engine that says one word over and over, and remembers for whom.

use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use deltafin_server::{Backend, End, Facts, Job, Server, Settings, Sink};
use deltafin_text::Tokenizer;

/// What one job came to.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The most ids it was allowed: the name its client gave it.
    pub(crate) number: usize,
    pub(crate) began: Instant,
    /// The same moment while it goes on.
    pub(crate) ended: Instant,
    /// Ids said.
    pub(crate) said: usize,
    /// It came to its end, and was not broken off.
    pub(crate) is_whole: bool,
}

/// All jobs that were begun, in order.
pub(crate) type Runs = Arc<Mutex<Vec<Run>>>;

/// How it speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Between two ids.
    pub(crate) pace: Duration,
    /// Ids of a reply, if the request allows as many.
    pub(crate) ids: usize,
    /// The server may choose other ids, as far as a request has it do so.
    pub(crate) yields: bool,
}

/// An engine on a thread of its own.
#[derive(Debug)]
pub(crate) struct Speaker {
    facts: Facts,
    jobs: Sender<Job>,
}

/// The tokenizer of the built-in model.
pub(crate) fn tokenizer() -> Tokenizer {
    let file = |name| deltafin_demo::file(name).unwrap();
    Tokenizer::new(file("tiktoken.model"), Some(file("tokenizer_config.json"))).unwrap()
}

/// A server with such an engine.
pub(crate) fn serve(settings: Settings, manner: Manner) -> (Server, SocketAddr, Runs) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let server = Server::start(listener, settings, |_| {}).unwrap();
    let runs = Runs::default();
    server.ready(tokenizer(), Speaker::start(manner, runs.clone()));
    let at = server.address();
    (server, at, runs)
}

impl Speaker {
    fn start(manner: Manner, runs: Runs) -> Speaker {
        let facts =
            Facts { context: 1 << 24, fingerprint: "fp_strain".to_owned(), request_bytes: None };
        let (jobs, waiting) = channel();
        thread::spawn(move || work(manner, &runs, &waiting));
        Speaker { facts, jobs }
    }
}

impl Backend for Speaker {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn submit(&self, job: Job) {
        self.jobs.send(job).unwrap();
    }
}

fn work(manner: Manner, runs: &Runs, jobs: &Receiver<Job>) {
    let tokenizer = tokenizer();
    let stop = tokenizer.stop_ids()[0];
    let voice = Voice::new(&tokenizer, manner);
    for job in jobs {
        let began = Instant::now();
        let run = Run { number: job.max_new, began, ended: began, said: 0, is_whole: false };
        let at = {
            let mut runs = runs.lock().unwrap();
            runs.push(run);
            runs.len() - 1
        };
        let Job { max_new, mut sink, .. } = job;
        sink.begin(0);
        let ids = manner.ids.min(max_new);
        let said = (0..ids).take_while(|_| voice.say(&mut sink)).count();
        let is_whole = said == ids;
        {
            let run = &mut runs.lock().unwrap()[at];
            (run.ended, run.said, run.is_whole) = (Instant::now(), said, is_whole);
        }
        sink.end(if is_whole { End::Stop(stop) } else { End::Cancelled });
    }
}

/// What it would rather say than anything else.
struct Voice {
    pace: Duration,
    word: u32,
    /// Nothing where its word is the last one.
    logits: Option<Vec<f32>>,
    stops: Vec<u32>,
}

impl Voice {
    fn new(tokenizer: &Tokenizer, manner: Manner) -> Voice {
        let word = tokenizer.encode_text("a")[0];
        let logits = manner.yields.then(|| {
            let mut logits = vec![0.0; tokenizer.vocab_size() as usize];
            logits[word as usize] = 1.0;
            logits
        });
        Voice { pace: manner.pace, word, logits, stops: tokenizer.stop_ids() }
    }

    /// Says the next id; false where nobody wants it, or it ends the reply.
    fn say(&self, sink: &mut Sink) -> bool {
        if !self.pace.is_zero() {
            thread::sleep(self.pace);
        }
        let id = self.logits.as_ref().map_or(self.word, |logits| sink.choose(logits));
        !self.stops.contains(&id) && sink.id(id).is_continue()
    }
}
