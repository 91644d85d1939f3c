//! Which id comes next: the most likely one, one drawn by chance, or one that is dictated.
//!
//! Promises: without sampling, the engine's own choice. With it, the same logits, settings and seed
//! give the same id on every machine: all arithmetic is done in f64, in a fixed order, with
//! functions that come with the program, and chance is a function of seed and position alone.

mod sampling;
mod score;

use std::collections::VecDeque;

use deltafin_engine::most_likely;

pub(crate) use sampling::Sampling;
pub(crate) use score::Score;

/// Chooses the ids of one reply.
#[derive(Debug, Default)]
pub(crate) struct Chooser {
    sampler: Option<sampling::Sampler>,
    /// How many alternatives are told beside each id; nothing is told at all if `None`.
    alternatives: Option<usize>,
    dictated: VecDeque<u32>,
    position: u64,
    score: Option<Score>,
}

impl Chooser {
    pub(crate) fn new(sampling: Option<Sampling>, alternatives: Option<usize>) -> Chooser {
        let sampler = sampling.map(sampling::Sampler::new);
        Chooser { sampler, alternatives, ..Chooser::default() }
    }

    /// The next id after these logits, `[vocab]`, of which `allowed` has those that may be chosen and −∞ for
    /// the others.
    pub(crate) fn choose(&mut self, logits: &[f32], allowed: &[f32]) -> u32 {
        let id = match (self.dictated.pop_front(), &mut self.sampler) {
            (Some(id), _) => id,
            (None, Some(sampler)) => sampler.draw(allowed, self.position),
            (None, None) => most_likely(allowed).unwrap_or_default(),
        };
        self.position += 1;
        self.score = self.alternatives.map(|count| Score::of(id, logits, count));
        id
    }

    /// This id is the only one that may come, and is counted as chosen.
    pub(crate) fn force(&mut self) {
        self.position += 1;
    }

    /// The ids that come whatever the logits say; they count as chosen.
    pub(crate) fn take_dictated(&mut self) -> Vec<u32> {
        self.position += self.dictated.len() as u64;
        self.dictated.drain(..).collect()
    }

    /// Whether ids may come whose logits nobody has seen.
    pub(crate) fn is_blind(&self) -> bool {
        self.alternatives.is_none()
    }

    /// The next ids are these, whatever the logits say.
    pub(crate) fn dictate(&mut self, ids: &[u32]) {
        self.dictated.extend(ids);
    }

    /// Whether nothing is dictated.
    pub(crate) fn is_free(&self) -> bool {
        self.dictated.is_empty()
    }

    /// How likely the last id was, if that is wanted.
    pub(crate) fn take_score(&mut self) -> Option<Score> {
        self.score.take()
    }
}
