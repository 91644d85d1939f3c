//! Forms that were compiled lately.
//!
//! Agents ask for the same tools with every turn of a conversation. Promise: what one reply did leaves no trace for the
//! next, which begins with what was there before the first.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use llguidance::Matcher;

use super::Form;

/// Forms that are kept.
const KEPT_MAX: usize = 4;

/// Compiled forms, the one that was wanted last at the end.
#[derive(Default)]
pub(super) struct Known(Mutex<Vec<(Form, Matcher)>>);

impl Known {
    /// A form as it was when it was kept.
    pub(super) fn find(&self, form: &Form) -> Option<Matcher> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(known, _)| known == form)?;
        let found = kept.remove(at);
        let matcher = found.1.deep_clone();
        kept.push(found);
        Some(matcher)
    }

    /// Keeps a form for others.
    pub(super) fn keep(&self, form: &Form, matcher: &Matcher) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_MAX {
            kept.remove(0);
        }
        kept.push((form.clone(), matcher.deep_clone()));
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").finish_non_exhaustive()
    }
}
