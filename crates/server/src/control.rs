//! Generations that can be steered from outside while they run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What one generation may be told.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// The reply is still in its reasoning, or has not begun with it.
    pub(crate) is_thinking: AtomicBool,
    end_reasoning: AtomicBool,
    was_used: AtomicBool,
}

impl Control {
    pub(crate) fn new(is_thinking: bool) -> Control {
        Control { is_thinking: AtomicBool::new(is_thinking), ..Control::default() }
    }

    /// Whether the reply was steered away from what its request alone would give.
    pub(crate) fn was_used(&self) -> bool {
        self.was_used.load(Ordering::Relaxed)
    }

    /// Whether the reasoning is to end now. Said once.
    pub(crate) fn take_end_of_reasoning(&self) -> bool {
        self.end_reasoning.swap(false, Ordering::Relaxed)
    }
}

/// All generations that wait or run, by the ids their clients know.
#[derive(Debug, Default)]
pub(crate) struct Controls(Mutex<HashMap<String, Arc<Control>>>);

impl Controls {
    pub(crate) fn add(&self, id: &str, control: Arc<Control>) {
        self.lock().insert(id.to_owned(), control);
    }

    pub(crate) fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    /// Ends the reasoning of a generation: whether there was any, if there is such a generation.
    pub(crate) fn end_reasoning(&self, id: &str) -> Option<bool> {
        let controls = self.lock();
        let control = controls.get(id)?;
        let is_thinking = control.is_thinking.load(Ordering::Relaxed);
        control.was_used.fetch_or(is_thinking, Ordering::Relaxed);
        control.end_reasoning.fetch_or(is_thinking, Ordering::Relaxed);
        Some(is_thinking)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Control>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
