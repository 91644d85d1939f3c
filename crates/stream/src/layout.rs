//! What is set aside for what.

use deltafin_spec::ModelSpec;

/// What is read before it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefetch {
    /// Nothing but the spine, whose order is known.
    Off,
    /// The experts that the previous token used in a layer.
    Prev,
    /// The experts that the next layer's router would choose now.
    Lookahead,
    /// The router's choices, which are right about twice as often; the previous token's where the next
    /// layer's router is not in memory.
    #[default]
    Auto,
}

impl Prefetch {
    /// Every kind.
    pub const ALL: [Prefetch; 4] =
        [Prefetch::Off, Prefetch::Prev, Prefetch::Lookahead, Prefetch::Auto];

    /// The word for flags and statistics.
    pub fn name(self) -> &'static str {
        match self {
            Prefetch::Off => "off",
            Prefetch::Prev => "prev",
            Prefetch::Lookahead => "lookahead",
            Prefetch::Auto => "auto",
        }
    }

    pub(crate) fn follows_the_router(self) -> bool {
        matches!(self, Prefetch::Lookahead | Prefetch::Auto)
    }

    pub(crate) fn follows_the_previous_token(self) -> bool {
        matches!(self, Prefetch::Prev | Prefetch::Auto)
    }
}

/// How memory is divided. A *unit* is a layer's spine, of two halves; the output head is one more, the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Which units stay in memory once read, one entry per unit.
    pub resident: Vec<bool>,
    /// Bytes for the units that do not stay; at least the largest of them.
    pub stream_bytes: usize,
    /// Experts that memory is set aside for; at least one.
    pub expert_slots: usize,
    /// Bytes of a slot, at least [`crate::expert_room`]; without, every expert is looked at to find them.
    pub slot_bytes: Option<usize>,
    /// Whether an expert stays in its slot after use.
    pub cache: bool,
    /// What is read on a guess.
    pub prefetch: Prefetch,
}

impl Layout {
    /// Everything stays in memory once read.
    pub fn everything(spec: &ModelSpec) -> Layout {
        let moe_layers =
            spec.layers.iter().filter(|l| l.ffn == deltafin_spec::FfnKind::Moe).count();
        Layout {
            resident: vec![true; spec.layers.len() + 1],
            stream_bytes: 0,
            expert_slots: (moe_layers * spec.moe.experts).max(1),
            slot_bytes: None,
            cache: true,
            prefetch: Prefetch::Off,
        }
    }
}
