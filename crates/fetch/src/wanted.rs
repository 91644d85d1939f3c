//! How much of a checkpoint is to be brought here.

use std::ops::RangeInclusive;

use crate::cut::{Owner, Piece};

/// How much of a checkpoint is to be here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// What the folder was begun with; in a new one all of it where that fits, else [`Wanted::Spine`].
    Fitting,
    /// All of it.
    All,
    /// All but the experts, which come when they are needed.
    ///
    /// Of every layer the first expert comes too: weights are told from others by a sample of it.
    Spine,
    /// What these layers need, and what is in none; the folder does not run before the rest is here.
    Layers(RangeInclusive<u32>),
}

impl Wanted {
    /// Whether a piece is to come.
    pub(crate) fn includes(&self, piece: &Piece) -> bool {
        match self {
            Wanted::Fitting | Wanted::All => true,
            Wanted::Spine => !matches!(piece.owner, Owner::Expert(_, 1..)),
            Wanted::Layers(layers) => {
                piece.owner.layer().is_none_or(|layer| layers.contains(&layer))
            }
        }
    }
}
