//! One generation with everything around it: progress, interrupts, output, measurements.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use deltafin_engine::{
    EngineError, Finish, Limits, Listener, Outcome, Progress, Session, generate,
};
use deltafin_text::reply::Cut;

use crate::failure::{Failure, chain};
use crate::interrupt::{self, Interrupts};
use crate::reply::Show;
use crate::terminal::{self, ProgressLine, Terminal};

/// A generation that is over.
pub(crate) struct Generated {
    /// The new ids, without the stop token.
    pub(crate) ids: Vec<u32>,
    /// How it ended, and how long it took.
    pub(crate) outcome: Outcome,
}

impl Generated {
    /// The new ids and the stop token that ended them, as a reply is read.
    pub(crate) fn ids_to_stop(&self) -> impl Iterator<Item = u32> {
        let stop = match self.outcome.finish {
            Finish::Stop(id) => Some(id),
            Finish::Length | Finish::Cancelled => None,
        };
        self.ids.iter().copied().chain(stop)
    }

    /// What the end means to a reply.
    pub(crate) fn cut(&self) -> Cut {
        match self.outcome.finish {
            Finish::Stop(_) => Cut::StopToken,
            Finish::Length => Cut::Limit,
            Finish::Cancelled => Cut::Cancelled,
        }
    }

    /// The word for the end.
    pub(crate) fn finish_word(&self) -> &'static str {
        match self.outcome.finish {
            Finish::Stop(_) => "stop",
            Finish::Length => "length",
            Finish::Cancelled => "cancelled",
        }
    }
}

/// Takes in a prompt and generates, showing each id when it comes. What was said before an
/// interrupt is kept; that there was one is in the outcome.
pub(crate) fn run(
    session: &mut Session<'_>,
    prompt: &[u32],
    limits: Limits<'_>,
    show: &mut dyn Show,
    interrupts: &Interrupts,
    terminal: Terminal,
) -> Result<Generated, Failure> {
    let progress = ProgressLine::new(terminal);
    let interrupted = interrupts.begin();
    let mut live = Live { show, interrupted, progress, ids: Vec::new(), failure: None };
    let outcome =
        interrupt::answering(interrupted, || generate(session, prompt, limits, &mut live));
    let Live { mut progress, ids, failure, .. } = live;
    progress.clear();
    interrupts.end();
    if let Some(failure) = failure {
        return Err(failure);
    }
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            // What was said before the fault stays, on a line of its own.
            if !ids.is_empty() {
                show.finish(Cut::Cancelled)?;
            }
            return Err(with_files(session, &error));
        }
    };
    let generated = Generated { ids, outcome };
    if let Finish::Stop(id) = generated.outcome.finish {
        show.stop(id)?;
    }
    show.finish(generated.cut())?;
    say_if_full(&generated, limits.max_new);
    Ok(generated)
}

/// A fault, and the files to fetch again where weights are what is wrong.
fn with_files(session: &Session<'_>, error: &EngineError) -> Failure {
    let files = session.engine().weights().files_behind(error);
    let names = if files.is_empty() { String::new() } else { format!(": {}", files.join(", ")) };
    Failure::new(format!("{}{names}", chain(error)))
}

/// A reply that ends for want of room says so: nobody asked for that length.
fn say_if_full(generated: &Generated, max_new: Option<usize>) {
    let reached = generated.ids.len();
    if generated.outcome.finish == Finish::Length && max_new.is_none_or(|most| reached < most) {
        terminal::say("the context is full; --context makes it longer");
    }
}

/// A reply that its limit cut in the middle says so: what is missing may be all of the answer.
pub(crate) fn say_if_cut(generated: &Generated, max_new: Option<usize>) {
    if let (Finish::Length, Some(most)) = (generated.outcome.finish, max_new)
        && generated.ids.len() >= most
    {
        terminal::say(&format!("the reply was cut after {most} tokens (--max-new)"));
    }
}

/// Watches a generation from outside.
struct Live<'a> {
    show: &'a mut dyn Show,
    interrupted: &'a AtomicBool,
    progress: ProgressLine,
    ids: Vec<u32>,
    failure: Option<Failure>,
}

impl Live<'_> {
    fn go_on(&self) -> ControlFlow<()> {
        match self.failure.is_some() || self.interrupted.load(Ordering::SeqCst) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Listener for Live<'_> {
    fn prefill(&mut self, at: Progress) -> ControlFlow<()> {
        self.progress.update(|| {
            let Progress { rows_done, rows_running, rows_total, layer, layers } = at;
            let (first, last) = (rows_done + 1, rows_done + rows_running);
            let layer = layer + 1;
            format!("prompt: tokens {first}-{last} of {rows_total}, layer {layer} of {layers}")
        });
        self.go_on()
    }

    fn id(&mut self, id: u32) -> ControlFlow<()> {
        self.progress.clear();
        self.ids.push(id);
        self.failure = self.show.id(id).err();
        self.go_on()
    }
}
