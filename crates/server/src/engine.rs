//! The real backend: an engine and one session on a thread of their own.

use std::any::Any;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use deltafin_engine::{
    DriveReport, Engine, EngineError, Finish, Limits, Listener, Mark, Outcome, Progress, Session,
    Use, generate,
};
use deltafin_text::chat::{Places, Turns};

use crate::backend::{Backend, DriveUse, End, Facts, Flow, Job, Moved, NetworkUse};
use crate::sink::Sink;

/// An engine that answers jobs one after the other. Each goes on from the longest prefix of its prompt
/// that is known: from the last conversation, or from a snapshot of an earlier one.
pub struct EngineBackend {
    facts: Facts,
    engine: Arc<Engine>,
    jobs: SyncSender<Job>,
}

impl EngineBackend {
    /// Gives the engine its thread. `stop_ids` end a generation, `turns` finds where conversations can be
    /// gone on from. `unwanted` is raised while nobody wants what the engine does: a source of weights that watches it
    /// ends its wait. `busy` is up while a job is worked on.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(
        engine: Engine,
        stop_ids: Vec<u32>,
        turns: Turns,
        fingerprint: String,
        unwanted: Arc<AtomicBool>,
        busy: Arc<AtomicBool>,
    ) -> io::Result<EngineBackend> {
        let request_bytes = engine.plan().map(|plan| plan.requests).filter(|bytes| *bytes > 0);
        let facts = Facts { context: engine.context(), fingerprint, request_bytes };
        let (jobs, waiting) = sync_channel(1);
        let engine = Arc::new(engine);
        let worker = engine.clone();
        thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || work(&worker, &stop_ids, &turns, &waiting, &unwanted, &busy))?;
        Ok(EngineBackend { facts, engine, jobs })
    }
}

impl fmt::Debug for EngineBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBackend").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Backend for EngineBackend {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn moved(&self) -> Option<Moved> {
        let stream = self.engine.weights().stream();
        let counters = stream.counters();
        let both = [counters.prefill, counters.decode];
        let sum = |count: fn(&Use) -> u64| both.iter().map(count).sum();
        let wait = |of: fn(&Use) -> Duration| both.iter().map(of).sum();
        let report = stream.report();
        let is_distant = self.engine.weights().is_distant();
        Some(Moved {
            network: is_distant.then_some(NetworkUse {
                experts: report.brought.reads,
                bytes: report.brought.bytes,
                requests: report.asked.requests,
                waits: report.asked.waits,
            }),
            drives: report.drives.iter().map(drive_use).collect(),
            expert_hits: sum(|phase| phase.hits),
            expert_late: sum(|phase| phase.late),
            expert_misses: sum(|phase| phase.misses),
            spine_wait: wait(|phase| phase.spine_wait),
            expert_wait: wait(|phase| phase.expert_wait),
        })
    }

    fn submit(&self, job: Job) {
        // One job at a time, so there is room. A job that cannot be given is dropped, which
        // tells its listener that the engine has stopped.
        let _ = self.jobs.try_send(job);
    }
}

fn drive_use(drive: &DriveReport) -> DriveUse {
    // Bytes that are in memory already are read under a shard's bare name.
    let folder = Path::new(&drive.file).parent().filter(|folder| *folder != Path::new(""));
    DriveUse {
        name: folder.map_or_else(|| "memory".to_owned(), |folder| folder.display().to_string()),
        read_bytes: drive.landed.iter().map(|traffic| traffic.bytes).sum(),
        busy: drive.busy,
    }
}

fn work(
    engine: &Engine,
    stop: &[u32],
    turns: &Turns,
    jobs: &Receiver<Job>,
    unwanted: &Arc<AtomicBool>,
    busy: &AtomicBool,
) {
    let mut session = engine.session();
    for job in jobs {
        busy.store(true, Ordering::SeqCst);
        let Job { prompt, max_new, mut sink } = job;
        sink.raise_when_left(unwanted);
        let answered = catch_unwind(AssertUnwindSafe(|| {
            answer(
                &mut session,
                &prompt,
                turns,
                Limits { max_new: Some(max_new), stop, ignore_stop: false },
                &mut sink,
            )
        }));
        match answered {
            Ok(Ok(outcome)) => sink.end(end(outcome.finish)),
            Ok(Err(error)) => sink.fail(chain(&error)),
            Err(panic) => {
                // Whatever it left in the session is not to be trusted.
                session = engine.session();
                sink.fail(format!("a fault in the engine: {}", words(&*panic)));
            }
        }
        busy.store(false, Ordering::SeqCst);
    }
}

fn answer(
    session: &mut Session<'_>,
    prompt: &[u32],
    turns: &Turns,
    limits: Limits<'_>,
    sink: &mut Sink,
) -> Result<Outcome, EngineError> {
    let cached = session.reuse(prompt);
    sink.begin(cached);
    let Places { reply, preamble, ends } = turns.places(prompt);
    session.mark(&Mark::of_conversation(reply, preamble, &ends));
    let listener = &mut Live { sink, cached, prompt: prompt.len() };
    let outcome = generate(session, &prompt[cached..], limits, listener)?;
    // Before the end is told: whoever hears of it may end the server, and finds everything on its way.
    session.keep();
    Ok(outcome)
}

fn end(finish: Finish) -> End {
    match finish {
        Finish::Stop(id) => End::Stop(id),
        Finish::Length => End::Length,
        Finish::Cancelled => End::Cancelled,
    }
}

struct Live<'a> {
    sink: &'a mut Sink,
    cached: usize,
    prompt: usize,
}

impl Listener for Live<'_> {
    fn prefill(&mut self, progress: Progress) -> Flow {
        self.sink.prefill(self.cached + progress.rows_done, self.prompt)
    }

    fn id(&mut self, id: u32) -> ControlFlow<()> {
        self.sink.prefill(self.prompt, self.prompt)?;
        self.sink.id(id)
    }

    fn choose(&mut self, logits: &[f32]) -> u32 {
        self.sink.choose(logits)
    }

    fn forced(&mut self) -> Vec<u32> {
        self.sink.forced()
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = error.source();
    }
    words
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("unknown")
}
