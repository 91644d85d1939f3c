//! The events of one generation, kept from its beginning, for all who listen to it.
//!
//! Promises: whoever comes late hears everything from the start; the engine waits only while all
//! listeners are far behind; when the last of them has left, it is told at its next step.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::queue::Place;
use crate::sink::Told;

/// Events by which the foremost listener may lag behind the engine.
const LAG_MAX: usize = 256;
/// Longer generations are not kept for those who come after their end.
const KEPT_EVENTS_MAX: usize = 20_000;
/// Nor are those that tell the probabilities of more tokens, most of which take a kilobyte and more.
const KEPT_LIKELY_MAX: usize = 512;

#[derive(Debug, Default)]
struct Relay {
    state: Mutex<State>,
    /// Something was told, or it is over.
    told: Notify,
    /// Somebody has listened on, or left.
    heard: Condvar,
}

#[derive(Debug, Default)]
struct State {
    events: Vec<Told>,
    /// Tokens among them whose probabilities were told.
    likely: usize,
    /// When the engine had told everything.
    over: Option<Instant>,
    /// All had left before that, so that it was broken off.
    is_abandoned: bool,
    /// Where it waits for the engine.
    place: Option<Place>,
    /// Raised when nobody is left to listen, for an engine that waits for something else.
    unwanted: Option<Arc<AtomicBool>>,
    /// What each listener has heard, by its number.
    heard: BTreeMap<u64, usize>,
    next: u64,
}

/// A generation that waits for its turn, with its first listener.
pub(crate) fn relay(place: Place) -> (Teller, Listener) {
    let mut state = State { place: Some(place), ..State::default() };
    let number = state.seat();
    let relay = Arc::new(Relay { state: Mutex::new(state), ..Relay::default() });
    (Teller(relay.clone()), Listener { relay, number })
}

impl Relay {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn seat(&mut self) -> u64 {
        self.next += 1;
        self.heard.insert(self.next, 0);
        self.next
    }

    fn lag(&self) -> usize {
        let foremost = self.heard.values().max().copied();
        foremost.map_or(0, |heard| self.events.len() - heard)
    }

    fn is_running(&self) -> bool {
        self.over.is_none() && !self.heard.is_empty()
    }

    /// Whether it came to its end, and to one that is worth telling again.
    fn is_kept(&self) -> bool {
        let has_ended = matches!(self.events.last(), Some(Told::Ended(_))) && self.over.is_some();
        let is_small = self.events.len() <= KEPT_EVENTS_MAX && self.likely <= KEPT_LIKELY_MAX;
        has_ended && !self.is_abandoned && is_small
    }

    /// Lets go of what nobody will hear any more.
    fn forget(&mut self) {
        if self.over.is_some() && self.heard.is_empty() && !self.is_kept() {
            self.events = Vec::new();
        }
    }
}

/// The engine's side.
#[derive(Debug)]
pub(crate) struct Teller(Arc<Relay>);

impl Teller {
    /// It is the generation's turn.
    pub(crate) fn begin(&self) {
        self.0.lock().place = None;
    }

    /// Tells all who listen; waits while none of them keeps up.
    pub(crate) fn tell(&self, event: Told) {
        let mut state = self.0.lock();
        if let Told::Pieces(pieces) = &event {
            state.likely += pieces.iter().map(|piece| piece.tokens.len()).sum::<usize>();
        }
        state.events.push(event);
        self.0.told.notify_waiters();
        while state.lag() > LAG_MAX {
            state = self.0.heard.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Has this raised when nobody listens any more.
    pub(crate) fn raise_when_left(&self, unwanted: &Arc<AtomicBool>) {
        let mut state = self.0.lock();
        unwanted.store(state.heard.is_empty(), Ordering::SeqCst);
        state.unwanted = Some(unwanted.clone());
    }

    /// Whether nobody listens.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.0.lock().heard.is_empty()
    }

    /// A way in for those who come later.
    pub(crate) fn door(&self) -> Door {
        Door(self.0.clone())
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.over = Some(Instant::now());
        state.forget();
        drop(state);
        self.0.told.notify_waiters();
    }
}

/// A way in for those who come late.
#[derive(Debug)]
pub(crate) struct Door(Arc<Relay>);

impl Door {
    /// A listener to the whole of it; nothing where it failed, or nobody was left to listen.
    pub(crate) fn enter(&self) -> Option<Listener> {
        let mut state = self.0.lock();
        let is_open = state.is_running() || state.is_kept();
        is_open.then(|| Listener { relay: self.0.clone(), number: state.seat() })
    }

    /// Whether it goes on, or has ended so recently that it may be told again.
    pub(crate) fn is_open(&self, replay: Duration) -> bool {
        let state = self.0.lock();
        let is_fresh = state.over.is_some_and(|over| over.elapsed() < replay);
        state.is_running() || (is_fresh && state.is_kept())
    }

