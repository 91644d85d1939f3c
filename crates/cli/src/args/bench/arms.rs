//! `bench decode` and `bench prefill`: engines side by side, each with its flags.

use std::ffi::OsString;
use std::str::FromStr;

use clap::{Args, FromArgMatches as _};

use super::super::engine::{EngineArgs, ModelArg};
use super::super::size::Positive;
use super::super::{Cli, Usage, table};
use crate::built_in;

/// The hidden command that measures one run, in a process of its own.
pub(crate) const ONCE: [&str; 2] = ["bench", "once"];

/// Tokens per second of generation, arm against arm
///
/// Every run is a process of its own, which knows nothing of what earlier ones learned about experts.
/// Cold is what follows its start, with the checkpoint's files out of the page cache; warm is another
/// prompt on the same engine. Arms take turns, round by round.
/// Runs of one recipe must generate the same ids, else nothing is reported and the exit code is 1.
#[derive(Args, Debug)]
pub(super) struct DecodeArgs {
    /// Prompt ids that come first, drawn from the seed
    #[arg(long, value_name = "N", default_value = "16")]
    prompt: Positive,

    /// Ids to generate; the first one comes with the prompt
    #[arg(long, value_name = "N", default_value = "17")]
    tokens: Positive,

    #[command(flatten)]
    common: CommonArgs,
}

/// Prompt rows per second, arm against arm
///
/// As 'bench decode', of which it measures the other half: the prompt, up to its first new id.
#[derive(Args, Debug)]
pub(super) struct PrefillArgs {
    /// Prompt ids, drawn from the seed
    #[arg(long, value_name = "N", default_value = "512")]
    prompt: Positive,

    #[command(flatten)]
    common: CommonArgs,
}

/// What both have.
#[derive(Args, Debug)]
struct CommonArgs {
    /// Checkpoint directory, or 'demo' for the model inside this program
    #[arg(
        long,
        value_name = built_in::VALUE_NAME,
        env = "DELTAFIN_MODEL",
        hide_env_values = true
    )]
    model: Option<ModelArg>,

    /// A name and the engine's flags of an arm, such as 'few: --threads 1'; repeat it to compare
    #[arg(long = "arm", value_name = "NAME: FLAGS")]
    arms: Vec<Arm>,

    /// Engine flags that every arm has
    #[arg(long, value_name = "FLAGS", default_value = "", allow_hyphen_values = true)]
    every: String,

    /// Runs of each arm
    #[arg(long, value_name = "N", default_value = "3")]
    rounds: Positive,

    /// What the prompts are drawn from
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One run, for the process that compares them
#[derive(Args, Debug)]
pub(super) struct OnceArgs {
    #[arg(long)]
    prompt: Positive,

    #[arg(long)]
    tokens: Positive,

    #[arg(long)]
    seed: u64,

    #[command(flatten)]
    engine: EngineArgs,
}

/// An engine among those compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arm {
    /// Its name.
    pub(crate) name: String,
    /// Its flags.
    pub(crate) flags: Vec<String>,
}

impl FromStr for Arm {
    type Err = String;

    fn from_str(typed: &str) -> Result<Arm, String> {
        match typed.split_once(':') {
            Some((name, flags)) if !name.trim().is_empty() => {
                Ok(Arm { name: name.trim().to_owned(), flags: words(flags) })
            }
            _ => Err("expected a name, a colon and flags, such as 'few: --threads 1'".to_owned()),
        }
    }
}

/// The half of a generation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The prompt.
    Prefill,
    /// What follows its first id.
    Decode,
}

/// Arms to compare.
#[derive(Debug)]
pub(crate) struct BenchArms {
    /// What is measured.
    pub(crate) phase: Phase,
    /// The model of all.
    pub(crate) model: Option<ModelArg>,
    /// The arms, at least one.
    pub(crate) arms: Vec<Arm>,
    /// Runs of each.
    pub(crate) rounds: usize,
    /// Ids of a prompt.
    pub(crate) prompt: usize,
    /// Ids to generate.
    pub(crate) tokens: usize,
    /// What the prompts are drawn from.
    pub(crate) seed: u64,
    /// Whether for machines.
    pub(crate) json: bool,
}

/// A run of one arm.
#[derive(Debug)]
pub(crate) struct BenchOnce {
    /// Ids of a prompt.
    pub(crate) prompt: usize,
    /// Ids to generate.
    pub(crate) tokens: usize,
    /// What the prompts are drawn from.
    pub(crate) seed: u64,
    /// The engine.
    pub(crate) engine: EngineArgs,
}

