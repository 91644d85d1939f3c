//! `convert`: the spine in files of its own.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use deltafin_engine::Recipe;

use super::engine::ModelArg;
use super::sleep::SleepArgs;
use crate::built_in;

/// Pack the spine of a checkpoint, quantised or as released
///
/// The spine is what every token uses: everything but the routed experts and the embedding. Packed as
/// int8 it takes half the bytes, on the drive and in memory, and changes what the model computes a
/// little ('deltafin eval compare' says how much); packed as bf16 it holds the released bits in the
/// order they are used.
///
/// The command can be stopped at any moment; run again, it goes on from the last finished file.
/// A finished pack is proven byte for byte, and what is damaged in it is made again. One of another checkpoint, or of
/// another version of this program, is refused.
#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// How to represent it
    #[arg(long, value_enum)]
    spine: RecipeArg,

    #[arg(
        long,
        value_name = built_in::VALUE_NAME,
        help = built_in::HELP,
        long_help = built_in::LONG_HELP,
        env = "DELTAFIN_MODEL",
        hide_env_values = true
    )]
    model: Option<ModelArg>,

    /// Folder to write; by default 'spine-int8' or 'spine-bf16' in the checkpoint's own, where every
    /// command finds it. Elsewhere, --spine DIR finds it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    pub(super) sleep: SleepArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RecipeArg {
    /// Signed bytes with one scale per row, for all large matrices
    Int8,
    /// The released bits
    Bf16,
}

/// A spine to pack.
#[derive(Debug)]
pub(crate) struct Convert {
    /// How.
    pub(crate) recipe: Recipe,
    /// Of which checkpoint.
    pub(crate) model: Option<ModelArg>,
    /// Into which folder; the usual one when there is none.
    pub(crate) out: Option<PathBuf>,
    /// Whether for machines.
    pub(crate) json: bool,
}

impl ConvertArgs {
    pub(super) fn meaning(self) -> Convert {
        let recipe = match self.spine {
            RecipeArg::Int8 => Recipe::Int8,
            RecipeArg::Bf16 => Recipe::Bf16,
        };
        Convert { recipe, model: self.model, out: self.out, json: self.json }
    }
}
