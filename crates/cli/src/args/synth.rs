//! `synth`: a checkpoint to measure with.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use deltafin_synth::{Content, Dimensions, Preset, Routing};

use super::size::Positive;

/// Write a synthetic checkpoint in the released layout
///
/// Random weights of realistic magnitudes, the same for the same seed on every machine. For
/// measuring and testing: it has no tokenizer, and what it says means nothing.
#[derive(Args, Debug)]
pub(crate) struct SynthArgs {
    /// Directory to write to; made if it is not there, refused if anything is in it
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// What the dimensions start from
    #[arg(long, value_enum, default_value = "slice")]
    preset: PresetArg,

    /// Write real headers and leave holes for weights, which then read as zeros
    #[arg(long)]
    sparse: bool,

    /// Layers: the first is dense, every fourth and the last attend to everything
    #[arg(long, value_name = "N")]
    layers: Option<Positive>,

    /// Routed experts of a layer
    #[arg(long, value_name = "N")]
    experts: Option<Positive>,

    /// Experts chosen per token
    #[arg(long, value_name = "N")]
    top_k: Option<Positive>,

    /// Token ids there are
    #[arg(long, value_name = "N")]
    vocab: Option<Positive>,

    /// Inner width of the dense layer
    #[arg(long, value_name = "N")]
    dense_width: Option<Positive>,

    /// How unevenly experts are wanted: 0 as chance has it; 0.3 comes near what is published of K3
    #[arg(long, value_name = "X", default_value = "0", value_parser = skew)]
    skew: f32,

    /// How much a token's experts have to do with those of the tokens before it: 0 as chance has it, 1
    /// everything; 0.65 comes near what is published of K3
    #[arg(long, value_name = "X", default_value = "0", value_parser = overlap)]
    overlap: f32,

    /// What the weights are drawn from
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PresetArg {
    /// Four layers of K3's widths with 48 experts each: 7 GB
    Slice,
    /// Six narrow layers of all kinds: 4 MB
    Tiny,
    /// All of K3, vision tensors included: 1.56 TB, or 140 MB with --sparse
    K3,
}

/// A checkpoint to write.
#[derive(Debug)]
pub(crate) struct Synth {
    /// Where to.
    pub(crate) out: PathBuf,
    /// Its dimensions.
    pub(crate) dimensions: Dimensions,
    /// Weights or holes.
    pub(crate) content: Content,
    /// How its router chooses.
    pub(crate) routing: Routing,
    /// What the weights are drawn from.
    pub(crate) seed: u64,
}

impl SynthArgs {
    pub(super) fn meaning(self) -> Synth {
        let count = |typed: Option<Positive>| typed.map(|count| count.0.get());
        let dimensions = Dimensions {
            preset: match self.preset {
                PresetArg::Slice => Preset::Slice,
                PresetArg::Tiny => Preset::Tiny,
                PresetArg::K3 => Preset::K3,
            },
            layers: count(self.layers),
            experts: count(self.experts),
            top_k: count(self.top_k),
            vocab: count(self.vocab),
            dense_width: count(self.dense_width),
        };
        let content = if self.sparse { Content::Holes } else { Content::Weights };
        let routing = Routing { skew: self.skew, overlap: self.overlap };
        Synth { out: self.out, dimensions, content, routing, seed: self.seed }
    }
}

fn skew(typed: &str) -> Result<f32, String> {
    within(typed, 10.0)
}

fn overlap(typed: &str) -> Result<f32, String> {
    within(typed, 1.0)
}

fn within(typed: &str, most: f32) -> Result<f32, String> {
    let number = typed.parse().ok().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("expected a number from 0 to {most}"))
}
