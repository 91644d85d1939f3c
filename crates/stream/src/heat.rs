//! How often each expert was chosen lately, counted whether or not it was in memory.

use deltafin_checkpoint::{Identity, IdentityHasher};

/// Passes after which a choice counts half. Long enough that what is chosen often outlasts what was
/// chosen last: in a cache smaller than the experts of one token, recency alone would keep nothing.
const HALF_LIFE: f32 = 64.0;

/// Decayed counts by expert. Instead of letting all counts decay, a new choice counts ever more.
pub(crate) struct Heat {
    counts: Vec<f32>,
    /// What a choice counts now.
    unit: f32,
}

impl Heat {
    pub(crate) fn new(experts: usize) -> Heat {
        Heat { counts: vec![0.0; experts], unit: 1.0 }
    }

    /// One more pass.
    pub(crate) fn tick(&mut self) {
        self.unit *= (1.0 / HALF_LIFE).exp2();
        if self.unit > 1e20 {
            self.counts.iter_mut().for_each(|count| *count /= self.unit);
            self.unit = 1.0;
        }
    }

    pub(crate) fn chosen(&mut self, expert: usize) {
        self.counts[expert] += self.unit;
    }

    /// Comparable with that of other experts at the same time.
    pub(crate) fn of(&self, expert: usize) -> f32 {
        self.counts[expert]
    }
}

impl Heat {
    /// Those of all experts, comparable with each other.
    pub(crate) fn counts(&self) -> &[f32] {
        &self.counts
    }

    /// Up to `most` experts that were ever chosen, hottest first, of equals the lower number.
    pub(crate) fn hottest(&self, most: usize) -> Vec<usize> {
        let mut experts: Vec<usize> =
            (0..self.counts.len()).filter(|&expert| self.counts[expert] > 0.0).collect();
        experts.sort_by(|&a, &b| self.counts[b].total_cmp(&self.counts[a]).then(a.cmp(&b)));
        experts.truncate(most);
        experts
    }
}

/// Begins a heat file, with the format's version.
const MAGIC: &[u8; 8] = b"DFHEAT\x00\x01";

impl Heat {
    /// As a file: magic, the checkpoint's identity, one f32 per expert, a digest of all that.
    pub(crate) fn to_file(&self, identity: Identity) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(identity.to_bytes());
        self.counts.iter().for_each(|count| bytes.extend((count / self.unit).to_le_bytes()));
        let digest = digest(&bytes);
        bytes.extend(digest.to_bytes());
        bytes
    }

    /// Takes over the counts of a file. False, and nothing is changed, if it is of another
    /// checkpoint, of another version, or damaged.
    pub(crate) fn adopt(&mut self, identity: Identity, file: &[u8]) -> bool {
        let Some((body, end)) = file.split_last_chunk::<16>() else { return false };
        let head = MAGIC.len() + 16;
        let whole = body.len() == head + self.counts.len() * 4
            && body.starts_with(MAGIC)
            && body[MAGIC.len()..head] == identity.to_bytes()
            && digest(body).to_bytes() == *end;
        if !whole {
            return false;
        }
        let counts = body[head..].as_chunks::<4>().0.iter().map(|count| f32::from_le_bytes(*count));
        // A count that is no count would make the order of eviction meaningless.
        let counts = counts.map(|count| if count.is_finite() { count.max(0.0) } else { 0.0 });
        self.counts.iter_mut().zip(counts).for_each(|(to, from)| *to = from);
        self.unit = 1.0;
        true
    }
}

/// How often each of so many experts was chosen lately, from a file that [`crate::Stream::heat_file`] gave. Nothing
/// if it is of other weights or damaged.
pub fn heat_counts(identity: Identity, file: &[u8], experts: usize) -> Option<Vec<f32>> {
    let mut heat = Heat::new(experts);
    heat.adopt(identity, file).then_some(heat.counts)
}

fn digest(bytes: &[u8]) -> Identity {
    let mut hasher = IdentityHasher::new("deltafin heat");
    hasher.field(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_often_outlasts_what_was_chosen_last() {
        let mut heat = Heat::new(3);
        for _ in 0..10 {
            heat.tick();
            heat.chosen(0);
        }
        heat.tick();
        heat.chosen(1);
        assert!(heat.of(0) > heat.of(1) && heat.of(1) > heat.of(2));
    }

    #[test]
    fn old_choices_fade() {
        let mut heat = Heat::new(2);
        (0..4).for_each(|_| heat.chosen(0));
        (0..3 * HALF_LIFE as usize).for_each(|_| heat.tick());
        heat.chosen(1);
        assert!(heat.of(1) > heat.of(0));
    }

    #[test]
    fn counts_stay_finite_for_ever() {
        let mut heat = Heat::new(2);
        for i in 0..100_000 {
            heat.tick();
            heat.chosen(i % 2);
        }
        assert!(heat.of(0).is_finite() && heat.of(0) > 0.0);
    }

    #[test]
    fn a_file_carries_the_order_over_and_a_damaged_one_carries_nothing() {
        let mut heat = Heat::new(3);
        heat.chosen(2);
        heat.tick();
        heat.chosen(1);
        heat.chosen(1);
        let identity = Identity::from_bytes([7; 16]);
        let file = heat.to_file(identity);
        let mut other = Heat::new(3);
        assert!(other.adopt(identity, &file));
        assert!(other.of(1) > other.of(2) && other.of(2) > other.of(0));
        let counts = heat_counts(identity, &file, 3).unwrap();
        assert!(
            counts[0] == 0.0 && counts[1] == 2.0 && (0.9..1.0).contains(&counts[2]),
            "{counts:?}"
        );
        for damaged in 0..file.len() {
            let mut bytes = file.clone();
            bytes[damaged] ^= 0x10;
            assert!(!Heat::new(3).adopt(identity, &bytes), "byte {damaged}");
            assert!(!Heat::new(3).adopt(identity, &file[..damaged]), "cut to {damaged}");
        }
        assert!(!Heat::new(3).adopt(Identity::from_bytes([8; 16]), &file), "another checkpoint");
        assert!(!Heat::new(4).adopt(identity, &file), "another model");
    }
}
