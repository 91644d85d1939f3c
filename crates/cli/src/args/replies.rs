//! How a server's replies are understood and told, where a request leaves that open.

use std::time::Duration;

use clap::{Args, ValueEnum};
use deltafin_server::{ReasoningField, Settings};
use deltafin_text::Effort;

#[derive(Args, Debug)]
pub(super) struct ReplyArgs {
    /// How much is thought where a chat does not say
    #[arg(long, value_enum, value_name = "EFFORT", default_value = "max")]
    default_effort: EffortChoice,

    /// Names under which chats tell reasoning
    #[arg(long, value_enum, value_name = "NAMES", default_value = "both")]
    reasoning_field: ReasoningNames,

    /// Ignore penalties and biases, which cannot be honoured, instead of refusing them
    #[arg(long)]
    lenient: bool,

    /// Refuse members that mean nothing here, instead of ignoring and naming them
    #[arg(long)]
    strict: bool,

    /// Form of signs of life in streams; 'chunk' adds an empty chunk for clients that do not count comments
    #[arg(long, value_enum, value_name = "STYLE", default_value = "comment")]
    ping_style: PingStyle,

    /// Hold a plain reply's status back until the reply is there, whatever the client's patience
    #[arg(long)]
    no_early_response: bool,

    /// Take a client that closes its sending side for gone, also while it waits for a plain reply
    ///
    /// Without it such a client still gets its reply, and is gone when a sign of life does not
    /// arrive. Streams end either way.
    #[arg(long)]
    cancel_on_eof: bool,
}

/// How much is thought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EffortChoice {
    None,
    Low,
    High,
    Max,
}

impl EffortChoice {
    fn effort(self) -> Option<Effort> {
        match self {
            EffortChoice::None => None,
            EffortChoice::Low => Some(Effort::Low),
            EffortChoice::High => Some(Effort::High),
            EffortChoice::Max => Some(Effort::Max),
        }
    }
}

/// Where reasoning is told, as clients spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReasoningNames {
    Both,
    #[value(name = "reasoning_content")]
    ReasoningContent,
    Reasoning,
    None,
}

impl ReasoningNames {
    fn field(self) -> ReasoningField {
        match self {
            ReasoningNames::Both => ReasoningField::Both,
            ReasoningNames::ReasoningContent => ReasoningField::ReasoningContent,
            ReasoningNames::Reasoning => ReasoningField::Reasoning,
            ReasoningNames::None => ReasoningField::None,
        }
    }
}

/// How silence is broken in streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PingStyle {
    Comment,
    Chunk,
}

impl ReplyArgs {
    /// These settings, and what was said here.
    pub(super) fn over(&self, settings: Settings) -> Settings {
        let hold = if self.no_early_response { Duration::MAX } else { settings.status_hold };
        Settings {
            default_effort: self.default_effort.effort(),
            reasoning_field: self.reasoning_field.field(),
            lenient: self.lenient,
            strict: self.strict,
            ping_chunks: self.ping_style == PingStyle::Chunk,
            status_hold: hold,
            cancel_on_eof: self.cancel_on_eof,
            ..settings
        }
    }
}
