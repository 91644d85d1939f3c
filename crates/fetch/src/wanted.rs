//! How much of a checkpoint is to be brought here.

use std::ops::RangeInclusive;

use crate::Proof;
use crate::cut::{Owner, Piece};
use crate::listing::RemoteFile;
use crate::map::Known;

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

/// What is to be brought here, and whether a piece that is in a pack has to be here, too.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    pub(crate) wanted: Wanted,
    /// What a pack holds is to be a hole.
    pub(crate) frees: bool,
    /// Layers whose experts are to be here, too.
    pub(crate) later: Option<RangeInclusive<u32>>,
}

impl Goal {
    /// So much of a checkpoint.
    pub(crate) fn of(wanted: Wanted, frees: bool) -> Goal {
        Goal { wanted, frees, later: None }
    }

    /// Whether a piece is to come, unless it is here.
    pub(crate) fn includes(&self, piece: &Piece) -> bool {
        let is_later = || match (&self.later, piece.owner) {
            (Some(layers), Owner::Expert(layer, _)) => layers.contains(&layer),
            _ => false,
        };
        self.wanted.includes(piece) || is_later()
    }

    /// Whether nothing more is to come of a piece, if those that were freed are still in a pack. The digest
    /// of a whole shard is that of all its bytes: until the shard was held against it they are wanted again.
    pub(crate) fn has(&self, file: &RemoteFile, known: &Known, piece: &Piece) -> bool {
        known.has(piece) || self.spares(file, known) && known.is_freed(piece)
    }

    /// Whether what was freed of a file need not come again.
    pub(crate) fn spares(&self, file: &RemoteFile, known: &Known) -> bool {
        let is_whole = matches!(self.wanted, Wanted::All | Wanted::Fitting);
        self.frees && (known.proven || file.proof == Proof::None || !is_whole)
    }
}
