//! The files of a pack and the order of their tensors.

use std::fmt;

use deltafin_spec::{GlobalTensor, LayerId, ModelSpec, SpineTensor, TensorId};

/// What one file of a pack holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PackPart {
    /// The spine of a layer.
    Layer(LayerId),
    /// The tensors after the last layer.
    Head,
}

/// Displays the part for messages.
impl fmt::Display for PackPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackPart::Layer(layer) => write!(f, "layer {layer}"),
            PackPart::Head => f.write_str("the head"),
        }
    }
}

const HEAD_FILE: &str = "head.spine";

impl PackPart {
    /// The parts of a model, in the order of a pass.
    pub fn all(spec: &ModelSpec) -> impl Iterator<Item = PackPart> + use<> {
        spec.layer_ids().map(PackPart::Layer).chain([PackPart::Head])
    }

    /// The file's name in its folder.
    pub fn file_name(self) -> String {
        match self {
            PackPart::Layer(layer) => format!("layer-{:03}.spine", layer.number()),
            PackPart::Head => HEAD_FILE.to_owned(),
        }
    }

    /// The part whose file has exactly this name.
    pub fn of_file(name: &str) -> Option<PackPart> {
        if name == HEAD_FILE {
            return Some(PackPart::Head);
        }
        let number = name.strip_prefix("layer-")?.strip_suffix(".spine")?;
        let part = PackPart::Layer(LayerId::new(number.parse().ok()?));
        (part.file_name() == name).then_some(part)
    }

    /// The part's tensors in the order a pass uses them.
    pub fn tensors(self, spec: &ModelSpec) -> Vec<TensorId> {
        let layer = match self {
            PackPart::Head => return HEAD_ORDER.map(TensorId::Global).to_vec(),
            PackPart::Layer(layer) => layer,
        };
        let kind = spec.layer(layer);
        let has = |role: &SpineTensor| role.belongs_to(kind, spec.moe.latent_norm);
        LAYER_ORDER.into_iter().filter(has).map(|role| TensorId::Spine(layer, role)).collect()
    }
}

const HEAD_ORDER: [GlobalTensor; 4] = [
    GlobalTensor::OutputResNorm,
    GlobalTensor::OutputResProj,
    GlobalTensor::Norm,
    GlobalTensor::Head,
];

/// The attention half, then the feed-forward half.
const LAYER_ORDER: [SpineTensor; 39] = {
    use SpineTensor::*;
    [
        AttnResNorm,
        AttnResProj,
        InputNorm,
        KdaQ,
        KdaK,
        KdaV,
        KdaQConv,
        KdaKConv,
        KdaVConv,
        KdaDecayA,
        KdaDecayB,
        KdaALog,
        KdaDtBias,
        KdaBeta,
        KdaGate,
        KdaOutNorm,
        KdaOut,
        MlaQA,
        MlaQANorm,
        MlaQB,
        MlaKvA,
        MlaKvANorm,
        MlaKvB,
        MlaGate,
        MlaOut,
        MlpResNorm,
        MlpResProj,
        PostAttentionNorm,
        DenseGate,
        DenseUp,
        DenseDown,
        Router,
        RouterBias,
        LatentDown,
        LatentNorm,
        LatentUp,
        SharedGate,
        SharedUp,
        SharedDown,
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tensor_but_the_embedding_has_its_turn() {
        let mut roles = LAYER_ORDER.to_vec();
        roles.sort_unstable();
        assert_eq!(roles, SpineTensor::ALL);
        assert_eq!(HEAD_ORDER.len() + 1, GlobalTensor::ALL.len());
        assert!(!HEAD_ORDER.contains(&GlobalTensor::Embed));
    }

    #[test]
    fn file_names_are_exact() {
        for part in PackPart::all(&ModelSpec::k3()) {
            assert_eq!(PackPart::of_file(&part.file_name()), Some(part));
        }
        for name in ["layer-1.spine", "layer-0001.spine", "layer-+01.spine", "../head.spine", ""] {
            assert_eq!(PackPart::of_file(name), None, "{name}");
        }
        assert_eq!(PackPart::Layer(LayerId::new(1234)).file_name(), "layer-1234.spine");
    }
}
