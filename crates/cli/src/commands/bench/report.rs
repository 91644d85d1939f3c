//! Medians and spreads of the runs of each arm.

use serde::Serialize;

use super::counters::BytesRead;
use super::measured::{Generation, Measured};
use super::oracle::Run;
use crate::args::{Arm, BenchArms, Phase};
use crate::stats;

/// Less than this is what a process reads anyway.
const NOTEWORTHY_BYTES: u64 = 1 << 20;

/// What `bench decode` and `bench prefill` say.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    measured: &'static str,
    model: String,
    prompt_tokens: usize,
    new_tokens: usize,
    rounds: usize,
    seed: u64,
    /// What could have made the numbers other than they seem.
    notes: Vec<String>,
    arms: Vec<ArmReport>,
}

#[derive(Debug, Serialize)]
struct ArmReport {
    name: String,
    flags: String,
    recipe: String,
    weights: String,
    /// The largest of all rounds.
    peak_memory_bytes: Option<u64>,
    load_seconds: Spread,
    cold: StateReport,
    warm: StateReport,
}

#[derive(Debug, Serialize)]
struct StateReport {
    seconds_per_token: Spread,
    /// In those of the first arm, round by round.
    of_first_arm: Spread,
    tokens_per_second: Spread,
    /// From drives, per token.
    storage_bytes_per_token: Option<Spread>,
    /// By plain read calls, per token, whoever answered.
    call_bytes_per_token: Option<Spread>,
}

/// The middle and the ends of some numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Of at least one number.
    pub(super) fn of(numbers: impl Iterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = numbers.collect();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Spread { median: (low + high) / 2.0, min: sorted[0], max: sorted[sorted.len() - 1] }
    }
}

impl Report {
    /// Sums up the runs, those of a round one after another.
    pub(super) fn new(asked: &BenchArms, model: &str, runs: &[Run]) -> Report {
        Report {
            measured: match asked.phase {
                Phase::Prefill => "prefill",
                Phase::Decode => "decode",
            },
            model: model.to_owned(),
            prompt_tokens: asked.prompt,
            new_tokens: asked.tokens,
            rounds: asked.rounds,
            seed: asked.seed,
            notes: notes(asked.phase, runs),
            arms: asked.arms.iter().map(|arm| sum_up(asked, arm, runs)).collect(),
        }
    }

    /// The report as people read it.
    pub(super) fn words(&self) -> String {
        let width = self.arms.iter().map(|arm| arm.name.chars().count()).max().unwrap_or(0).max(3);
        let mut text = format!(
            "{} of {}: prompt {}, new {}, rounds {}, the same ids in all of them\n\n\
             {:<width$}  state  tokens/s    s/token  (lowest to highest)    of first  from drives per token   peak memory\n",
            self.measured, self.model, self.prompt_tokens, self.new_tokens, self.rounds, "arm",
        );
        for arm in &self.arms {
            let peak = arm.peak_memory_bytes.map_or("unknown".to_owned(), stats::bytes);
            for (name, state, report) in
                [(arm.name.as_str(), "cold", &arm.cold), ("", "warm", &arm.warm)]
            {
                text += &format!("{name:<width$}  {state}   {}  {peak:>12}\n", report.words());
            }
        }
        self.notes.iter().for_each(|note| text += &format!("\nnote: {note}"));
        text
    }
}

impl StateReport {
    fn words(&self) -> String {
        let Spread { median, min, max } = self.seconds_per_token;
        let read = self.storage_bytes_per_token;
        let read = read.map_or("unknown".to_owned(), |read| stats::bytes(read.median as u64));
        format!(
            "{:>8.2}  {median:>9.4}  ({min:>8.4} to {max:>8.4})  {:>8.3}  {read:>21}",
            self.tokens_per_second.median, self.of_first_arm.median,
        )
    }
}

fn sum_up(asked: &BenchArms, arm: &Arm, runs: &[Run]) -> ArmReport {
    let of = |name: &str| -> Vec<&Measured> {
        runs.iter().filter(|run| run.arm == name).map(|run| &run.measured).collect()
    };
    let (own, first) = (of(&arm.name), of(&asked.arms[0].name));
    let word = |word: fn(&Measured) -> &String| own.first().map(|m| word(m).clone());
    ArmReport {
        name: arm.name.clone(),
        flags: arm.flags.join(" "),
        recipe: word(|measured| &measured.recipe).unwrap_or_default(),
        weights: word(|measured| &measured.weights).unwrap_or_default(),
        peak_memory_bytes: own.iter().filter_map(|measured| measured.peak_memory_bytes).max(),
        load_seconds: Spread::of(own.iter().map(|measured| measured.load.seconds)),
        cold: state(asked, &own, &first, |measured| &measured.cold),
        warm: state(asked, &own, &first, |measured| &measured.warm),
    }
}

fn state(
    asked: &BenchArms,
    own: &[&Measured],
    first: &[&Measured],
    generation: fn(&Measured) -> &Generation,
) -> StateReport {
    let tokens = match asked.phase {
        Phase::Prefill => asked.prompt,
        Phase::Decode => asked.tokens - 1,
    } as f64;
    let half = |measured: &&Measured| generation(measured).half(asked.phase);
    let read = |bytes: fn(BytesRead) -> Option<u64>| {
        let counted: Option<Vec<f64>> =
            own.iter().map(|run| Some(bytes(half(run).read?)? as f64 / tokens)).collect();
        counted.map(|counted| Spread::of(counted.into_iter()))
    };
    let pairs = own.iter().zip(first);
    StateReport {
        seconds_per_token: Spread::of(own.iter().map(|run| half(run).seconds / tokens)),
        of_first_arm: Spread::of(pairs.map(|(run, first)| half(run).seconds / half(first).seconds)),
        tokens_per_second: Spread::of(own.iter().map(|run| tokens / half(run).seconds)),
        storage_bytes_per_token: read(|read| Some(read.storage)),
        call_bytes_per_token: read(|read| read.calls),
    }
}

fn notes(phase: Phase, runs: &[Run]) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = runs.iter().find_map(|run| run.measured.cached.as_ref()) {
        notes.push(format!("the page cache was not emptied before each run: {why}"));
    }
    notes.extend(runs.iter().flat_map(|run| page_cache_note(phase, run)));
    let mut recipes = runs.iter().map(|run| &run.measured.recipe);
    let first = recipes.next();
    if recipes.any(|recipe| Some(recipe) != first) {
        let why = "arms of different recipes generate different ids: each was held against its own";
        notes.push(why.to_owned());
    }
    notes
}

/// Says when the page cache answered instead of the drive.
fn page_cache_note(phase: Phase, run: &Run) -> Vec<String> {
    let states = [("cold", &run.measured.cold), ("warm", &run.measured.warm)];
    let note = |(state, generation): (&str, &Generation)| {
        let cached = generation.half(phase).read?.by_page_cache();
        (cached > NOTEWORTHY_BYTES).then(|| {
            let Run { arm, round, .. } = run;
            let cached = stats::bytes(cached);
            format!("{state}, arm '{arm}', round {round}: the page cache answered {cached}")
        })
    };
    states.into_iter().filter_map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_two_is_between_them() {
        let spread = |numbers: &[f64]| Spread::of(numbers.iter().copied());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(spread(&[4.0, 1.0]).median, 2.5);
        assert_eq!(spread(&[7.0]), Spread { median: 7.0, min: 7.0, max: 7.0 });
    }
}
