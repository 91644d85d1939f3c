//! `eval`: the numbers behind the tokens.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::engine::{EngineArgs, ModelArg};
use super::ids::{self, IdsArg};
use super::sleep::SleepArgs;
use super::{Given, Usage};
use crate::spine::{self, SpineArg};

/// Compute logits or perplexity, or compare two models
#[derive(Args, Debug)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    command: EvalTyped,

    #[command(flatten)]
    pub(super) sleep: SleepArgs,
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
    /// Say how far apart two models are on a text
    ///
    /// Each is a checkpoint directory or 'demo', and may end in '@bf16', '@int8' or '@auto' to say
    /// which spine it runs with (without, --spine says it). Prints the mean Kullback-Leibler divergence of B from A,
    /// how often both have the same most likely token, and both perplexities.
    Compare {
        /// The model to compare with, such as 'demo@bf16'
        #[arg(value_name = "A", value_parser = compared())]
        a: Compared,

        /// The model to be compared, such as 'demo@int8'
        #[arg(value_name = "B", value_parser = compared())]
        b: Compared,

        #[command(flatten)]
        passage: PassageArgs,

        #[command(flatten)]
        engine: EngineArgs,
    },
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct PassageArgs {
    /// File with the text, taken as it is; '-' reads standard input
    #[arg(long, value_name = "FILE|-")]
    text: Option<PathBuf>,

    /// Token ids: decimal, separated by commas or white space, in place, in a file, or '-' for
    /// standard input
    #[arg(long, value_name = "IDS|FILE|-", value_parser = ids::parse_arg)]
    ids: Option<IdsArg>,
}

fn compared() -> impl TypedValueParser<Value = Compared> {
    OsStringValueParser::new().try_map(Compared::try_from)
}

/// A model and its spine, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compared {
    /// The model.
    pub(crate) model: ModelArg,
    /// Its spine, if it was said.
    pub(crate) spine: Option<SpineArg>,
    typed: OsString,
}

impl TryFrom<OsString> for Compared {
    type Error = String;

    fn try_from(typed: OsString) -> Result<Compared, String> {
        let split = typed.to_str().and_then(|text| text.rsplit_once('@'));
        let (model, spine) = match split.map(|(model, word)| (model, word, spine::choice(word))) {
            Some((model, _, Some(choice))) => (OsString::from(model), Some(SpineArg(choice))),
            // A folder's name may have the sign in it.
            Some((_, word, None)) if !word.contains('/') && !Path::new(&typed).exists() => {
                let spines = "the spines are bf16, int8 and auto";
                return Err(format!("no such folder, and no spine '{word}': {spines}"));
            }
            _ => (typed.clone(), None),
        };
        Ok(Compared { model: ModelArg::try_from(model)?, spine, typed })
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.typed.display().fmt(f)
    }
}

/// What to compute.
#[derive(Debug)]
pub(crate) enum Eval {
    /// Logits of every position.
    Logits(Logits),
    /// Perplexity of a text.
    Ppl(Ppl),
    /// Two models on one text.
    Compare(Box<Compare>),
}

/// Two models on one text.
#[derive(Debug)]
pub(crate) struct Compare {
    /// The one to compare with.
    pub(crate) a: Compared,
    /// The one to be compared.
    pub(crate) b: Compared,
    /// The text.
    pub(crate) passage: Passage,
    /// How to compute.
    pub(crate) engine: EngineArgs,
}

/// A text to compare on.
#[derive(Debug)]
pub(crate) enum Passage {
    /// Where the text is; `-` is standard input.
    Text(PathBuf),
    /// Its ids.
    Ids(IdsArg),
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
    pub(super) fn meaning(self, given: Given) -> Result<Eval, Usage> {
        Ok(match self.command {
            EvalTyped::Logits { ids, out, hidden, engine } => {
                Eval::Logits(Logits { ids, out, hidden, engine })
            }
            EvalTyped::Ppl { text, engine } => Eval::Ppl(Ppl { text, engine }),
            EvalTyped::Compare { .. } if given == Given::Typed => {
                return Err(Usage("the models to compare are A and B, not --model".to_owned()));
            }
            EvalTyped::Compare { a, b, passage, engine } => {
                let passage = match (passage.text, passage.ids) {
                    (Some(text), _) => Passage::Text(text),
                    (None, Some(ids)) => Passage::Ids(ids),
                    (None, None) => return Err(Usage("give --text or --ids".to_owned())),
                };
                Eval::Compare(Box::new(Compare { a, b, passage, engine }))
            }
        })
    }
}
