//! Which numbers each tensor gets: magnitudes under which activations stay of the order of one.
//!
//! Norms are near one. A projection is normal with variance one over its inputs, so that it keeps the
//! size of what it reads. The decay parameters of KDA are spread as its published initialisation
//! spreads them: rates of 1 to 16, and biases that make the slowest channels remember for thousands
//! of tokens.

use deltafin_spec::{ExpertTensor, GlobalTensor, ModelSpec, SpineTensor, TensorId};

/// How the numbers of a tensor are drawn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Recipe {
    /// Normal.
    Normal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        deviation: f32,
    },
    /// The first `count` evenly spread, the rest zero.
    Uniform {
        /// Where they begin.
        low: f32,
        /// Where they end.
        high: f32,
        /// How many there are.
        count: usize,
    },
    /// Nibbles of MXFP4, normal before they were rounded.
    Nibbles,
    /// Scales of MXFP4: this exponent code half of the time, else one of its neighbours.
    Scales {
        /// The middle code.
        code: u8,
    },
}

/// Spread of norm weights around one.
const NORM_DEVIATION: f32 = 0.05;
/// Spread of the embedding: comparable with what a layer adds.
const EMBED_DEVIATION: f32 = 0.7;
/// Spread of the bias that selects experts.
const ROUTER_BIAS_DEVIATION: f32 = 0.05;
/// Natural logarithms of the decay rates 1 and 16.
const A_LOG: (f32, f32) = (0.0, 2.772_588_7);
/// What softplus takes to steps of 0.001 and 0.1.
const DT_BIAS: (f32, f32) = (-6.907_255, -2.252_168);
/// Standard deviation of nibbles before they are rounded to {0, 0.5, 1, 1.5, 2, 3, 4, 6}: the largest
/// of a group of 32 is then most often 4 or 6.
pub(crate) const NIBBLE_DEVIATION: f32 = 2.0;

/// The recipe of a tensor.
pub(crate) fn recipe(id: TensorId, spec: &ModelSpec) -> Recipe {
    match id {
        TensorId::Spine(_, role) => spine(role, spec),
        TensorId::Expert(_, _, role) => expert(role, spec),
        TensorId::Global(role) => global(role, spec),
    }
}

fn spine(role: SpineTensor, spec: &ModelSpec) -> Recipe {
    use SpineTensor::*;
    let uniform = |(low, high), count| Recipe::Uniform { low, high, count };
    match role {
        InputNorm | PostAttentionNorm | AttnResNorm | MlpResNorm | KdaOutNorm | MlaQANorm
        | MlaKvANorm | LatentNorm => norm(),
        KdaALog => uniform(A_LOG, spec.kda.heads),
        KdaDtBias => uniform(DT_BIAS, spec.kda.channels()),
        RouterBias => Recipe::Normal { mean: 0.0, deviation: ROUTER_BIAS_DEVIATION },
        // Everything else is a projection of its last dimension.
        _ => projection(*role.shape(spec).dims().last().unwrap_or(&1)),
    }
}

fn global(role: GlobalTensor, spec: &ModelSpec) -> Recipe {
    match role {
        GlobalTensor::Norm | GlobalTensor::OutputResNorm => norm(),
        GlobalTensor::Embed => Recipe::Normal { mean: 0.0, deviation: EMBED_DEVIATION },
        GlobalTensor::Head | GlobalTensor::OutputResProj => projection(spec.hidden as u64),
    }
}

fn expert(role: ExpertTensor, spec: &ModelSpec) -> Recipe {
    use ExpertTensor::*;
    match role {
        W1Packed | W2Packed | W3Packed => Recipe::Nibbles,
        W1Scale | W3Scale => Recipe::Scales { code: scale_code(spec.moe.latent) },
        W2Scale => Recipe::Scales { code: scale_code(spec.moe.width) },
    }
}

fn norm() -> Recipe {
    Recipe::Normal { mean: 1.0, deviation: NORM_DEVIATION }
}

fn projection(inputs: u64) -> Recipe {
    Recipe::Normal { mean: 0.0, deviation: (inputs as f32).sqrt().recip() }
}

/// The exponent code under which nibbles come nearest to the variance of a projection of `inputs`.
fn scale_code(inputs: usize) -> u8 {
    // A code, its half and its double, twice as often as each neighbour: 25/16 of its square.
    let mean_square = 25.0 / 16.0 * NIBBLE_DEVIATION * NIBBLE_DEVIATION * inputs as f32;
    let halvings = (0..64).take_while(|&n| mean_square > (1u128 << (2 * n + 1)) as f32).count();
    127 - halvings as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_keep_the_size_of_what_is_read() {
        for inputs in [64, 3072, 3584] {
            let scale = (-f32::from(127 - scale_code(inputs))).exp2();
            let square = 25.0 / 16.0 * (NIBBLE_DEVIATION * scale).powi(2) * inputs as f32;
            assert!((0.5..=2.0).contains(&square), "{inputs}: {square}");
        }
    }

    #[test]
    fn the_padding_of_the_decay_rates_stays_zero() {
        let spec = ModelSpec::k3();
        let Recipe::Uniform { count, .. } = spine(SpineTensor::KdaALog, &spec) else {
            panic!("decay rates are spread evenly");
        };
        assert_eq!(count, 96);
    }
}
