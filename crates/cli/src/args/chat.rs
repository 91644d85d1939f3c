//! `chat`, and the choices about a conversation that `run --chat` shares with it.

use clap::{Args, ValueEnum};
use deltafin_engine::SnapshotMemory;
use deltafin_text::Effort;

use super::engine::EngineArgs;
use super::size::Count;
use super::sleep::SleepArgs;

/// Converse with the model
///
/// Lines are edited and remembered while the program runs; the state of the conversation is kept
/// between turns. /help lists the commands. An interrupt stops the reply, the end of input the
/// program. When standard input is not a terminal, every line of it is one turn, and answers
/// alone are printed; a command that is refused is named, and the exit code is then 1.
#[derive(Args, Debug)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    style: StyleArgs,

    /// Tokens a reply may have; to the end of the context by default
    #[arg(long, value_name = "N")]
    max_new: Option<Count>,

    #[command(flatten)]
    sleep: SleepArgs,

    #[command(flatten)]
    engine: EngineArgs,
}

/// What a conversation starts with.
#[derive(Args, Debug)]
pub(crate) struct StyleArgs {
    /// System message
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Conversation")]
    system: Option<String>,

    /// How much to think before answering; 'max' by default
    #[arg(long, value_enum, conflicts_with = "no_thinking", help_heading = "Conversation")]
    effort: Option<EffortArg>,

    /// Answer without thinking
    #[arg(long, help_heading = "Conversation")]
    no_thinking: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EffortArg {
    Low,
    High,
    Max,
}

/// A conversation to hold.
#[derive(Debug)]
pub(crate) struct Chat {
    /// How it is rendered.
    pub(crate) style: Style,
    /// Limit of one reply.
    pub(crate) max_new: Option<usize>,
    /// Whether the machine may go to sleep meanwhile.
    pub(crate) may_sleep: bool,
    /// The engine to hold it with.
    pub(crate) engine: EngineArgs,
}

/// How a conversation is rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// The system message.
    pub(crate) system: Option<String>,
    /// The effort; nothing means that the model does not think.
    pub(crate) effort: Option<Effort>,
}

impl StyleArgs {
    /// Whether anything of it was typed.
    pub(super) fn is_given(&self) -> bool {
        self.system.is_some() || self.effort.is_some() || self.no_thinking
    }

    pub(super) fn meaning(self) -> Style {
        let effort = match self.effort {
            _ if self.no_thinking => None,
            Some(EffortArg::Low) => Some(Effort::Low),
            Some(EffortArg::High) => Some(Effort::High),
            Some(EffortArg::Max) | None => Some(Effort::Max),
        };
        Style { system: self.system, effort }
    }
}

impl ChatArgs {
    pub(super) fn meaning(self) -> Chat {
        Chat {
            style: self.style.meaning(),
            max_new: self.max_new.map(|count| count.0),
            may_sleep: self.sleep.allow_sleep,
            // Beside the state of the last turn, those before it: for a reply that is broken off, and /reset.
            engine: self.engine.with_snapshots(SnapshotMemory::Auto),
        }
    }
}
