//! Whether a source gives anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Event, Watch};

/// Knows whether the source gives anything, and passes on what is said.
pub(super) struct Noticing {
    pub(super) watch: Arc<dyn Watch>,
    pub(super) silence: Arc<Silence>,
}

/// Whether a source gives anything.
#[derive(Default)]
pub(super) struct Silence {
    /// It was said that it does not.
    is_told: AtomicBool,
    /// How often something came.
    came: AtomicU64,
}

impl Silence {
    pub(super) fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    pub(super) fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }
}

impl Watch for Noticing {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Waiting { .. } => self.silence.is_told.store(true, Ordering::Relaxed),
            Event::Received { .. } => {
                self.silence.is_told.store(false, Ordering::Relaxed);
                self.silence.came.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        self.watch.event(event);
    }
}
