//! `bench`: how fast this machine is.

mod arms;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use deltafin_measure::{MOST_ROWS, MOST_SECONDS, Moments, default_threads};

pub(crate) use self::arms::{Arm, BenchArms, BenchOnce, ONCE, Phase};
use super::engine::EngineArgs;
use super::size::{Bounded, Positive};
use super::sleep::SleepArgs;
use super::{Command, Usage};

/// Measure this machine
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchTyped,

    #[command(flatten)]
    sleep: SleepArgs,
}

#[derive(Debug, Subcommand)]
enum BenchTyped {
    /// Memory bandwidth, multiply-add peak, and how near each kernel comes to them
    ///
    /// The shapes are those of Kimi K3 whatever the model, so none is loaded: of the engine's flags,
    /// --isa, --threads and --json count here, and the others are named as idle. It takes 350 MiB of memory, and more
    /// for more rows, or half of what there is where that is less.
    Kernels {
        /// Kernels to measure; all by default
        #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
        kernel: Vec<KernelArg>,

        /// Positions computed at once; 1, 8 and 64 by default, 4096 at most
        #[arg(long, value_name = "N", value_delimiter = ',')]
        rows: Vec<Bounded<MOST_ROWS>>,

        /// About how long it may take; an hour at most
        #[arg(long, value_name = "N", default_value = "15")]
        seconds: Bounded<MOST_SECONDS>,

        #[command(flatten)]
        engine: EngineArgs,
    },
    Decode(arms::DecodeArgs),
    Prefill(arms::PrefillArgs),
    /// How a router chooses: how often experts repeat, how unevenly they are wanted
    ///
    /// Runs two texts of random ids, or takes routes that were recorded, and counts. The figures are of
    /// the kinds published for Kimi K3, and say what an expert cache can hope for.
    Routes {
        /// Ids of each text
        #[arg(long, value_name = "N", default_value = "256")]
        prompt: Positive,

        /// What the texts are drawn from
        #[arg(long, value_name = "N", default_value = "1")]
        seed: u64,

        /// Count what 'run --route-trace FILE' recorded; a second file is the text that a cache has not
        /// seen
        #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "seed"])]
        from: Vec<PathBuf>,

        #[command(flatten)]
        engine: EngineArgs,
    },
    /// A token's time beside what memory and the kernels alone would take
    ///
    /// All weights must fit in memory, beside 340 MiB to measure with, which are a part of --memory. Takes some
    /// tokens, then samples memory and kernels, in turns, and holds each round against the better of the samples
    /// before and after it.
    Token {
        /// Rounds
        #[arg(long, value_name = "N", default_value = "9")]
        rounds: Positive,

        /// Tokens of a round
        #[arg(long, value_name = "N", default_value = "4")]
        tokens: Positive,

        #[command(flatten)]
        engine: EngineArgs,
    },
    #[command(hide = true)]
    Once(arms::OnceArgs),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KernelArg {
    /// Whole experts
    Mxfp4,
    /// Rows of signed bytes
    Int8,
    /// Rows of bfloat16
    Bf16,
    /// Rows of f32
    F32,
}

/// Kernels to measure.
#[derive(Debug)]
pub(crate) struct BenchKernels {
    /// Their names; all when there are none.
    pub(crate) names: Vec<String>,
    /// Positions computed at once; the usual ones when there are none.
    pub(crate) rows: Vec<usize>,
    /// About how long it may take.
    pub(crate) seconds: f64,
    /// Instruction set, threads, output.
    pub(crate) engine: EngineArgs,
}

/// Routes to count.
#[derive(Debug)]
pub(crate) struct BenchRoutes {
    /// Files they were recorded in, one or two; none where texts are to be run.
    pub(crate) from: Vec<PathBuf>,
    /// Ids of each text.
    pub(crate) prompt: usize,
    /// What they are drawn from.
    pub(crate) seed: u64,
    /// The engine to run them on.
    pub(crate) engine: EngineArgs,
}

/// Tokens to hold against the machine.
#[derive(Debug)]
pub(crate) struct BenchToken {
    /// Rounds.
    pub(crate) rounds: usize,
    /// Tokens of a round.
    pub(crate) tokens: usize,
    /// The engine to run them on.
    pub(crate) engine: EngineArgs,
}

impl BenchArgs {
    pub(super) fn meaning(self) -> Result<Command, Usage> {
        let measured = match self.command {
            BenchTyped::Kernels { kernel, rows, seconds, engine } => {
                Command::BenchKernels(BenchKernels {
                    names: kernel.into_iter().map(|kernel| kernel.name().to_owned()).collect(),
                    rows: rows.into_iter().map(|rows| rows.0.get()).collect(),
                    seconds: seconds.0.get() as f64,
                    engine,
                })
            }
            BenchTyped::Decode(args) => Command::BenchArms(args.meaning()?),
            BenchTyped::Prefill(args) => Command::BenchArms(args.meaning()?),
            BenchTyped::Routes { prompt, seed, from, engine } => {
                if from.len() > 2 {
                    return Err(Usage("--from: two files at most".to_owned()));
                }
                Command::BenchRoutes(Box::new(BenchRoutes {
                    from,
                    prompt: prompt.0.get(),
                    seed,
                    engine,
                }))
            }
            BenchTyped::Token { rounds, tokens, engine } => {
                let (rounds, tokens) = (rounds.0.get(), tokens.0.get());
                let threads = engine.threads().map_or_else(default_threads, NonZeroUsize::get);
                let engine = engine.with_besides(Moments::bytes(default_threads(), threads));
                Command::BenchToken(Box::new(BenchToken { rounds, tokens, engine }))
            }
            // One of the runs of a command that is long.
            BenchTyped::Once(args) => return Ok(Command::BenchOnce(Box::new(args.meaning()))),
        };
        Ok(measured.long(self.sleep))
    }
}

impl KernelArg {
    fn name(self) -> &'static str {
        match self {
            KernelArg::Mxfp4 => "mxfp4",
            KernelArg::Int8 => "int8",
            KernelArg::Bf16 => "bf16",
            KernelArg::F32 => "f32",
        }
    }
}
