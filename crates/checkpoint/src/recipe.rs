//! How a spine is represented: the one choice about weights that may change a logit's bits.

use std::fmt;

use deltafin_spec::{GlobalTensor, SpineTensor, TensorId};

/// A representation of the spine and the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Recipe {
    /// The released bits.
    #[default]
    Bf16,
    /// Large matrices as signed bytes with one half-precision scale per row; all else as released.
    Int8,
}

impl Recipe {
    /// Every recipe.
    pub const ALL: [Recipe; 2] = [Recipe::Bf16, Recipe::Int8];

    /// The name in manifests, statistics and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Recipe::Bf16 => "bf16",
            Recipe::Int8 => "int8",
        }
    }

    /// The recipe with this name.
    pub fn parse(name: &str) -> Option<Recipe> {
        Recipe::ALL.into_iter().find(|recipe| recipe.name() == name)
    }

    /// Whether the recipe stores a tensor as bytes with scales. What chooses (the router), what is
    /// small, and the embedding, of which one row is read per token, stay as released.
    pub fn quantizes(self, tensor: TensorId) -> bool {
        let is_large = match tensor {
            TensorId::Spine(_, role) => is_large(role),
            TensorId::Global(role) => role == GlobalTensor::Head,
            TensorId::Expert(..) => false,
        };
        self == Recipe::Int8 && is_large
    }
}

/// Whether a tensor of a layer is one of the matrices that its bytes are spent on.
fn is_large(role: SpineTensor) -> bool {
    use SpineTensor::*;
    match role {
        KdaQ | KdaK | KdaV | KdaGate | KdaOut | KdaDecayA | KdaDecayB | MlaQA | MlaQB | MlaKvA
        | MlaKvB | MlaGate | MlaOut | DenseGate | DenseUp | DenseDown | LatentDown | LatentUp
        | SharedGate | SharedUp | SharedDown => true,
        InputNorm | PostAttentionNorm | AttnResNorm | AttnResProj | MlpResNorm | MlpResProj
        | KdaQConv | KdaKConv | KdaVConv | KdaBeta | KdaALog | KdaDtBias | KdaOutNorm
        | MlaQANorm | MlaKvANorm | Router | RouterBias | LatentNorm => false,
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
