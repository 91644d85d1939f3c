//! What a sequence leaves behind for its next token.

mod latent;
mod recurrent;

pub use recurrent::Recurrent;

use deltafin_spec::{KdaSpec, LayerKind, MlaSpec, ModelSpec};

/// The state of a sequence after its first [`State::len`] tokens.
///
/// Sizes in values: a KDA layer keeps heads × dim × dim of associations and (taps − 1) × 3 × channels
/// of convolution history, whatever the length; an MLA layer keeps latent + rope per position.
#[derive(Clone)]
pub struct State {
    layers: Vec<LayerState>,
    len: usize,
    capacity: usize,
    /// Positions, ascending, at which the recurrent part is wanted.
    marks: Vec<Recurrent>,
}

/// One layer's part.
#[derive(Clone)]
pub enum LayerState {
    /// Fixed size.
    Kda(KdaState),
    /// Grows with the sequence.
    Mla(LatentCache),
}

/// Kimi Delta Attention's memory.
#[derive(Clone)]
pub struct KdaState {
    /// Associations, `[heads, dim (keys), dim (values)]`.
    pub associations: Vec<f32>,
    /// The last rows before the convolution of q, k and v, `[taps − 1, channels]` each, oldest first.
    pub history: [Vec<f32>; 3],
}

/// The latent cache. Rows at and after the state's length are undefined.
#[derive(Clone)]
pub struct LatentCache {
    /// Normed latents, `[capacity, latent]`.
    pub latent: Vec<f32>,
    /// The position-free shared key part, `[capacity, rope]`.
    pub rope: Vec<f32>,
}

impl State {
    /// An empty state with room for `capacity` positions. Pages of the latent cache are touched
    /// only when positions are written, so a large capacity costs address space, not memory.
    pub fn new(spec: &ModelSpec, capacity: usize) -> State {
        let layers = spec
            .layers
            .iter()
            .map(|layer| match layer.attention {
                LayerKind::Kda => LayerState::Kda(KdaState::new(&spec.kda)),
                LayerKind::Mla => LayerState::Mla(LatentCache::new(&spec.mla, capacity)),
            })
            .collect();
        State { layers, len: 0, capacity, marks: Vec::new() }
    }

    /// The bytes of a state with room for `capacity` positions, all of them in use.
    pub fn bytes(spec: &ModelSpec, capacity: usize) -> u64 {
        let per_position = spec.mla_cache_values() * capacity as u64 * 4;
        per_position.saturating_add(spec.kda_state_bytes() + spec.kda_conv_bytes())
    }

    /// How many tokens it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many tokens it has room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The layers' parts, first to last.
    pub fn layers(&self) -> &[LayerState] {
        &self.layers
    }

    /// Forgets everything, marks too, and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
        self.marks.clear();
        for layer in &mut self.layers {
            if let LayerState::Kda(kda) = layer {
                kda.associations.fill(0.0);
                kda.history.iter_mut().for_each(|h| h.fill(0.0));
            }
        }
    }

    pub(crate) fn layer_mut(&mut self, index: usize) -> &mut LayerState {
        &mut self.layers[index]
    }

    pub(crate) fn commit(&mut self, rows: usize) {
        self.len += rows;
        debug_assert!(self.len <= self.capacity);
    }
}

impl KdaState {
    fn new(spec: &KdaSpec) -> KdaState {
        let history = || vec![0.0; (spec.conv_kernel - 1) * spec.channels()];
        KdaState {
            associations: vec![0.0; spec.heads * spec.head_dim * spec.head_dim],
            history: [history(), history(), history()],
        }
    }
}

impl LatentCache {
    fn new(spec: &MlaSpec, capacity: usize) -> LatentCache {
        LatentCache {
            latent: vec![0.0; capacity * spec.kv_lora],
            rope: vec![0.0; capacity * spec.qk_rope],
        }
    }
}
