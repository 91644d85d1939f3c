//! Which numbers each tensor gets: magnitudes under which activations stay of the order of one.
//!
//! Norms are near one. A projection is normal with variance one over its inputs, so that it keeps the
//! size of what it reads. The decay parameters of KDA are spread as its published initialisation
//! spreads them: rates of 1 to 16, and biases that make the slowest channels remember for thousands
//! of tokens. What [`crate::Routing`] needs is laid over that by [`crate::routing`].

use deltafin_spec::{ExpertTensor, GlobalTensor, ModelSpec, SpineTensor, TensorId};

use crate::draw::Draw;
use crate::routing::Wiring;

/// How the elements of a tensor are made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Recipe {
    /// Floats, group after group of equal rows.
    Floats(Vec<Group>),
    /// Nibbles of MXFP4, normal before they were rounded.
    Nibbles,
    /// Scales of MXFP4: this exponent code half of the time, else one of its neighbours.
    Scales {
        /// The middle code.
        code: u8,
    },
}

/// Rows that are made alike.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    /// How many.
    pub(crate) rows: usize,
    /// A row, from its first column to its last.
    pub(crate) pieces: Vec<Piece>,
}

/// Columns that are made alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    /// How many.
    pub(crate) len: usize,
    /// How.
    pub(crate) draw: Draw,
}

impl Group {
    /// Rows of pieces, without those that are empty.
    pub(crate) fn new(rows: usize, pieces: &[(usize, Draw)]) -> Group {
        let full = pieces.iter().filter(|(len, _)| *len > 0);
        Group { rows, pieces: full.map(|&(len, draw)| Piece { len, draw }).collect() }
    }
}

impl Recipe {
    /// All elements alike; `rows` matter to nobody.
    pub(crate) fn even(elements: u64, draw: Draw) -> Recipe {
        Recipe::Floats(vec![Group::new(1, &[(elements as usize, draw)])])
    }
}

/// Spread of norm weights around one.
const NORM: Draw = Draw::Normal { mean: 1.0, deviation: 0.05 };
/// Natural logarithms of the decay rates 1 and 16.
const A_LOG: Draw = Draw::Uniform { low: 0.0, high: 2.772_588_7 };
/// What softplus takes to steps of 0.001 and 0.1.
pub(crate) const DT_BIAS: Draw = Draw::Uniform { low: -6.907_255, high: -2.252_168 };
/// Standard deviation of nibbles before they are rounded to {0, 0.5, 1, 1.5, 2, 3, 4, 6}: the largest
/// of a group of 32 is then most often 4 or 6.
pub(crate) const NIBBLE_DEVIATION: f32 = 2.0;

/// Spread of the embedding: comparable with what a layer adds.
pub(crate) const EMBED: Draw = Draw::Normal { mean: 0.0, deviation: 0.7 };
/// Spread of the bias that selects experts.
const ROUTER_BIAS: Draw = Draw::Normal { mean: 0.0, deviation: 0.05 };

/// The recipe of a tensor.
pub(crate) fn recipe(id: TensorId, spec: &ModelSpec, wiring: &Wiring) -> Recipe {
    if let Some(special) = wiring.recipe(id, spec) {
        return special;
    }
    match id {
        TensorId::Spine(_, role) => spine(role, spec),
        TensorId::Expert(_, _, role) => expert(role, spec),
        TensorId::Global(role) => global(role, spec),
    }
}

fn spine(role: SpineTensor, spec: &ModelSpec) -> Recipe {
    use SpineTensor::*;
    let shape = role.shape(spec);
    let elements = shape.dims().iter().product();
    match role {
        InputNorm | PostAttentionNorm | AttnResNorm | MlpResNorm | KdaOutNorm | MlaQANorm
        | MlaKvANorm | LatentNorm => Recipe::even(elements, NORM),
        KdaALog => {
            let heads = spec.kda.heads;
            let padding = (elements as usize - heads, Draw::around_zero(0.0));
            Recipe::Floats(vec![Group::new(1, &[(heads, A_LOG), padding])])
        }
        KdaDtBias => Recipe::even(elements, DT_BIAS),
        RouterBias => Recipe::even(elements, ROUTER_BIAS),
        // Everything else is a projection of its last dimension.
        _ => Recipe::even(elements, projection(*shape.dims().last().unwrap_or(&1) as usize)),
    }
}

fn global(role: GlobalTensor, spec: &ModelSpec) -> Recipe {
    let elements = role.shape(spec).dims().iter().product();
    match role {
        GlobalTensor::Norm | GlobalTensor::OutputResNorm => Recipe::even(elements, NORM),
        GlobalTensor::Embed => Recipe::even(elements, EMBED),
        GlobalTensor::Head | GlobalTensor::OutputResProj => {
            Recipe::even(elements, projection(spec.hidden))
        }
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

/// Keeps the size of its inputs.
pub(crate) fn projection(inputs: usize) -> Draw {
    scaled(1.0, inputs)
}

/// Multiplies the size of its inputs.
pub(crate) fn scaled(by: f32, inputs: usize) -> Draw {
    Draw::around_zero(by / (inputs.max(1) as f32).sqrt())
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
        let Recipe::Floats(groups) = spine(SpineTensor::KdaALog, &ModelSpec::k3()) else {
            panic!("decay rates are floats");
        };
        let pieces = &groups[0].pieces;
        assert_eq!((pieces[0].len, pieces[1].len), (96, 32));
        assert_eq!(pieces[1].draw, Draw::around_zero(0.0));
    }
}
