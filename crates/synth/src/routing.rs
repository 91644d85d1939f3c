//! A router whose choices are as uneven and as persistent as a trained one's.
//!
//! *Skew*: the bias that selects experts is exponential, so that a few experts are wanted everywhere.
//!
//! *Overlap*: part of what the router reads changes slowly. The first columns of the residual stream
//! are constant: every embedding has the same value there and no layer writes to them. The first heads
//! of each KDA layer make their keys and queries from these columns alone, so both always point the
//! same way, and the delta rule becomes a moving average of the head's values; its normalised output
//! goes to the columns behind the constant ones, which nobody else writes to. The router weighs those
//! slow columns against all the others.
//!
//! ```text
//!   columns of the residual stream   | constant |  slow  | all the rest |
//!   written by                         embedding  slow     embedding, the other heads,
//!                                                 heads    feed-forward
//! ```

use deltafin_spec::{GlobalTensor, ModelSpec, SpineTensor, TensorId};

use crate::draw::Draw;
use crate::recipe::{DT_BIAS, EMBED, Group, Recipe, projection, scaled};

/// How a router chooses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Routing {
    /// Spread of the experts' popularity, in spreads of a token's own preferences; 0 leaves it to
    /// chance, which makes all nearly equally popular.
    pub skew: f32,
    /// The share of a token's preferences that it has in common with the tokens before it, 0 to 1; 0
    /// leaves all weights to chance.
    pub overlap: f32,
}

impl Routing {
    /// As random weights route.
    pub const EVEN: Routing = Routing { skew: 0.0, overlap: 0.0 };
    /// What comes near the figures published for K3 where there are as many experts as in K3.
    pub const LIKE_K3: Routing = Routing { skew: 0.3, overlap: 0.65 };
}

/// One in so many columns is constant.
const CONSTANT_PART: usize = 64;
/// One in so many columns is slow, and so is one in so many heads.
const SLOW_PART: usize = 8;
/// The value of the constant columns.
const CONSTANT: f32 = 2.0;
/// What is written where nothing should be: little, but not zero.
const FAINT: f32 = 0.05;
/// What the slow heads' keys, queries and gates read from the constant columns, before a sigmoid.
const STEADY: f32 = 3.0;
/// The same for their write strength: an average over some eight tokens.
const WRITE: f32 = -1.7;
/// Spread of the slow heads' values: so small that their mean, which is no news, is smaller still.
const VALUE_DEVIATION: f32 = 0.2;
/// Biases under which the slow heads do not decay on their own.
const NO_DECAY: Draw = Draw::Normal { mean: -6.9, deviation: 0.05 };
/// The slope of the sigmoid where most logits are, which takes spreads of logits to those of scores.
const SLOPE: f32 = 0.21;

/// A routing, for the widths of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wiring {
    routing: Routing,
    constant: usize,
    slow: usize,
    /// Channels of the slow heads.
    channels: usize,
    heads: usize,
}

impl Wiring {
    pub(crate) fn new(routing: Routing, spec: &ModelSpec) -> Wiring {
        // Four numbers come from one random word.
        let constant = (spec.hidden / CONSTANT_PART).next_multiple_of(4).min(spec.hidden / 4 * 4);
        let left = spec.hidden - constant;
        let slow = (spec.hidden / SLOW_PART).next_multiple_of(4).min(left / 4 * 4);
        let heads = (spec.kda.heads / SLOW_PART).max(1);
        Wiring { routing, constant, slow, channels: heads * spec.kda.head_dim, heads }
    }

    /// The recipe of a tensor that has a part in this.
    pub(crate) fn recipe(&self, id: TensorId, spec: &ModelSpec) -> Option<Recipe> {
        match id {
            TensorId::Spine(_, SpineTensor::RouterBias) if self.routing.skew > 0.0 => {
                let deviation = SLOPE * self.routing.skew;
                Some(Recipe::even(spec.moe.experts as u64, Draw::Exponential { deviation }))
            }
            _ if self.routing.overlap <= 0.0 => None,
            TensorId::Spine(_, role) => self.spine(role, spec),
            TensorId::Global(GlobalTensor::Embed) => Some(self.embedding(spec)),
            TensorId::Global(_) | TensorId::Expert(..) => None,
        }
    }