    /// Whether the generation goes on.
    pub(crate) fn is_running(&self) -> bool {
        self.0.lock().is_running()
    }
}

/// One who listens. Dropping it leaves.
#[derive(Debug)]
pub(crate) struct Listener {
    relay: Arc<Relay>,
    number: u64,
}

impl Listener {
    /// The next event; nothing when it is over. May be given up and called again; nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<Told> {
        loop {
            let told = self.relay.told.notified();
            if let Some(event) = self.take()? {
                return Some(event);
            }
            told.await;
        }
    }

    /// An event, if there is one; nothing at all when it is over.
    fn take(&self) -> Option<Option<Told>> {
        let mut state = self.relay.lock();
        let heard = state.heard.get(&self.number).copied()?;
        match state.events.get(heard).cloned() {
            Some(event) => {
                state.heard.insert(self.number, heard + 1);
                drop(state);
                self.relay.heard.notify_one();
                Some(Some(event))
            }
            None if state.over.is_some() => None,
            None => Some(None),
        }
    }

    /// How many generations come before this one, the running one included; nothing once it is its turn.
    pub(crate) fn waiting(&self) -> Option<usize> {
        let ahead = self.relay.lock().place.as_ref().map(Place::ahead);
        ahead.filter(|ahead| *ahead > 0)
    }

    /// Whether others listen too.
    pub(crate) fn is_alone(&self) -> bool {
        self.relay.lock().heard.len() == 1
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let place = {
            let mut state = self.relay.lock();
            state.heard.remove(&self.number);
            let is_last = state.heard.is_empty();
            state.forget();
            let abandons = is_last && state.over.is_none();
            state.is_abandoned |= abandons;
            if let (true, Some(unwanted)) = (abandons, &state.unwanted) {
                unwanted.store(true, Ordering::SeqCst);
            }
            if is_last { state.place.take() } else { None }
        };
        // Gives up the place in the queue, which has a lock of its own.
        drop(place);
        self.relay.heard.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use deltafin_text::Delta;
    use deltafin_text::reply::{Answer, Finish};

    use super::*;
    use crate::queue::Queue;
    use crate::sink::{Likely, Piece, Summary};

    /// Its slot is there, whether anybody has fetched it yet or not.
    #[test]
    fn who_has_its_turn_does_not_wait() {
        let queue = Queue::new(1);
        let [first, second] = [queue.join().unwrap(), queue.join().unwrap()];
        let (_teller, running) = relay(first.place);
        let (teller, waiting) = relay(second.place);
        assert_eq!((running.waiting(), waiting.waiting()), (None, Some(1)));
        drop(first.turn);
        assert_eq!(waiting.waiting(), None);
        // With the last who listens the place is given up, and nobody else comes in.
        let unwanted = Arc::new(AtomicBool::new(true));
        teller.raise_when_left(&unwanted);
        assert!(!unwanted.load(Ordering::SeqCst));
        drop(waiting);
        assert!(unwanted.load(Ordering::SeqCst));
        assert!(teller.is_abandoned() && teller.door().enter().is_none());
    }

    fn told(tokens: usize) -> [Told; 2] {
        let likely = Likely { bytes: vec![b'x'], offset: 0, logprob: 0.0, top: Vec::new() };
        let likely = Arc::new(likely);
        let delta = Delta::Content("x".to_owned());
        let summary = Summary {
            answer: Answer {
                reasoning_content: String::new(),
                content: "x".to_owned(),
                tool_calls: Vec::new(),
                finish: Finish::Stop,
            },
            stop_sequence: None,
            tokens,
            reasoning_tokens: 0,
            cached: 0,
            likely: Default::default(),
        };
        let piece = Piece { delta, tokens: vec![likely; tokens] };
        [Told::Pieces(Arc::new([piece])), Told::Ended(Arc::new(summary))]
    }

    /// They take memory that nothing else is charged for.
    #[test]
    fn probabilities_of_many_tokens_go_with_the_last_listener() {
        let queue = Queue::new(1);
        for (tokens, is_kept) in [(KEPT_LIKELY_MAX, true), (KEPT_LIKELY_MAX + 1, false)] {
            let (teller, listener) = relay(queue.join().unwrap().place);
            let door = teller.door();
            for event in told(tokens) {
                teller.tell(event);
            }
            drop(teller);
            assert_eq!(door.0.lock().events.len(), 2, "who listens hears it whole");
            drop(listener);
            assert_eq!(door.0.lock().events.is_empty(), !is_kept);
            assert_eq!(door.enter().is_some(), is_kept);
        }
    }
}
