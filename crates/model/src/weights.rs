//! What the forward pass asks for: *this half of layer L's spine* and *these experts*. It never sees a path, a
//! file or a drive; whoever implements [`Weights`] decides where bytes live and when they move.
//!
//! What is needed is said as early as it is known ([`Weights::begin`], [`Weights::demand`],
//! [`Weights::expect`]), so that bytes can move while other work goes on. These are hints: weights
//! that ignore them give the same values, later.

use deltafin_kernels::Matrix;
use deltafin_spec::{ExpertId, LayerId};

/// A source of weights. Implementations may block on reads; they never change values.
pub trait Weights {
    /// Why weights could not be had.
    type Error: std::error::Error + Send + Sync + 'static;
    /// Keeps the attention half of one layer's spine in memory until dropped.
    type Attention<'a>: Lease<AttentionHalf>
    where
        Self: 'a;
    /// Keeps the feed-forward half of one layer's spine in memory until dropped.
    type Ffn<'a>: Lease<FfnHalf>
    where
        Self: 'a;
    /// Keeps the final mix and norm in memory until dropped.
    type Tail<'a>: Lease<Tail>
    where
        Self: 'a;
    /// Keeps the output head in memory until dropped.
    type Head<'a>: Lease<Head>
    where
        Self: 'a;

    /// A pass begins. Whatever an earlier one asked for and did not take is no longer wanted.
    fn begin(&self, _pass: PassPlan) {}

    /// Writes the embedding of `id` (`[hidden]`).
    fn embed(&self, id: u32, out: &mut [f32]) -> Result<(), Self::Error>;

    /// The weights of `layer`'s attention half that every token uses. A pass asks for the halves in turn, and
    /// has given one back before it asks for the next.
    fn attention(&self, layer: LayerId) -> Result<Self::Attention<'_>, Self::Error>;

    /// The weights of `layer`'s feed-forward half that every token uses.
    fn ffn(&self, layer: LayerId) -> Result<Self::Ffn<'_>, Self::Error>;

    /// The feed-forward half of a later layer, if it is at hand now; never waits.
    fn peek(&self, _layer: LayerId) -> Option<Self::Ffn<'_>> {
        None
    }

    /// The final mix and norm.
    fn tail(&self) -> Result<Self::Tail<'_>, Self::Error>;

    /// The output head.
    fn head(&self) -> Result<Self::Head<'_>, Self::Error>;

    /// `ids` (ascending, distinct) of `layer` are needed; [`Weights::experts`] will ask for all of
    /// them, in ascending pieces.
    fn demand(&self, _layer: LayerId, _ids: &[ExpertId]) {}

    /// `ids` of a later `layer` are likely to be needed, most likely first.
    fn expect(&self, _layer: LayerId, _ids: &[ExpertId]) {}

    /// Calls `arrived` once for each of `ids` (ascending, distinct), in whatever order they come.
    fn experts(
        &self,
        layer: LayerId,
        ids: &[ExpertId],
        arrived: &mut dyn FnMut(ExpertId, Expert<'_>),
    ) -> Result<(), Self::Error>;
}

impl<W: Weights> Weights for &W {
    type Error = W::Error;
    type Attention<'a>
        = W::Attention<'a>
    where
        Self: 'a;
    type Ffn<'a>
        = W::Ffn<'a>
    where
        Self: 'a;
    type Tail<'a>
        = W::Tail<'a>
    where
        Self: 'a;
    type Head<'a>
        = W::Head<'a>
    where
        Self: 'a;

    fn begin(&self, pass: PassPlan) {
        W::begin(self, pass);
    }

    fn embed(&self, id: u32, out: &mut [f32]) -> Result<(), W::Error> {
        W::embed(self, id, out)
    }

    fn attention(&self, layer: LayerId) -> Result<W::Attention<'_>, W::Error> {
        W::attention(self, layer)
    }

    fn ffn(&self, layer: LayerId) -> Result<W::Ffn<'_>, W::Error> {
        W::ffn(self, layer)
    }

    fn peek(&self, layer: LayerId) -> Option<W::Ffn<'_>> {
        W::peek(self, layer)
    }

    fn tail(&self) -> Result<W::Tail<'_>, W::Error> {
        W::tail(self)
    }

    fn head(&self) -> Result<W::Head<'_>, W::Error> {
        W::head(self)
    }

    fn demand(&self, layer: LayerId, ids: &[ExpertId]) {
        W::demand(self, layer, ids);
    }

    fn expect(&self, layer: LayerId, ids: &[ExpertId]) {
        W::expect(self, layer, ids);
    }

    fn experts(
        &self,
        layer: LayerId,
        ids: &[ExpertId],
        arrived: &mut dyn FnMut(ExpertId, Expert<'_>),
    ) -> Result<(), W::Error> {
        W::experts(self, layer, ids, arrived)
    }
}