impl DecodeArgs {
    pub(super) fn meaning(self) -> Result<BenchArms, Usage> {
        let tokens = self.tokens.0.get();
        if tokens < 2 {
            return Err(Usage(
                "--tokens must be at least 2: the first comes with the prompt".into(),
            ));
        }
        self.common.meaning(Phase::Decode, self.prompt, tokens)
    }
}

impl PrefillArgs {
    pub(super) fn meaning(self) -> Result<BenchArms, Usage> {
        self.common.meaning(Phase::Prefill, self.prompt, 1)
    }
}

impl CommonArgs {
    fn meaning(self, phase: Phase, prompt: Positive, tokens: usize) -> Result<BenchArms, Usage> {
        let mut arms = self.arms;
        if arms.is_empty() {
            arms.push(Arm { name: "default".to_owned(), flags: Vec::new() });
        }
        let every = words(&self.every);
        for position in 0..arms.len() {
            let (earlier, rest) = arms.split_at_mut(position);
            let arm = &mut rest[0];
            if earlier.iter().any(|other| other.name == arm.name) {
                return Err(Usage(format!("two arms are called '{}'", arm.name)));
            }
            arm.flags = every.iter().cloned().chain(arm.flags.drain(..)).collect();
            check(arm)?;
        }
        Ok(BenchArms {
            phase,
            model: self.model,
            arms,
            rounds: self.rounds.0.get(),
            prompt: prompt.0.get(),
            tokens,
            seed: self.seed,
            json: self.json,
        })
    }
}

impl OnceArgs {
    pub(super) fn meaning(self) -> BenchOnce {
        BenchOnce {
            prompt: self.prompt.0.get(),
            tokens: self.tokens.0.get(),
            seed: self.seed,
            engine: self.engine,
        }
    }
}

fn words(flags: &str) -> Vec<String> {
    flags.split_whitespace().map(str::to_owned).collect()
}

/// Refuses flags that an engine has not, before any run. The model is that of all arms.
fn check(arm: &Arm) -> Result<(), Usage> {
    let is = |typed: &str, name: &str| typed.split('=').next() == Some(name);
    if let Some((name, why)) =
        FOREIGN.iter().find(|(name, _)| arm.flags.iter().any(|flag| is(flag, name)))
    {
        return Err(Usage(format!("arm '{}': {name} {why}", arm.name)));
    }
    let fixed = ["--prompt", "1", "--tokens", "1", "--seed", "1", "--model", "demo"];
    let line = ["deltafin"].into_iter().chain(ONCE).chain(fixed);
    let line = line.map(OsString::from).chain(arm.flags.iter().map(OsString::from));
    let parsed = table().try_get_matches_from(line);
    parsed.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| {
        let text = error.render().to_string();
        let first = text.lines().next().unwrap_or_default();
        Usage(format!("arm '{}': {}", arm.name, first.trim_start_matches("error: ")))
    })?;
    Ok(())
}

/// What is said of flags that all arms share.
const SHARED: &str = "is for all arms: give it outside of them";

/// Flags that an arm cannot have, and why.
const FOREIGN: [(&str, &str); 7] = [
    ("--model", SHARED),
    ("--prompt", SHARED),
    ("--tokens", SHARED),
    ("--seed", SHARED),
    ("--json", SHARED),
    ("--pin", "would keep nothing: runs start without what earlier ones learned"),
    ("--stats", "would print nothing: the report tells how long it took and what was read"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_is_a_name_and_flags() {
        let arm: Arm = " few : --threads  1 --isa scalar".parse().unwrap();
        assert_eq!(arm.name, "few");
        assert_eq!(arm.flags, ["--threads", "1", "--isa", "scalar"]);
        assert_eq!("plain:".parse::<Arm>().unwrap().flags, Vec::<String>::new());
        assert!("--threads 1".parse::<Arm>().is_err());
        assert!(": --threads 1".parse::<Arm>().is_err());
    }

    #[test]
    fn foreign_flags_are_refused_by_the_arm_s_name() {
        let refused = |flags| {
            let arm = Arm { name: "odd".to_owned(), flags: words(flags) };
            check(&arm).unwrap_err().0
        };
        assert!(refused("--frobnicate").starts_with("arm 'odd': "), "{}", refused("--frobnicate"));
        assert!(refused("--threads 0").contains("--threads"), "{}", refused("--threads 0"));
        for shared in ["--model x", "--prompt=5", "--tokens 2", "--seed 1", "--json"] {
            assert!(refused(shared).ends_with(SHARED), "{}", refused(shared));
        }
    }
}
