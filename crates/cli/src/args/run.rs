//! `run`: one prompt, one continuation.

use std::path::PathBuf;

use clap::Args;

use super::Usage;
use super::chat::{Style, StyleArgs};
use super::engine::EngineArgs;
use super::ids::{self, IdsArg};
use super::size::Count;
use super::sleep::SleepArgs;
use super::truth::truth;

/// Continue a prompt
///
/// The continuation streams to standard output and nothing else does. An interrupt stops after
/// the current token, keeps what was said, and exits with 130; a second one exits at once.
///
/// With --chat, thinking is shown dimmed before the answer on a terminal. When standard output is
/// not a terminal it gets the answer alone; thinking then goes to standard error if that is a
/// terminal, and with --json into 'reasoning_content'.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    prompt: PromptArgs,

    /// Give the prompt as the user's message of a conversation, and print the reply
    #[arg(long, conflicts_with = "prompt_ids", help_heading = "Conversation")]
    chat: bool,

    #[command(flatten)]
    style: StyleArgs,

    /// Tokens to generate at most; to the end of the context by default
    #[arg(long, value_name = "N")]
    max_new: Option<Count>,

    /// Go on through stop tokens, and print them
    #[arg(long)]
    ignore_eos: bool,

    /// Print the generated ids on one line instead of text; with --json, leave the text null
    #[arg(long)]
    ids: bool,

    /// Print to standard error where the time of a token goes; with --json, into 'profile'.
    /// K3_PROFILE counts as DELTAFIN_PROFILE does
    #[arg(
        long,
        env = "DELTAFIN_PROFILE",
        hide_env_values = true,
        value_parser = truth
    )]
    profile: bool,

    /// Record when each part of a pass and each read began and ended, as trace events that
    /// ui.perfetto.dev and chrome://tracing show
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Record which experts were chosen, one line of JSON per position and layer
    #[arg(long, value_name = "FILE")]
    route_trace: Option<PathBuf>,

    #[command(flatten)]
    sleep: SleepArgs,

    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct PromptArgs {
    /// The prompt; '-' reads it from standard input, less one line end
    #[arg(long, value_name = "TEXT|-", allow_hyphen_values = true)]
    prompt: Option<String>,

    /// The prompt as token ids: decimal, separated by commas or white space, in place, in a file,
    /// or '-' for standard input
    #[arg(long, value_name = "IDS|FILE|-", value_parser = ids::parse_arg)]
    prompt_ids: Option<IdsArg>,
}

/// A prompt to continue.
#[derive(Debug)]
pub(crate) struct Run {
    /// What is continued.
    pub(crate) prompt: Prompt,
    /// Limit of the continuation.
    pub(crate) max_new: Option<usize>,
    /// Whether stop tokens are tokens like any other.
    pub(crate) ignore_eos: bool,
    /// Whether ids are printed instead of text.
    pub(crate) ids: bool,
    /// What is told of it.
    pub(crate) watched: Watched,
    /// Whether the machine may go to sleep meanwhile.
    pub(crate) may_sleep: bool,
    /// The engine to continue it with.
    pub(crate) engine: EngineArgs,
}

/// What is told of a run beside its result.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Whether it is told where the time went.
    pub(crate) profile: bool,
    /// The file to record trace events in.
    pub(crate) trace: Option<PathBuf>,
    /// The file to record routes in.
    pub(crate) routes: Option<PathBuf>,
}

impl Watched {
    /// Whether anything is written to files.
    pub(crate) fn is_recorded(&self) -> bool {
        self.trace.is_some() || self.routes.is_some()
    }
}

/// What is continued.
#[derive(Debug)]
pub(crate) enum Prompt {
    /// These ids.
    Ids(IdsArg),
    /// This text as it stands, or standard input.
    Text(String),
    /// This message of a user, or standard input, in a conversation.
    Chat(String, Style),
}

impl RunArgs {
    pub(super) fn meaning(self) -> Result<Run, Usage> {
        if self.style.is_given() && !self.chat {
            return Err(Usage("--system, --effort and --no-thinking need --chat".to_owned()));
        }
        if self.trace.is_some() && self.trace == self.route_trace {
            return Err(Usage("--trace and --route-trace need a file each".to_owned()));
        }
        let prompt = match (self.prompt.prompt, self.prompt.prompt_ids) {
            (Some(text), _) if self.chat => Prompt::Chat(text, self.style.meaning()),
            (Some(text), _) => Prompt::Text(text),
            (None, Some(ids)) => Prompt::Ids(ids),
            (None, None) => return Err(Usage("give --prompt or --prompt-ids".to_owned())),
        };
        Ok(Run {
            prompt,
            max_new: self.max_new.map(|count| count.0),
            ignore_eos: self.ignore_eos,
            ids: self.ids,
            watched: Watched { profile: self.profile, trace: self.trace, routes: self.route_trace },
            may_sleep: self.sleep.allow_sleep,
            engine: self.engine,
        })
    }
}
