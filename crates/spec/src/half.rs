//! The two halves of a layer.

use crate::SpineTensor;

/// A half of a layer: each mixes, norms, computes and adds to the running sum, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Half {
    /// Between tokens.
    Attention,
    /// Between channels.
    Ffn,
}

impl Half {
    /// Both, in the order of a pass.
    pub const ALL: [Half; 2] = [Half::Attention, Half::Ffn];
}

impl SpineTensor {
    /// The half that uses the tensor.
    pub const fn half(self) -> Half {
        use SpineTensor::*;
        match self {
            InputNorm | AttnResNorm | AttnResProj | KdaQ | KdaK | KdaV | KdaQConv | KdaKConv
            | KdaVConv | KdaDecayA | KdaDecayB | KdaBeta | KdaALog | KdaDtBias | KdaGate
            | KdaOutNorm | KdaOut | MlaQA | MlaQANorm | MlaQB | MlaKvA | MlaKvANorm | MlaKvB
            | MlaGate | MlaOut => Half::Attention,
            PostAttentionNorm | MlpResNorm | MlpResProj | DenseGate | DenseUp | DenseDown
            | Router | RouterBias | LatentDown | LatentNorm | LatentUp | SharedGate | SharedUp
            | SharedDown => Half::Ffn,
        }
    }
}
