//! A generation as its connection sees it: waiting, running, over.
//!
//! Dropping one gives it up, wherever it stands: its place in the queue is free at once, the
//! engine stops after the step it is in.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::sync::{mpsc, watch};

use crate::app::{App, Phase};
use crate::backend::Job;
use crate::choice::Chooser;
use crate::control::Control;
use crate::guide::Guide;
use crate::http::ApiError;
use crate::queue::{Slot, Ticket};
use crate::reader::Reader;
use crate::sink::{Piece, Sink, Summary, Told};
use crate::steering::Steering;

/// What is to be generated.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) prompt: Vec<u32>,
    pub(crate) max_new: usize,
    pub(crate) reader: Reader,
    pub(crate) chooser: Chooser,
    /// Reasoning tokens after which the reasoning is closed.
    pub(crate) reasoning_limit: Option<usize>,
    /// The form that the reply must keep to.
    pub(crate) guide: Option<Guide>,
}

/// What happened next.
#[derive(Debug)]
pub(crate) enum Step {
    Pieces(Vec<Piece>),
    Ended(Box<Summary>),
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
    stage: Stage,
    outcome: Option<&'static str>,
}

#[derive(Debug)]
enum Stage {
    Waiting(Ticket, Option<Box<(Plan, Arc<Control>)>>),
    Running(mpsc::Receiver<Told>, Option<Box<Summary>>),
    Over,
}

impl Generation {
    /// Joins the queue, or is turned away.
    pub(crate) fn join(
        app: &Arc<App>,
        plan: Plan,
        request_id: String,
        reply_id: String,
    ) -> Result<Generation, ApiError> {
        let ticket = app.queue.join().map_err(|full| ApiError::busy(full.retry_after_s))?;
        let control = Arc::new(Control::default());
        control.is_thinking.store(plan.reader.is_thinking(), Ordering::Relaxed);
        app.controls.add(&reply_id, control.clone());
        Ok(Generation {
            app: app.clone(),
            request_id,
            reply_id,
            began: Instant::now(),
            prompt_ids: plan.prompt.len(),
            phase: app.phase.subscribe(),
            stage: Stage::Waiting(ticket, Some(Box::new((plan, control)))),
            outcome: None,
        })
    }

    /// Waits for the next thing to happen. May be given up and called again; nothing is lost.
    pub(crate) async fn next(&mut self) -> Step {
        let mut phase = self.phase.clone();
        // While it waits, it goes as soon as the server is asked to end; once it runs, it has the grace.
        let step = tokio::select! {
            biased;
            () = self.stage.turn(&self.app) => None,
            _ = phase.wait_for(|phase| *phase >= Phase::Draining) => {
                Some(Step::Failed(ApiError::shutting_down()))
            }
        };
        let step = match step {
            Some(step) => step,
            None => tokio::select! {
                biased;
                step = self.stage.next() => step,
                _ = phase.wait_for(|phase| *phase >= Phase::Ending) => {
                    Step::Failed(ApiError::shutting_down())
                }
            },
        };
        match &step {
            Step::Pieces(_) => {}
            Step::Ended(summary) => self.over("done", Some(summary)),
            Step::Failed(error) => self.over(error.code, None),
        }
        step
    }

    /// To the end, for those who want the whole.
    pub(crate) async fn whole(&mut self) -> Result<Box<Summary>, ApiError> {
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
        match &self.stage {
            Stage::Waiting(ticket, _) => format!("queued {}", ticket.ahead()),
            Stage::Running(..) => match self.app.metrics.prefill.get() {
                (done, total) if done < total => format!("keep-alive prefill {done}/{total}"),
                _ => "keep-alive".to_owned(),
            },
            Stage::Over => "keep-alive".to_owned(),
        }
    }

    fn over(&mut self, outcome: &'static str, summary: Option<&Summary>) {
        self.stage = Stage::Over;
        self.outcome = Some(outcome);
        let seconds = self.began.elapsed().as_secs_f64();
        let (request, prompt) = (&self.request_id, self.prompt_ids);
        let told = summary.map(|s| (s.cached, s.tokens)).map_or_else(String::new, |(old, new)| {
            format!(", {prompt} prompt tokens ({old} reused), {new} generated")
        });
        self.app.log(&format!("{request} {outcome}{told}, {seconds:.3} s"));
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.app.controls.remove(&self.reply_id);
        if self.outcome.is_none() {
            // Counted by where it stood when its client went.
            let reason = match self.stage {
                Stage::Waiting(..) => "client_left_queue",
                Stage::Running(..) | Stage::Over => "client_left",
            };
            self.app.metrics.cancelled(reason);
            self.over("499 client_closed_request", None);
        } else if self.outcome == Some("shutting_down") {
            self.app.metrics.cancelled("shutdown");
        }
        self.app.metrics.request_seconds.record(self.began.elapsed());
    }
}

impl Stage {
    /// Ends when it runs, or can no longer.
    async fn turn(&mut self, app: &App) {
        if let Stage::Waiting(ticket, plan) = self {
            *self = match (ticket.turn().await, plan.take()) {
                (Some(slot), Some(plan)) => Stage::begin(app, slot, plan.0, plan.1),
                _ => Stage::Over,
            };
        }
    }

    async fn next(&mut self) -> Step {
        let Stage::Running(told, ended) = self else {
            return Step::Failed(ApiError::engine("it is over"));
        };
        loop {
            match told.recv().await {
                Some(Told::Pieces(pieces)) => return Step::Pieces(pieces),
                // The channel closes when the slot is free: whoever hears of the end finds it so.
                Some(Told::Ended(summary)) => *ended = Some(Box::new(summary)),
                Some(Told::Failed(reason)) => return Step::Failed(ApiError::engine(&reason)),
                None => {
                    return match ended.take() {
                        Some(summary) => Step::Ended(summary),
                        None => Step::Failed(ApiError::engine("the engine has stopped")),
                    };
                }
            }
        }
    }

    fn begin(app: &App, slot: Slot, plan: Plan, control: Arc<Control>) -> Stage {
        let Plan { prompt, max_new, reader, chooser, reasoning_limit, guide } = plan;
        let steering = Steering::new(chooser, control, reasoning_limit, guide);
        app.metrics.prompt_tokens.add(prompt.len());
        let (sink, told) = Sink::new(reader, steering, slot, app.metrics.clone());
        if let Some(model) = app.model.get() {
            model.backend.submit(Job { prompt, max_new, sink });
        }
        Stage::Running(told, None)
    }
}
