//! Which model: a preset, and what is changed about it.

use deltafin_spec::{
    ExpertTensor, FfnKind, KdaSpec, LayerKind, LayerSpec, MlaSpec, ModelSpec, MoeSpec, SpecError,
    check_layer_count,
};

/// Tensors of experts that a plan may list: K3 has half a million of them, and each takes some hundred
/// bytes of memory before anything is written.
const EXPERT_TENSORS_MAX: u64 = 1 << 21;

/// What the dimensions start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Four layers of K3's widths with few experts, a narrow dense layer and a small vocabulary:
    /// what a machine does with K3, in 7 GB.
    Slice,
    /// Five narrow layers of all kinds, a few MB: for tests.
    Tiny,
    /// The released dimensions, vision tensors included.
    K3,
}

/// A preset and what is changed about it.
#[derive(Clone, Copy, Debug)]
pub struct Dimensions {
    /// Where to start.
    pub preset: Preset,
    /// Layers, the first one dense, every fourth and the last one MLA.
    pub layers: Option<usize>,
    /// Routed experts of a layer.
    pub experts: Option<usize>,
    /// Experts chosen per token.
    pub top_k: Option<usize>,
    /// Rows of the embedding table and of the head.
    pub vocab: Option<usize>,
    /// Inner width of the dense layer.
    pub dense_width: Option<usize>,
}

impl Dimensions {
    /// A preset as it is.
    pub fn of(preset: Preset) -> Dimensions {
        let (layers, experts, top_k, vocab, dense_width) = (None, None, None, None, None);
        Dimensions { preset, layers, experts, top_k, vocab, dense_width }
    }

    /// The model, checked.
    pub fn spec(&self) -> Result<ModelSpec, SpecError> {
        let mut spec = preset(self.preset);
        if let Some(count) = self.layers {
            check_layer_count(count)?;
            spec.layers = (0..count).map(|index| layer(index, count)).collect();
        }
        let changes = [
            (&mut spec.moe.experts, self.experts),
            (&mut spec.moe.top_k, self.top_k),
            (&mut spec.vocab, self.vocab),
            (&mut spec.dense_width, self.dense_width),
        ];
        for (dimension, wanted) in changes {
            *dimension = wanted.unwrap_or(*dimension);
        }
        spec.check()?;
        check_plan(&spec)?;
        Ok(spec)
    }
}

/// A model that is possible may still be too much to plan.
fn check_plan(spec: &ModelSpec) -> Result<(), SpecError> {
    let layers = spec.count_ffn(FfnKind::Moe).max(1) as u64;
    let most = EXPERT_TENSORS_MAX / (layers * ExpertTensor::ALL.len() as u64);
    if spec.moe.experts as u64 <= most {
        return Ok(());
    }
    let (field, found) = ("num_experts", spec.moe.experts.to_string());
    let wanted = format!("at most {most} in each of {layers} layers");
    Err(SpecError { field, found, wanted })
}

fn preset(preset: Preset) -> ModelSpec {
    let k3 = ModelSpec::k3();
    let layers = |count| (0..count).map(|index| layer(index, count)).collect();
    match preset {
        Preset::K3 => k3,
        Preset::Slice => ModelSpec {
            vocab: 4096,
            layers: layers(4),
            dense_width: 8192,
            moe: MoeSpec { experts: 48, ..k3.moe },
            ..k3
        },
        Preset::Tiny => ModelSpec {
            hidden: 128,
            vocab: 512,
            attn_res_block: 2,
            max_positions: 1 << 16,
            layers: layers(6),
            kda: KdaSpec { heads: 4, head_dim: 32, ..k3.kda },
            mla: MlaSpec {
                heads: 4,
                qk_nope: 32,
                qk_rope: 16,
                v_head: 32,
                q_lora: 48,
                kv_lora: 32,
            },
            dense_width: 256,
            moe: MoeSpec { experts: 64, top_k: 8, latent: 64, width: 64, ..k3.moe },
            ..k3
        },
    }
}

/// As in K3: the first layer is dense, every fourth one is MLA and so is the last.
fn layer(index: usize, count: usize) -> LayerSpec {
    let full = index % 4 == 3 || (index > 0 && index + 1 == count);
    LayerSpec {
        attention: if full { LayerKind::Mla } else { LayerKind::Kda },
        ffn: if index == 0 { FfnKind::Dense } else { FfnKind::Moe },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_of_k3_are_its_own() {
        let all = Dimensions { layers: Some(93), ..Dimensions::of(Preset::K3) };
        assert_eq!(all.spec().unwrap(), ModelSpec::k3());
    }

    #[test]
    fn the_slice_has_one_mla_layer_and_the_tiny_one_all_kinds() {
        let slice = Dimensions::of(Preset::Slice).spec().unwrap();
        assert_eq!(slice.count_attention(LayerKind::Mla), 1);
        assert_eq!((slice.hidden, slice.moe.experts, slice.vocab), (7168, 48, 4096));
        let tiny = Dimensions::of(Preset::Tiny).spec().unwrap();
        assert_eq!((tiny.count_attention(LayerKind::Mla), tiny.count_ffn(FfnKind::Dense)), (2, 1));
        assert!(tiny.total_bytes() < 8 << 20, "{}", tiny.total_bytes());
    }

    #[test]
    fn impossible_dimensions_are_named() {
        let dims = Dimensions { top_k: Some(49), ..Dimensions::of(Preset::Slice) };
        assert!(dims.spec().unwrap_err().to_string().contains("num_experts_per_token is 49"));
    }

    #[test]
    fn more_than_can_be_listed_is_refused_before_a_list_is_made() {
        for layers in [usize::MAX, 1 << 32, 1 << 13] {
            let dims = Dimensions { layers: Some(layers), ..Dimensions::of(Preset::Tiny) };
            assert_eq!(dims.spec().unwrap_err().field, "num_hidden_layers", "{layers}");
        }
        let (layers, experts) = (Some(100), Some(1 << 16));
        let dims = Dimensions { layers, experts, ..Dimensions::of(Preset::Tiny) };
        assert_eq!(dims.spec().unwrap_err().field, "num_experts");
    }
}
