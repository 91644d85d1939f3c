//! One generation with everything around it: progress, interrupts, output, measurements.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use deltafin_engine::{
    EngineError, Finish, Limits, Listener, Outcome, Progress, Session, Stats, generate,
};
use deltafin_store::StoreError;
use deltafin_text::reply::Cut;

use crate::failure::{Failure, chain};
use crate::interrupt::{self, Interrupts};
use crate::reply::Show;
use crate::status::Status;
use crate::terminal::{self, Terminal};

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
    let status = Status::new(terminal, session.engine().weights().stream());
    let interrupted = interrupts.begin();
    let endless = limits.stop.is_empty() && !limits.ignore_stop;
    let mut live =
        Live { show, interrupted, status: &status, endless, ids: Vec::new(), failure: None };
    let work = || status.beside(|| generate(session, prompt, limits, &mut live));
    let outcome = interrupt::answering_with(interrupted, work, || status.hear_interrupt());
    let Live { ids, failure, .. } = live;
    let was_interrupted = interrupts.end();
    if let Some(failure) = failure {
        return Err(failure);
    }
    let outcome = match outcome {
        Ok(outcome) => outcome,
        // Nobody waits for a lost network after an interrupt: that is no fault.
        Err(error) if was_interrupted && is_of_what_is_elsewhere(&error) => {
            let stats = Stats { new_ids: ids.len(), ..Stats::default() };
            Outcome { finish: Finish::Cancelled, stats }
        }
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

/// Without an id that ends it a text goes on to its limit, however senseless.
fn say_that_nothing_ends_it() {
    terminal::say(
        "stop: no id is known to end the text (no eos_token_id in the model's configuration, no \
         tokenizer files to name one); it goes on to --max-new or the end of the context",
    );
}

/// Whether bytes could not be had that are not on this machine.
fn is_of_what_is_elsewhere(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(StoreError::Distant { .. }) = error.downcast_ref() {
            return true;
        }
        cause = error.source();
    }
    false
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
    status: &'a Status<'a>,
    /// No id is known to end the text, and nobody was told yet.
    endless: bool,
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
        self.status.prompt(at);
        self.go_on()
    }

    fn advance(&mut self, layer: usize, layers: usize) {
        self.status.token(self.ids.len() + 1, layer, layers);
    }

    fn id(&mut self, id: u32) -> ControlFlow<()> {
        self.status.clear();
        // With the first id: up to here the prompt could still be refused, in one line.
        if std::mem::take(&mut self.endless) {
            say_that_nothing_ends_it();
        }
        self.ids.push(id);
        self.failure = self.show.id(id).err();
        self.status.next(self.show.column());
        self.go_on()
    }
}
