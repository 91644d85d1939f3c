//! `eval`: the numbers behind the tokens.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::engine::EngineArgs;
use super::ids::{self, IdsArg};

/// Compute logits or perplexity
#[derive(Args, Debug)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    command: EvalTyped,
}

#[derive(Debug, Subcommand)]
enum EvalTyped {
    /// Write the logits of every position to a safetensors file
    ///
    /// Tensor 'logits' is f32 [positions, vocabulary].
    Logits {
        /// Token ids: decimal, separated by commas or white space, in place, in a file, or '-'
        /// for standard input
        #[arg(long, value_name = "IDS|FILE|-", value_parser = ids::parse_arg)]
        ids: IdsArg,

        /// File to write
        #[arg(long, value_name = "FILE.safetensors")]
        out: PathBuf,

        /// Also write 'hidden.L', f32 [positions, width]: the running sum after layer L; and
        /// 'route.L', i32 [positions, k]: the experts chosen in layer L, best first
        #[arg(long)]
        hidden: bool,

        #[command(flatten)]
        engine: EngineArgs,
    },
    /// Print the perplexity of a text
    Ppl {
        /// File with the text, taken as it is; '-' reads standard input
        #[arg(long, value_name = "FILE|-")]
        text: PathBuf,

        #[command(flatten)]
        engine: EngineArgs,
    },
}

/// What to compute.
#[derive(Debug)]
pub(crate) enum Eval {
    /// Logits of every position.
    Logits(Logits),
    /// Perplexity of a text.
    Ppl(Ppl),
}

/// Logits of every position, to a file.
#[derive(Debug)]
pub(crate) struct Logits {
    /// The positions.
    pub(crate) ids: IdsArg,
    /// The file.
    pub(crate) out: PathBuf,
    /// Whether hidden states and routes are written too.
    pub(crate) hidden: bool,
    /// The engine to compute with.
    pub(crate) engine: EngineArgs,
}

/// Perplexity of a text.
#[derive(Debug)]
pub(crate) struct Ppl {
    /// Where the text is; `-` is standard input.
    pub(crate) text: PathBuf,
    /// The engine to compute with.
    pub(crate) engine: EngineArgs,
}

impl EvalArgs {
    pub(super) fn meaning(self) -> Eval {
        match self.command {
            EvalTyped::Logits { ids, out, hidden, engine } => {
                Eval::Logits(Logits { ids, out, hidden, engine })
            }
            EvalTyped::Ppl { text, engine } => Eval::Ppl(Ppl { text, engine }),
        }
    }
}
