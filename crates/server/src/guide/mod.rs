//! Replies that keep to a form: which ids may come next.
//!
//! Promises: reasoning is free text that ends with its own closing tag; from there on every id is one that
//! the grammar allows, so a reply that ends by itself keeps to its form, and the stop id is possible only
//! where the form is complete. What the model prefers among the allowed ids is untouched.
//!
//! ```text
//! Form ─grammar─► text of a grammar ─Vocabulary─► Guide: logits ─► logits, −∞ for what may not come
//! ```

mod arguments;
mod ends;
mod exclusive;
mod form;
mod grammar;
mod known;
mod numbers;
mod place;
mod references;
mod rehearsal;
mod schema;
mod schemas;
mod size;
mod spread;
#[cfg(test)]
mod tests;
mod vocabulary;
mod ways;

use std::fmt;
use std::sync::Arc;

use deltafin_text::Tokenizer;
use llguidance::Matcher;
use llguidance::toktrie::SimpleVob;

pub(crate) use form::{Calls, Form, Said, Tool};
pub(crate) use vocabulary::Vocabulary;

/// The form of one reply, as far as it was followed.
pub(crate) struct Guide {
    vocabulary: Arc<Vocabulary>,
    matcher: Matcher,
    /// What may come next, where that was looked at already.
    mask: Option<SimpleVob>,
    /// Kept for its memory.
    allowed: Vec<f32>,
}

/// A form that cannot be enforced: the member of the request that is in the way, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) reason: String,
}

/// Foreign schemas nest as deep as they like; compiling them recurses. Only what is touched of it is used.
const COMPILER_STACK_BYTES: usize = 64 << 20;

impl Guide {
    /// Compiles a form and follows it for a while. One that was compiled lately is there at once.
    ///
    /// # Errors
    /// When a schema of it says something that cannot be enforced, or it is too complex to follow.
    pub(crate) fn new(
        vocabulary: Arc<Vocabulary>,
        tokenizer: &Tokenizer,
        form: &Form,
    ) -> Result<Guide, Fault> {
        let matcher = match vocabulary.known.find(form) {
            Some(matcher) => matcher,
            None => {
                let matcher = compile(&vocabulary, tokenizer, form)?;
                vocabulary.known.keep(form, &matcher);
                matcher
            }
        };
        Ok(Guide { vocabulary, matcher, mask: None, allowed: Vec::new() })
    }

    /// The logits of what may come next in the reasoning: text, or the marker that begins its closing tag.
    ///
    /// # Errors
    /// When there is nothing that may.
    pub(crate) fn reasoning(&mut self, logits: &[f32]) -> Result<&[f32], String> {
        let text = (self.vocabulary.ordinary() as usize).min(logits.len());
        self.allowed.clear();
        self.allowed.extend_from_slice(&logits[..text]);
        self.allowed.resize(logits.len(), f32::NEG_INFINITY);
        copy(logits, &mut self.allowed, self.vocabulary.close() as usize);
        possible(&self.allowed)
    }

    /// Whether this id, chosen in the reasoning, begins its closing tag.
    pub(crate) fn leaves_reasoning(&self, id: u32) -> bool {
        id == self.vocabulary.close()
    }

    /// The logits of what may come next after the reasoning.
    ///
    /// # Errors
    /// When there is nothing that may, or the form has become too complex to follow.
    pub(crate) fn answer(&mut self, logits: &[f32]) -> Result<&[f32], String> {
        let mask = self.mask()?;
        self.allowed.clear();
        self.allowed.resize(logits.len(), f32::NEG_INFINITY);
        mask.iter_set_entries(|id| copy(logits, &mut self.allowed, id));
        self.mask = Some(mask);
        possible(&self.allowed)
    }

    /// The id that must come next, where there is but one and it does not end the reply.
    ///
    /// `llguidance` has a way to spell out all bytes that must come, but the model may write the same bytes in other
    /// ids, and those are its own choice.
    ///
    /// # Errors
    /// When the form has become too complex to follow.
    pub(crate) fn only(&mut self) -> Result<Option<u32>, String> {
        if self.matcher.is_stopped() {
            return Ok(None);
        }
        let mask = self.mask()?;
        let only = (mask.num_set() == 1).then(|| mask.first_bit_set()).flatten();
        self.mask = Some(mask);
        let is_open = !self.matcher.is_accepting().map_err(|error| vocabulary::words(&error))?;
        Ok(only.filter(|_| is_open).map(|id| id as u32))
    }

    fn mask(&mut self) -> Result<SimpleVob, String> {
        match self.mask.take() {
            Some(mask) => Ok(mask),
            None => self.matcher.compute_mask_or_eos().map_err(|error| vocabulary::words(&error)),
        }
    }

    /// This id was chosen after the reasoning.
    ///
    /// # Errors
    /// When the form has become too complex to follow.
    pub(crate) fn take(&mut self, id: u32) -> Result<(), String> {
        self.mask = None;
        if self.matcher.is_stopped() {
            return Ok(());
        }
        self.matcher.consume_token(id).map_err(|error| vocabulary::words(&error))
    }
}

fn compile(vocabulary: &Vocabulary, tokenizer: &Tokenizer, form: &Form) -> Result<Matcher, Fault> {
    let fault = |reason| Fault { path: form.path().to_owned(), reason };
    let compile = || {
        let text = grammar::write(tokenizer, &form.with_plain_references())?;
        let matcher = vocabulary.compile(text).map_err(fault)?;
        rehearsal::follow(&matcher, vocabulary.landmarks()).map_err(fault)?;
        Ok(matcher)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("grammar".to_owned())
            .stack_size(COMPILER_STACK_BYTES)
            .spawn_scoped(scope, compile)
            .map_err(|error| fault(format!("no thread to read it on: {error}")))?;
        thread.join().unwrap_or_else(|_| Err(fault("reading it failed".to_owned())))
    })
}

fn copy(from: &[f32], to: &mut [f32], at: usize) {
    if let (Some(from), Some(to)) = (from.get(at), to.get_mut(at)) {
        *to = *from;
    }
}

fn possible(allowed: &[f32]) -> Result<&[f32], String> {
    match allowed.iter().any(|logit| *logit > f32::NEG_INFINITY) {
        true => Ok(allowed),
        false => Err("none of the tokens that may come next is one of the model's".to_owned()),
    }
}

impl fmt::Debug for Guide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guide").finish_non_exhaustive()
    }
}
