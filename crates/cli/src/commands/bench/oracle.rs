//! Speed is worth reporting only when the text is the same.

use super::measured::Measured;

/// A run and whose it was.
pub(super) struct Run {
    /// The arm's name.
    pub(super) arm: String,
    /// Which round, from 1.
    pub(super) round: usize,
    /// What it measured.
    pub(super) measured: Measured,
}

/// Where two runs of one recipe generated different ids, in words; nothing when none did.
pub(super) fn disagreement(runs: &[Run]) -> Option<String> {
    runs.iter().enumerate().find_map(|(position, run)| {
        let same_recipe = |other: &&Run| other.measured.recipe == run.measured.recipe;
        let first = runs[..position].iter().find(same_recipe)?;
        difference(first, run)
    })
}

fn difference(first: &Run, run: &Run) -> Option<String> {
    let states = [
        ("cold", &first.measured.cold.ids, &run.measured.cold.ids),
        ("warm", &first.measured.warm.ids, &run.measured.warm.ids),
    ];
    states.into_iter().find_map(|(state, wanted, got)| {
        let at = (0..wanted.len().max(got.len())).find(|&at| wanted.get(at) != got.get(at))?;
        let id = |ids: &[u32]| ids.get(at).map_or_else(|| "none".to_owned(), u32::to_string);
        Some(format!(
            "the ids differ, so no speed is reported: {state} id {} is {} in arm '{}', round {}, \
             and {} in arm '{}', round {}",
            at + 1,
            id(wanted),
            first.arm,
            first.round,
            id(got),
            run.arm,
            run.round,
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::super::measured::{Generation, Stretch};
    use super::*;

    fn run(arm: &str, recipe: &str, warm: &[u32]) -> Run {
        let stretch = Stretch { seconds: 1.0, read: None };
        let ids = |ids: &[u32]| Generation { prefill: stretch, decode: stretch, ids: ids.to_vec() };
        let measured = Measured {
            load: stretch,
            cold: ids(&[1, 2]),
            warm: ids(warm),
            cached: None,
            recipe: recipe.to_owned(),
            weights: "drive".to_owned(),
            peak_memory_bytes: None,
        };
        Run { arm: arm.to_owned(), round: 1, measured }
    }

    #[test]
    fn one_other_id_is_found_and_placed() {
        let same = [run("a", "bf16", &[3, 4]), run("b", "bf16", &[3, 4])];
        assert_eq!(disagreement(&same), None);
        let said = disagreement(&[run("a", "bf16", &[3, 4]), run("b", "bf16", &[3, 5])]).unwrap();
        assert!(said.contains("warm id 2 is 4 in arm 'a', round 1, and 5 in arm 'b'"), "{said}");
        let said = disagreement(&[run("a", "bf16", &[3, 4]), run("b", "bf16", &[3])]).unwrap();
        assert!(said.contains("and none in arm 'b'"), "{said}");
    }

    #[test]
    fn recipes_are_compared_among_themselves() {
        let runs = [
            run("a", "bf16", &[3, 4]),
            run("b", "int8", &[3, 5]),
            run("c", "int8", &[3, 5]),
            run("d", "int8", &[3, 4]),
        ];
        assert_eq!(disagreement(&runs[..3]), None);
        let said = disagreement(&runs).unwrap();
        assert!(said.contains("arm 'b'") && said.contains("arm 'd'"), "{said}");
    }
}
