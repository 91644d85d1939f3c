//! Names of files: so many positions, and a digest of whose they are and of which tokens.
//!
//! A name tells whether a prompt begins with a snapshot's tokens without opening the file.

use crate::format::{Origin, Shape, VERSION};
use deltafin_checkpoint::Recipe;

const EXTENSION: &str = ".snapshot";
const DIGITS: usize = 32;

/// The positions in a file's name; nothing for a name that is none of ours.
pub(crate) fn positions(name: &str) -> Option<usize> {
    let (positions, digest) = name.strip_suffix(EXTENSION)?.split_once('-')?;
    let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    let canonical = !positions.starts_with('0') && positions.bytes().all(|c| c.is_ascii_digit());
    let ours = canonical && digest.len() == DIGITS && digest.bytes().all(is_digit);
    ours.then(|| positions.parse().ok())?
}

/// Names the snapshots of ever longer prefixes of a prompt.
pub(crate) struct Names<'a> {
    hasher: blake3::Hasher,
    ids: &'a [u32],
    done: usize,
}

impl<'a> Names<'a> {
    pub(crate) fn new(origin: Origin, shape: Shape, ids: &'a [u32]) -> Names<'a> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[VERSION, u8::from(origin.recipe == Recipe::Int8)]);
        hasher.update(&origin.identity.to_bytes());
        hasher.update(&(shape.recurrent as u64).to_le_bytes());
        hasher.update(&(shape.row as u64).to_le_bytes());
        Names { hasher, ids, done: 0 }
    }

    /// The name for the first `positions` ids, no fewer than were asked for before.
    pub(crate) fn of(&mut self, positions: usize) -> String {
        for ids in self.ids[self.done..positions].chunks(1 << 16) {
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            self.hasher.update(&bytes);
        }
        self.done = positions;
        let digest = self.hasher.finalize().to_hex();
        format!("{positions}-{}{EXTENSION}", &digest[..DIGITS])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltafin_checkpoint::Identity;

    #[test]
    fn a_name_is_that_of_its_origin_and_tokens_alone() {
        let origin = Origin { identity: Identity::from_bytes([3; 16]), recipe: Recipe::Bf16 };
        let shape = Shape { recurrent: 8, row: 4 };
        let name = |origin, shape, ids: &[u32]| Names::new(origin, shape, ids).of(ids.len());
        let own = name(origin, shape, &[1, 2, 3]);
        assert_eq!(positions(&own), Some(3));
        let mut names = Names::new(origin, shape, &[1, 2, 3, 4]);
        assert_ne!(names.of(2), own);
        assert_eq!(names.of(3), own);
        for other in [
            name(Origin { identity: Identity::from_bytes([4; 16]), ..origin }, shape, &[1, 2, 3]),
            name(Origin { recipe: Recipe::Int8, ..origin }, shape, &[1, 2, 3]),
            name(origin, Shape { row: 5, ..shape }, &[1, 2, 3]),
            name(origin, shape, &[1, 2, 4]),
        ] {
            assert_ne!(other, own);
        }
    }

    #[test]
    fn other_names_are_not_ours() {
        let digest = "0123456789abcdef".repeat(2);
        assert_eq!(positions(&format!("12-{digest}.snapshot")), Some(12));
        for name in [
            format!("012-{digest}.snapshot"),
            format!("-{digest}.snapshot"),
            format!("12-{digest}"),
            format!("12-{digest}.snapshot.7.part"),
            format!("12-{}.snapshot", digest.to_uppercase()),
            format!("12-{digest}0.snapshot"),
            format!("99999999999999999999999-{digest}.snapshot"),
            format!("+1-{digest}.snapshot"),
        ] {
            assert_eq!(positions(&name), None, "{name}");
        }
    }
}
