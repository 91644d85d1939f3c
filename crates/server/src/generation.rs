//! A generation as its connection sees it: waiting, running, over.
//!
//! Dropping one leaves it, wherever it stands. With the last one that leaves, its place in the queue is free
//! at once, or the engine stops after the step it is in.

use std::sync::Arc;
use std::time::Instant;

use deltafin_text::reply::ReplyOptions;
use tokio::sync::watch;

use crate::app::{App, Phase};
use crate::choice::{Chooser, Sampling};
use crate::guide::{Form, Guide};
use crate::http::ApiError;
use crate::log::Entry;
use crate::reader::Reader;
use crate::relay::Listener;
use crate::runs::Joined;
use crate::sink::{Piece, Summary, Told};

/// What is to be generated.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) wish: Wish,
    pub(crate) reader: Reader,
    pub(crate) chooser: Chooser,
    /// Follows the form that was asked for.
    pub(crate) guide: Option<Guide>,
}

/// All that decides what is generated: the same twice gives the same.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wish {
    pub(crate) prompt: Vec<u32>,
    pub(crate) max_new: usize,
    /// How the reply is read; its channel is that of a chat, or none.
    pub(crate) reply: ReplyOptions,
    pub(crate) is_chat: bool,
    pub(crate) sampling: Option<Sampling>,
    pub(crate) logprobs: Option<usize>,
    /// Reasoning tokens after which the reasoning is closed.
    pub(crate) reasoning_limit: Option<usize>,
    pub(crate) form: Option<Form>,
}

/// Tokens of a generation, as the log calls them.
const COUNTED: [&str; 3] = ["prompt_tokens", "cached_tokens", "completion_tokens"];

/// What happened next.
#[derive(Debug)]
pub(crate) enum Step {
    Pieces(Arc<[Piece]>),
    Ended(Arc<Summary>),
    Failed(ApiError),
}

/// One generation.
#[derive(Debug)]
pub(crate) struct Generation {
    app: Arc<App>,
    request_id: String,
    reply_id: String,
    began: Instant,
    prompt_ids: usize,
    phase: watch::Receiver<Phase>,
    /// Nothing once it is over.
    listener: Option<Listener>,
    ended: Option<Arc<Summary>>,
    outcome: Option<&'static str>,
}

impl Generation {
    /// Joins the queue, or a generation that was asked for alike; or is turned away.
    pub(crate) fn join(
        app: &Arc<App>,
        plan: Plan,
        request_id: String,
        reply_id: String,
    ) -> Result<Generation, ApiError> {
        let prompt_ids = plan.wish.prompt.len();
        let joined = app.runs.join(app, plan).map_err(|full| ApiError::busy(full.retry_after_s))?;
        let Joined { listener, control, is_shared } = joined;
        if is_shared {
            let words = format!("{request_id} asks for what is generated already");
            app.log(&Entry::new("shared", words).with("request", request_id.as_str()));
        }
        app.controls.add(&reply_id, control);
        Ok(Generation {
            app: app.clone(),
            request_id,
            reply_id,
            began: Instant::now(),
            prompt_ids,
            phase: app.phase.subscribe(),
            listener: Some(listener),
            ended: None,
            outcome: None,
        })
    }

    /// Waits for the next thing to happen. May be given up and called again; nothing is lost.
    pub(crate) async fn next(&mut self) -> Step {
        let step = self.step().await;
        match &step {
            Step::Pieces(_) => {}
            Step::Ended(summary) => self.over("done", Some(summary)),
            Step::Failed(error) => self.over(error.code, None),
        }
        step
    }

    async fn step(&mut self) -> Step {
        let mut phase = self.phase.clone();
        let Some(listener) = &mut self.listener else {
            return Step::Failed(ApiError::engine("it is over"));
        };
        loop {
            // While it waits, it goes as soon as the server is asked to end; once it runs, it has the grace.
            let is_waiting = listener.waiting().is_some();
            let last = if is_waiting { Phase::Draining } else { Phase::Ending };
            let told = tokio::select! {
                biased;
                told = listener.next() => told,
                _ = phase.wait_for(|phase| *phase >= last) => {
                    if is_waiting && listener.waiting().is_none() {
                        continue;
                    }
                    return Step::Failed(ApiError::shutting_down());
                }
            };
            match (told, self.ended.take()) {
                (Some(Told::Pieces(pieces)), _) => return Step::Pieces(pieces),
                // It is over when the slot is free: whoever hears of the end finds it so.
                (Some(Told::Ended(summary)), _) => self.ended = Some(summary),
                (Some(Told::Failed(reason)), _) => return Step::Failed(ApiError::engine(&reason)),
                (None, Some(summary)) => return Step::Ended(summary),
                (None, None) => return Step::Failed(ApiError::engine("the engine has stopped")),
            }
        }
    }

    /// To the end, for those who want the whole.
    pub(crate) async fn whole(&mut self) -> Result<Arc<Summary>, ApiError> {
        loop {
            match self.next().await {
                Step::Pieces(_) => {}
                Step::Ended(summary) => return Ok(summary),
                Step::Failed(error) => return Err(error),
            }
        }
    }

    /// One line for whoever waits.
    pub(crate) fn status(&self) -> String {
        match self.listener.as_ref().map(Listener::waiting) {
            Some(Some(ahead)) => format!("queued {ahead}"),
            Some(None) => match self.app.metrics.prefill.get() {
                (done, total) if done < total => format!("keep-alive prefill {done}/{total}"),
                _ => "keep-alive".to_owned(),
            },
            None => "keep-alive".to_owned(),
        }
    }

    fn over(&mut self, outcome: &'static str, summary: Option<&Summary>) {
        self.listener = None;
        self.outcome = Some(outcome);
        let seconds = self.began.elapsed().as_secs_f64();
        let (request, prompt) = (&self.request_id, self.prompt_ids);
        let told = summary.map(|s| (s.cached, s.tokens)).map_or_else(String::new, |(old, new)| {
            format!(", {prompt} prompt tokens ({old} reused), {new} generated")
        });
        let words = format!("{request} {outcome}{told}, {seconds:.3} s");
        let mut entry = Entry::new("generation", words)
            .with("request", request.as_str())
            .with("reply", self.reply_id.as_str())
            .with("outcome", outcome)
            .with("seconds", seconds);
        if let Some(summary) = summary {
            let counts = [prompt, summary.cached, summary.tokens];
            for (name, count) in COUNTED.into_iter().zip(counts) {
                entry = entry.with(name, count);
            }
        }
        self.app.log(&entry);
    }

    /// The client went; the generation goes with the last one.
    fn leave(&mut self) {
        if let Some(listener) = self.listener.as_ref().filter(|listener| listener.is_alone()) {
            // Counted by where it stood.
            let reason = match listener.waiting() {
                Some(_) => "client_left_queue",
                None => "client_left",
            };
            self.app.metrics.cancelled(reason);
        }
        self.over("499 client_closed_request", None);
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.app.controls.remove(&self.reply_id);
        match self.outcome {
            None => self.leave(),
            Some("shutting_down") => self.app.metrics.cancelled("shutdown"),
            Some(_) => {}
        }
        self.app.metrics.request_seconds.record(self.began.elapsed());
    }
}
