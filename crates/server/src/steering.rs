//! What decides about the ids of a reply: the model and chance, limits, and the form it must keep to.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::choice::{Chooser, Score};
use crate::control::Control;
use crate::guide::Guide;
use crate::reader::Reader;

/// Ids that are told without a pass between them: whoever leaves is noticed after each pass.
const FORCED_MAX: usize = 32;

/// Decides about the ids of one reply.
#[derive(Debug)]
pub(crate) struct Steering {
    chooser: Chooser,
    control: Arc<Control>,
    reasoning_limit: Option<usize>,
    guide: Option<Guide>,
    fault: Option<String>,
}

impl Steering {
    /// Reasoning is closed after so many of its tokens, if there is a limit.
    pub(crate) fn new(
        chooser: Chooser,
        control: Arc<Control>,
        reasoning_limit: Option<usize>,
        guide: Option<Guide>,
    ) -> Steering {
        Steering { chooser, control, reasoning_limit, guide, fault: None }
    }

    /// The next id of what was read so far, from the logits `[vocab]`.
    pub(crate) fn choose(&mut self, logits: &[f32], reader: &Reader) -> u32 {
        if self.chooser.is_free() && reader.is_thinking() && self.is_to_answer(reader) {
            self.chooser.dictate(&match self.guide {
                Some(_) => reader.end_of_reasoning(),
                None => reader.end_of_reasoning_and_answer(),
            });
        }
        self.choose_freely(logits, reader).unwrap_or_else(|fault| {
            self.fault = Some(fault);
            0
        })
    }

    fn is_to_answer(&self, reader: &Reader) -> bool {
        let reached = self.reasoning_limit.is_some_and(|most| reader.reasoning_tokens() >= most);
        self.control.take_end_of_reasoning() || reached
    }

    fn choose_freely(&mut self, logits: &[f32], reader: &Reader) -> Result<u32, String> {
        let Some(guide) = &mut self.guide else { return Ok(self.chooser.choose(logits, logits)) };
        if !reader.is_thinking() {
            let id = self.chooser.choose(logits, guide.answer(logits)?);
            return guide.take(id).map(|()| id);
        }
        if !self.chooser.is_free() {
            return Ok(self.chooser.choose(logits, logits));
        }
        let id = self.chooser.choose(logits, guide.reasoning(logits)?);
        if guide.leaves_reasoning(id) {
            self.chooser.dictate(&reader.end_of_reasoning()[1..]);
        }
        Ok(id)
    }

    /// Ids that come next whatever the logits will be. Where probabilities are told, none is known beforehand.
    pub(crate) fn forced(&mut self, reader: &Reader) -> Vec<u32> {
        if !self.chooser.is_blind() {
            return Vec::new();
        }
        let mut ids = self.chooser.take_dictated();
        if reader.is_thinking() {
            return ids;
        }
        while let Some(guide) = &mut self.guide
            && ids.len() < FORCED_MAX
        {
            match guide
                .only()
                .and_then(|only| only.map(|id| guide.take(id).map(|()| id)).transpose())
            {
                Ok(Some(id)) => {
                    self.chooser.force();
                    ids.push(id);
                }
                Ok(None) => break,
                Err(fault) => {
                    self.fault = Some(fault);
                    break;
                }
            }
        }
        ids
    }

    /// Tells those who may steer where the reply stands.
    pub(crate) fn note(&self, reader: &Reader) {
        self.control.is_thinking.store(reader.is_thinking(), Ordering::Relaxed);
    }

    /// Why no id could be chosen.
    pub(crate) fn fault(&mut self) -> Option<String> {
        self.fault.take()
    }

    /// How likely the last id was, if that is wanted.
    pub(crate) fn take_score(&mut self) -> Option<Score> {
        self.chooser.take_score()
    }
}