/// Whose ids a pass takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// A prompt's, however few they are.
    Prompt,
    /// A reply's: what was generated.
    Reply,
}

/// What a pass will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassPlan {
    /// What it takes in.
    pub ids: Ids,
    /// Its rows.
    pub rows: usize,
    /// Whether logits will be asked for after it.
    pub head: bool,
}

/// The right to a view of some weights until dropped.
pub trait Lease<V: View> {
    /// The weights.
    fn view(&self) -> V::Of<'_>;
}

/// Names a borrowed view without its lifetime.
pub trait View {
    /// The view for one borrow.
    type Of<'a>;
}

/// [`AttentionView`] for leases.
pub enum AttentionHalf {}
impl View for AttentionHalf {
    type Of<'a> = AttentionView<'a>;
}

/// [`FfnView`] for leases.
pub enum FfnHalf {}
impl View for FfnHalf {
    type Of<'a> = FfnView<'a>;
}

/// [`TailView`] for leases.
pub enum Tail {}
impl View for Tail {
    type Of<'a> = TailView<'a>;
}

/// The output head, `[vocabulary, hidden]`, for leases.
pub enum Head {}
impl View for Head {
    type Of<'a> = Matrix<'a>;
}

/// A small tensor used as a vector. Its bytes may have any alignment.
#[derive(Clone, Copy)]
pub enum Vector<'a> {
    /// Little-endian f32.
    F32(&'a [u8]),
    /// Little-endian bfloat16.
    Bf16(&'a [u8]),
}

impl Vector<'_> {
    /// How many values there are.
    pub fn len(&self) -> usize {
        match self {
            Vector::F32(b) => b.len() / 4,
            Vector::Bf16(b) => b.len() / 2,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the first `out.len()` values as f32, exactly.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn read(&self, out: &mut [f32]) {
        assert!(out.len() <= self.len(), "vector of {} read as {}", self.len(), out.len());
        match self {
            Vector::F32(b) => {
                for (o, c) in out.iter_mut().zip(b.as_chunks::<4>().0) {
                    *o = f32::from_le_bytes(*c);
                }
            }
            Vector::Bf16(b) => {
                for (o, c) in out.iter_mut().zip(b.as_chunks::<2>().0) {
                    *o = f32::from_bits(u32::from(u16::from_le_bytes(*c)) << 16);
                }
            }
        }
    }
}

/// The two vectors of one attention-residual mix; only their product matters.
#[derive(Clone, Copy)]
pub struct ResidualMix<'a> {
    /// `*_res_norm.weight`, `[hidden]`.
    pub norm: Vector<'a>,
    /// `*_res_proj.weight`, `[1, hidden]`.
    pub proj: Vector<'a>,
}

/// The attention half of one layer's spine.
#[derive(Clone, Copy)]
pub struct AttentionView<'a> {
    /// `self_attention_res_*`.
    pub mix: ResidualMix<'a>,
    /// `input_layernorm`, `[hidden]`.
    pub norm: Vector<'a>,
    /// The layer's token mixing.
    pub attention: Attention<'a>,
}

/// The feed-forward half of one layer's spine.
#[derive(Clone, Copy)]
pub struct FfnView<'a> {
    /// `mlp_res_*`.
    pub mix: ResidualMix<'a>,
    /// `post_attention_layernorm`, `[hidden]`.
    pub norm: Vector<'a>,
    /// The layer's channel mixing.
    pub ffn: Ffn<'a>,
}

