//! The flags that every command with an engine takes, and what they mean.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser, ValueParserFactory};
use clap::{Args, ValueEnum};
use deltafin_engine::{IoMode, MOST_THREADS, Prefetch, RequestMemory, SnapshotMemory};
use deltafin_kernels::IsaKind;
use deltafin_store::SpineChoice;

use super::network::{Network, NetworkArgs};
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

/// What was typed for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModelArg {
    /// The model inside this program.
    Demo,
    /// A directory.
    Directory(PathBuf),
}

impl TryFrom<OsString> for ModelArg {
    type Error = String;

    /// Nothing names no model: most likely it stands where a script's variable was never set, and
    /// another model than the one meant would answer.
    fn try_from(typed: OsString) -> Result<ModelArg, String> {
        match typed.to_str() {
            Some("") => Err("the name is empty; is a variable unset?".to_owned()),
            Some("demo") => Ok(ModelArg::Demo),
            _ => Ok(ModelArg::Directory(typed.into())),
        }
    }
}

impl ValueParserFactory for ModelArg {
    type Parser = clap::builder::ValueParser;

    fn value_parser() -> Self::Parser {
        OsStringValueParser::new().try_map(ModelArg::try_from).into()
    }
}

/// What may be typed for an instruction set.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum IsaArg {
    /// The fastest one this CPU has
    Auto,
    /// Portable code
    Scalar,
    /// AVX2 with FMA
    Avx2,
    /// AVX-512 F, BW, DQ and VL
    Avx512,
    /// 64-bit Arm
    Neon,
}

/// What may be typed for a way to read drives.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum IoArg {
    /// The best that the drive and the system can do
    Auto,
    /// io_uring past the page cache (Linux)
    Uring,
    /// Plain reads past the page cache
    Direct,
    /// Reads through the page cache
    Buffered,
}

/// What may be typed for guesses.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PrefetchArg {
    /// The next two together
    Auto,
    /// Nothing
    Off,
    /// Experts that the previous token used
    Prev,
    /// Experts that the next layer's router would choose now
    Lookahead,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// They do
    On,
    /// They do not
    Off,
}

impl EngineArgs {
    /// The same, with memory for earlier conversations.
    pub(super) fn with_snapshots(self, snapshots: SnapshotMemory) -> EngineArgs {
        EngineArgs { snapshots, ..self }
    }

    /// The same, with memory for requests to a server.
    pub(super) fn with_requests(self, requests: RequestMemory) -> EngineArgs {
        EngineArgs { requests, ..self }
    }

    /// The same, with so many bytes for the command itself.
    pub(super) fn with_besides(self, besides: u64) -> EngineArgs {
        EngineArgs { besides, ..self }
    }

    /// Bytes that the command takes for itself.
    pub(crate) fn besides(&self) -> u64 {
        self.besides
    }

    /// The memory for requests to a server.
    pub(crate) fn requests(&self) -> RequestMemory {
        self.requests
    }

    /// The memory for earlier conversations.
    pub(crate) fn snapshots(&self) -> SnapshotMemory {
        self.snapshots
    }

    /// How to ask for experts that are not here.
    pub(crate) fn network(&self) -> Network {
        self.network.meaning()
    }

    /// The most bytes to have resident; nothing means what the machine can spare.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.memory.0.map(|bytes| bytes.0.get() as u64)
    }

    /// The same with so much memory.
    pub(crate) fn with_memory(&self, bytes: u64) -> EngineArgs {
        let bytes = usize::try_from(bytes).ok().and_then(NonZeroUsize::new);
        EngineArgs { memory: Auto(bytes.map(Positive)), ..self.clone() }
    }

    /// How drives are to be read.
    pub(crate) fn io(&self) -> IoMode {
        match self.io {
            IoArg::Auto => IoMode::Auto,
            IoArg::Uring => IoMode::Uring,
            IoArg::Direct => IoMode::Direct,
            IoArg::Buffered => IoMode::Buffered,
        }
    }

    /// What to read on a guess.
    pub(crate) fn prefetch(&self) -> Prefetch {
        match self.prefetch {
            PrefetchArg::Auto => Prefetch::Auto,
            PrefetchArg::Off => Prefetch::Off,
            PrefetchArg::Prev => Prefetch::Prev,
            PrefetchArg::Lookahead => Prefetch::Lookahead,
        }
    }

    /// The most experts to set memory aside for, where given.
    pub(crate) fn slabs(&self) -> Option<NonZeroUsize> {
        self.slabs.map(|slabs| slabs.0)
    }

    /// Bytes of experts to keep for good.
    pub(crate) fn pin(&self) -> u64 {
        self.pin.map_or(0, |bytes| bytes.0.get() as u64)
    }

    /// Whether experts stay in memory after use.
    pub(crate) fn expert_cache(&self) -> bool {
        self.expert_cache == Switch::On
    }

    /// The instruction set asked for; nothing means the best there is.
    pub(crate) fn isa(&self) -> Option<IsaKind> {
        match self.isa {
            IsaArg::Auto => None,
            IsaArg::Scalar => Some(IsaKind::Scalar),
            IsaArg::Avx2 => Some(IsaKind::Avx2),
            IsaArg::Avx512 => Some(IsaKind::Avx512),
            IsaArg::Neon => Some(IsaKind::Neon),
        }
    }

    /// The number of threads asked for.
    pub(crate) fn threads(&self) -> Option<NonZeroUsize> {
        self.threads.map(|threads| threads.0)
    }

    /// The flags given that act on a model, for a command that loads none.
    pub(crate) fn idle_without_model(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("--model", self.model.is_some()),
            ("--spine", self.spine.is_some()),
            ("--chunk", self.chunk.is_some()),
            ("--context", self.context.is_some()),
            ("--memory", self.memory.0.is_some()),
            ("--slabs", self.slabs.is_some()),
            ("--pin", self.pin.is_some()),
            ("--stats", self.stats),
        ];
        given.into_iter().filter_map(|(flag, given)| given.then_some(flag))
    }

    /// The spine asked for.
    pub(crate) fn spine(&self) -> SpineChoice {
        self.spine.clone().unwrap_or_default().0
    }

    /// Prompt rows per pass, where given.
    pub(crate) fn chunk(&self) -> Option<NonZeroUsize> {
        self.chunk.map(|rows| rows.0)
    }

    /// Positions to hold, where given.
    pub(crate) fn context(&self) -> Option<NonZeroUsize> {
        self.context.map(|positions| positions.0)
    }
}
