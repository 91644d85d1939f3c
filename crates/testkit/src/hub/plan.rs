//! What goes wrong with an answer, and when.

use std::collections::HashMap;

/// A way in which a server, or what is between, answers wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misstep {
    /// The range is ignored: the whole file, with status 200.
    WholeFile,
    /// The right slice, but with status 200 and no word of its place.
    OddStatus,
    /// Another slice of the right length; the answer says where it is from.
    Shifted,
    /// The connection ends in the middle of the body.
    Cut,
    /// A shorter slice than was asked for, and the answer says so.
    Less,
    /// The right length, but one byte is another.
    Flipped,
    /// "Out of range", inside the file.
    OutOfRange,
    /// Too many requests; wait no time.
    TooMany,
    /// Unavailable; no word of how long.
    Unavailable,
    /// Internal error.
    Internal,
    /// The link is no longer good.
    Forbidden,
    /// Half of the body, then nothing; the connection stays open.
    Stall,
    /// No answer at all; the connection stays open.
    Silence,
    /// Another entity tag, as if the file had been replaced.
    OtherTag,
    /// The connection closes before an answer.
    Reset,
    /// A page in HTML with status 200, as captive portals send.
    Page,
    /// Bytes that are no HTTP.
    Garbage,
    /// An answer without a body.
    Empty,
}

impl Misstep {
    /// All of them.
    pub const ALL: [Misstep; 18] = [
        Misstep::WholeFile,
        Misstep::OddStatus,
        Misstep::Shifted,
        Misstep::Cut,
        Misstep::Less,
        Misstep::Flipped,
        Misstep::OutOfRange,
        Misstep::TooMany,
        Misstep::Unavailable,
        Misstep::Internal,
        Misstep::Forbidden,
        Misstep::Stall,
        Misstep::Silence,
        Misstep::OtherTag,
        Misstep::Reset,
        Misstep::Page,
        Misstep::Garbage,
        Misstep::Empty,
    ];
}

/// Which answers go wrong, and how. Decided by a seed and the order of requests.
#[derive(Clone, Debug)]
pub struct Missteps {
    seed: u64,
    kinds: Vec<Misstep>,
    /// One of so many answers.
    every: u64,
    /// No more than so many of a kind.
    most: u64,
    only: Option<String>,
    made: HashMap<Misstep, u64>,
}

impl Missteps {
    /// Every answer is as it should be.
    pub fn none() -> Missteps {
        Missteps { every: 1, ..Missteps::of(&[], 0) }
    }

    /// The first `most` answers of the CDN go wrong in each of these ways.
    pub fn of(kinds: &[Misstep], most: u64) -> Missteps {
        let kinds = kinds.to_vec();
        Missteps { seed: 0, kinds, every: 1, most, only: None, made: HashMap::new() }
    }

    /// A plan drawn from a seed: some kinds, rarely or often, a few times each.
    pub fn drawn(seed: u64) -> Missteps {
        let mut draw = Draw(seed);
        let share = draw.below(3) + 1;
        let kinds = Misstep::ALL.into_iter().filter(|_| draw.below(4) < share).collect();
        let (every, most) = (draw.below(12) + 1, draw.below(3) + 1);
        Missteps { seed: draw.number(), kinds, every, most, only: None, made: HashMap::new() }
    }

    /// The same, for one file alone.
    pub fn only_for(mut self, name: &str) -> Missteps {
        self.only = Some(name.to_owned());
        self
    }

    /// What is wrong with the next answer.
    pub(super) fn next(&mut self, name: &str) -> Option<Misstep> {
        if self.kinds.is_empty() || self.only.as_ref().is_some_and(|only| only != name) {
            return None;
        }
        let mut draw = Draw(self.seed);
        self.seed = draw.number();
        if draw.below(self.every) != 0 {
            return None;
        }
        let kind = self.kinds[draw.below(self.kinds.len() as u64) as usize];
        let made = self.made.entry(kind).or_default();
        *made += 1;
        (*made <= self.most).then_some(kind)
    }

    /// How often it went wrong, so that a test can know that it has tested something.
    pub(super) fn made(&self) -> u64 {
        self.made.values().map(|made| *made.min(&self.most)).sum()
    }
}

/// Numbers from a seed (splitmix64).
pub struct Draw(pub u64);

impl Draw {
    /// The next one.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }
}
