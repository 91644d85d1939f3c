//! Generations that wait, run or have just ended, by what was asked for.
//!
//! Promise: who asks for what is being generated already listens to it from its start, and costs the engine
//! nothing. Clients that lost a connection, or their patience, send the same request again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::app::App;
use crate::backend::Job;
use crate::control::Control;
use crate::generation::{Plan, Wish};
use crate::queue::{Full, Slot, Ticket};
use crate::relay::{Door, Listener, Teller, relay};
use crate::sink::Sink;
use crate::steering::Steering;

/// Generations that are kept after their end.
pub(crate) const KEPT_MAX: usize = 4;

/// All generations that somebody may join.
#[derive(Debug, Default)]
pub(crate) struct Runs(Mutex<Vec<Run>>);

#[derive(Debug)]
struct Run {
    wish: Wish,
    door: Door,
    control: Arc<Control>,
}

/// A generation that somebody listens to.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) listener: Listener,
    pub(crate) control: Arc<Control>,
    /// Another request began it.
    pub(crate) is_shared: bool,
}

impl Runs {
    /// Listens to a generation that was asked for alike, or queues a new one.
    pub(crate) fn join(&self, app: &Arc<App>, plan: Plan) -> Result<Joined, Full> {
        let mut runs = self.lock();
        runs.retain(|run| run.door.is_open(app.settings.replay));
        if let Some(joined) = runs.iter().rev().find_map(|run| run.join(&plan.wish)) {
            return Ok(joined);
        }
        let Ticket { place, turn } = app.queue.join()?;
        let (teller, listener) = relay(place);
        let control = Arc::new(Control::new(plan.reader.is_thinking()));
        let (wish, door) = (plan.wish.clone(), teller.door());
        make_room(&mut runs);
        runs.push(Run { wish, door, control: control.clone() });
        tokio::spawn(run(app.clone(), plan, control.clone(), teller, turn));
        Ok(Joined { listener, control, is_shared: false })
    }

    /// Whether what is wished for is being generated, or has just been.
    pub(crate) fn has(&self, wish: &Wish) -> bool {
        self.lock().iter().any(|run| run.wish == *wish)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    fn join(&self, wish: &Wish) -> Option<Joined> {
        if self.wish != *wish || self.control.was_used() {
            return None;
        }
        let listener = self.door.enter()?;
        Some(Joined { listener, control: self.control.clone(), is_shared: true })
    }
}

/// Drops the oldest of those that have ended.
fn make_room(runs: &mut Vec<Run>) {
    let ended = runs.iter().filter(|run| !run.door.is_running()).count();
    if ended > KEPT_MAX
        && let Some(oldest) = runs.iter().position(|run| !run.door.is_running())
    {
        runs.remove(oldest);
    }
}

/// Waits for its turn and gives the generation to the engine. Where nobody listens any more, its place in
/// the queue is given up and no turn comes.
async fn run(
    app: Arc<App>,
    plan: Plan,
    control: Arc<Control>,
    teller: Teller,
    turn: oneshot::Receiver<Slot>,
) {
    let Ok(slot) = turn.await else { return };
    teller.begin();
    let Some(model) = app.model.get().filter(|_| !teller.is_abandoned()) else { return };
    let Plan { wish, reader, chooser, guide } = plan;
    app.metrics.prompt_tokens.add(wish.prompt.len());
    let steering = Steering::new(chooser, control, wish.reasoning_limit, guide);
    let sink = Sink::new(reader, steering, slot, teller, app.metrics.clone());
    model.backend.submit(Job { prompt: wish.prompt, max_new: wish.max_new, sink });
}