/// Which attention a layer has.
#[derive(Clone, Copy)]
#[allow(clippy::large_enum_variant)] // A view lives on the stack, one at a time.
pub enum Attention<'a> {
    /// Kimi Delta Attention.
    Kda(Kda<'a>),
    /// Gated multi-head latent attention without positions.
    Mla(Mla<'a>),
}

/// Kimi Delta Attention. `C` = heads × head dimension.
#[derive(Clone, Copy)]
pub struct Kda<'a> {
    /// `q_proj`, `k_proj`, `v_proj`: `[C, hidden]` each.
    pub qkv: [Matrix<'a>; 3],
    /// `q_conv1d`, `k_conv1d`, `v_conv1d`: `[C, 1, taps]` each.
    pub conv: [Vector<'a>; 3],
    /// `f_a_proj`, `[rank, hidden]`: the decay's low-rank input half.
    pub f_a: Matrix<'a>,
    /// `f_b_proj`, `[C, rank]`: the decay's output half.
    pub f_b: Matrix<'a>,
    /// `b_proj`, `[heads, hidden]`: the write strength.
    pub beta: Matrix<'a>,
    /// `A_log`, at least `[heads]`: stored padded, one value per head is used.
    pub a_log: Vector<'a>,
    /// `dt_bias`, `[C]`.
    pub dt_bias: Vector<'a>,
    /// `g_proj`, `[C, hidden]`: the output gate.
    pub gate: Matrix<'a>,
    /// `o_norm`, `[head dimension]`, shared by the heads.
    pub o_norm: Vector<'a>,
    /// `o_proj`, `[hidden, C]`.
    pub output: Matrix<'a>,
}

/// Gated multi-head latent attention.
#[derive(Clone, Copy)]
pub struct Mla<'a> {
    /// `q_a_proj`, `[q rank, hidden]`.
    pub q_a: Matrix<'a>,
    /// `q_a_layernorm`, `[q rank]`.
    pub q_norm: Vector<'a>,
    /// `q_b_proj`, `[heads × (nope + rope), q rank]`.
    pub q_b: Matrix<'a>,
    /// `kv_a_proj_with_mqa`, `[latent + rope, hidden]`.
    pub kv_a: Matrix<'a>,
    /// `kv_a_layernorm`, `[latent]`.
    pub kv_norm: Vector<'a>,
    /// `kv_b_proj`, `[heads × (nope + v), latent]`: used absorbed, never to expand the cache.
    pub kv_b: Matrix<'a>,
    /// `g_proj`, `[heads × v, hidden]`: gates the attention output.
    pub gate: Matrix<'a>,
    /// `o_proj`, `[hidden, heads × v]`.
    pub output: Matrix<'a>,
}

/// Which feed-forward a layer has.
#[derive(Clone, Copy)]
#[allow(clippy::large_enum_variant)] // A view lives on the stack, one at a time.
pub enum Ffn<'a> {
    /// One gated MLP.
    Dense(Glu<'a>),
    /// Latent mixture of experts.
    Moe(Moe<'a>),
}

/// A gated MLP: `down · situ(gate·x, up·x)`.
#[derive(Clone, Copy)]
pub struct Glu<'a> {
    /// `[width, in]`.
    pub gate: Matrix<'a>,
    /// `[width, in]`.
    pub up: Matrix<'a>,
    /// `[out, width]`.
    pub down: Matrix<'a>,
}

/// A routed expert: a gated MLP in the latent space (`w1` gate, `w3` up, `w2` down).
pub type Expert<'a> = Glu<'a>;

/// The part of a latent mixture of experts that every token uses.
#[derive(Clone, Copy)]
pub struct Moe<'a> {
    /// `gate.weight`, `[experts, hidden]`.
    pub router: Matrix<'a>,
    /// `gate.e_score_correction_bias`, `[experts]`: selects, never weighs.
    pub correction: Vector<'a>,
    /// `routed_expert_down_proj`, `[latent, hidden]`.
    pub to_latent: Matrix<'a>,
    /// `routed_expert_norm`, `[latent]`; absent when the checkpoint has none.
    pub latent_norm: Option<Vector<'a>>,
    /// `routed_expert_up_proj`, `[hidden, latent]`.
    pub from_latent: Matrix<'a>,
    /// The shared experts, stored as one.
    pub shared: Glu<'a>,
}

/// What turns the last layer's sums into the final hidden rows.
#[derive(Clone, Copy)]
pub struct TailView<'a> {
    /// `output_attn_res_*`.
    pub mix: ResidualMix<'a>,
    /// `model.norm`, `[hidden]`.
    pub norm: Vector<'a>,
}