    fn spine(&self, role: SpineTensor, spec: &ModelSpec) -> Option<Recipe> {
        use SpineTensor::*;
        Some(match role {
            KdaQ | KdaK | KdaGate => self.read(spec, self.channels, spec.kda.channels(), STEADY),
            KdaBeta => self.read(spec, self.heads, spec.kda.heads, WRITE),
            KdaV => self.values(spec),
            KdaQConv | KdaKConv | KdaVConv => self.taps(spec),
            KdaDtBias => {
                let rest = spec.kda.channels() - self.channels;
                Recipe::Floats(vec![Group::new(1, &[(self.channels, NO_DECAY), (rest, DT_BIAS)])])
            }
            KdaOut => self.output(spec),
            MlaOut => self.write(spec, spec.mla.out_width()),
            DenseDown => self.write(spec, spec.dense_width),
            SharedDown => self.write(spec, spec.moe.shared_width()),
            LatentUp => self.write(spec, spec.moe.latent),
            Router => self.router(spec),
            _ => return None,
        })
    }

    fn reserved(&self) -> usize {
        self.constant + self.slow
    }

    fn embedding(&self, spec: &ModelSpec) -> Recipe {
        let constant = Draw::Normal { mean: CONSTANT, deviation: FAINT };
        let rest = (spec.hidden - self.reserved(), EMBED);
        let slow = (self.slow, Draw::around_zero(FAINT));
        Recipe::Floats(vec![Group::new(spec.vocab, &[(self.constant, constant), slow, rest])])
    }

    /// A matrix over the stream whose first rows read the constant columns.
    fn read(&self, spec: &ModelSpec, slow_rows: usize, rows: usize, steady: f32) -> Recipe {
        let mean = steady / (CONSTANT * self.constant as f32);
        let constant = Draw::Normal { mean, deviation: 0.0 };
        let rest = (spec.hidden - self.constant, scaled(FAINT, spec.hidden));
        let usual = Group::new(rows - slow_rows, &[(spec.hidden, projection(spec.hidden))]);
        Recipe::Floats(vec![Group::new(slow_rows, &[(self.constant, constant), rest]), usual])
    }

    /// The slow heads average what is new about a token.
    fn values(&self, spec: &ModelSpec) -> Recipe {
        let nothing = (self.reserved(), Draw::around_zero(0.0));
        let rest = spec.hidden - self.reserved();
        let new = (rest, scaled(VALUE_DEVIATION, spec.hidden));
        let rows = spec.kda.channels() - self.channels;
        let usual = Group::new(rows, &[(spec.hidden, projection(spec.hidden))]);
        Recipe::Floats(vec![Group::new(self.channels, &[nothing, new]), usual])
    }

    /// The slow heads' taps are positive, lest they turn a key around.
    fn taps(&self, spec: &ModelSpec) -> Recipe {
        let taps = spec.kda.conv_kernel;
        let share = 1.0 / (taps as f32).sqrt();
        let positive = Draw::Normal { mean: share, deviation: 0.1 * share };
        let rest = (spec.kda.channels() - self.channels) * taps;
        let pieces = [(self.channels * taps, positive), (rest, projection(taps))];
        Recipe::Floats(vec![Group::new(1, &pieces)])
    }

    /// The slow heads alone write to the slow columns, and nowhere else.
    fn output(&self, spec: &ModelSpec) -> Recipe {
        let rest = spec.kda.channels() - self.channels;
        let faint = |inputs| scaled(FAINT, inputs);
        let (all, own) = (spec.kda.channels(), self.channels);
        let constant = Group::new(self.constant, &[(all, faint(all))]);
        let slow = Group::new(self.slow, &[(own, projection(own)), (rest, faint(rest))]);
        let usual = [(own, faint(own)), (rest, projection(rest))];
        let usual = Group::new(spec.hidden - self.reserved(), &usual);
        Recipe::Floats(vec![constant, slow, usual])
    }

    /// A matrix into the stream that leaves the constant and the slow columns alone.
    fn write(&self, spec: &ModelSpec, inputs: usize) -> Recipe {
        let reserved = Group::new(self.reserved(), &[(inputs, scaled(FAINT, inputs))]);
        let rows = spec.hidden - self.reserved();
        Recipe::Floats(vec![reserved, Group::new(rows, &[(inputs, projection(inputs))])])
    }

    fn router(&self, spec: &ModelSpec) -> Recipe {
        let overlap = self.routing.overlap.clamp(0.0, 1.0);
        let share =
            |part: f32, columns: usize| Draw::around_zero((part / columns.max(1) as f32).sqrt());
        let rest = spec.hidden - self.reserved();
        let pieces = [
            (self.constant, Draw::around_zero(0.0)),
            (self.slow, share(overlap, self.slow)),
            (rest, share(1.0 - overlap, rest)),
        ];
        Recipe::Floats(vec![Group::new(spec.moe.experts, &pieces)])
    }
}
