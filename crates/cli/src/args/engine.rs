//! The flags that every command with an engine takes, and what they mean.

mod meaning;
mod typed;

use clap::Args;
use deltafin_engine::{MOST_THREADS, RequestMemory, SnapshotMemory};

pub(crate) use self::typed::ModelArg;
use self::typed::{IoArg, IsaArg, PrefetchArg, Switch};
use super::network::NetworkArgs;
use super::size::{Auto, Bounded, Positive};
use super::truth::truth;
use crate::built_in;
use crate::spine::SpineArg;

/// The engine's flags. Each has an environment twin, which the flag overrides.
#[derive(Args, Clone, Debug)]
#[command(
    next_help_heading = "Engine",
    after_help = "Counts may end in K, M or G: 1024, 1024² and 1024³."
)]
pub(crate) struct EngineArgs {
    #[arg(
        long,
        help = built_in::HELP,
        long_help = built_in::LONG_HELP,
        value_name = built_in::VALUE_NAME,
        env = "DELTAFIN_MODEL",
        hide_env_values = true
    )]
    pub(crate) model: Option<ModelArg>,

    /// How the weights that every token uses are represented: auto, bf16, int8, or the folder of a
    /// pack; alters the result
    ///
    /// auto is int8 where 'deltafin convert' or 'deltafin setup' has made it and setup was not told bf16 since, and
    /// else bf16, the released bits. It is never chosen by the memory there is.
    #[arg(long, value_name = "SPINE", env = "DELTAFIN_SPINE", hide_env_values = true)]
    pub(crate) spine: Option<SpineArg>,

    /// Threads that compute; all available ones by default
    #[arg(long, value_name = "N", env = "DELTAFIN_THREADS", hide_env_values = true)]
    threads: Option<Bounded<MOST_THREADS>>,

    /// Instruction set; alters speed, never the result
    #[arg(long, value_enum, default_value = "auto", env = "DELTAFIN_ISA", hide_env_values = true)]
    isa: IsaArg,

    /// Prompt rows per pass; alters speed and memory, never the result
    #[arg(long, value_name = "N", env = "DELTAFIN_CHUNK", hide_env_values = true)]
    chunk: Option<Positive>,

    /// Positions to hold, prompt and reply together; by default 32K, or the model's limit if lower,
    /// or as many as an eighth of the memory holds, at least 4K
    #[arg(long, value_name = "N", env = "DELTAFIN_CONTEXT", hide_env_values = true)]
    context: Option<Positive>,

    /// Most memory to have resident at any time: a promise. 'auto' takes what the machine can spare
    #[arg(
        long,
        value_name = "SIZE|auto",
        default_value = "auto",
        env = "DELTAFIN_MEMORY",
        hide_env_values = true
    )]
    memory: Auto<Positive>,

    /// How drives are read; alters speed, never the result
    #[arg(long, value_enum, default_value = "auto", env = "DELTAFIN_IO", hide_env_values = true)]
    io: IoArg,

    /// What to read on a guess while a drive is idle; alters speed, never the result
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        env = "DELTAFIN_PREFETCH",
        hide_env_values = true
    )]
    prefetch: PrefetchArg,

    /// Most experts to set memory aside for; as many as fit by default
    #[arg(long, value_name = "N", env = "DELTAFIN_SLABS", hide_env_values = true)]
    slabs: Option<Positive>,

    /// Whether experts stay in memory after use; alters speed, never the result
    #[arg(
        long,
        value_enum,
        default_value = "on",
        env = "DELTAFIN_EXPERT_CACHE",
        hide_env_values = true
    )]
    expert_cache: Switch,

    /// Keep the experts that earlier runs used most in memory, up to this size
    #[arg(long, value_name = "SIZE", env = "DELTAFIN_PIN", hide_env_values = true)]
    pin: Option<Positive>,

    #[command(flatten)]
    network: NetworkArgs,

    /// What the command keeps of earlier conversations; most keep nothing.
    #[arg(skip)]
    snapshots: SnapshotMemory,

    /// What the command needs for requests; most are asked nothing.
    #[arg(skip)]
    requests: RequestMemory,

    /// Bytes that the command takes for itself; most take none worth counting.
    #[arg(skip)]
    besides: u64,

    /// Print a summary to standard error: speeds, memory, what was read, how, and on which machine
    #[arg(
        long,
        env = "DELTAFIN_STATS",
        hide_env_values = true,
        value_parser = truth
    )]
    pub(crate) stats: bool,

    /// Print JSON on standard output instead of text
    #[arg(
        long,
        env = "DELTAFIN_JSON",
        hide_env_values = true,
        value_parser = truth
    )]
    pub(crate) json: bool,
}
