//! The spine is packed while its shards arrive, and its released bytes are given back to the drive.
//!
//! ```text
//! shard proven ─► layers of which all is here ─► the pack's file, on the drive ─► the map says "freed" ─► a hole
//! ```
//!
//! At every moment each layer is in one form at least, and the notes say in which: a piece is listed in its
//! shard's map until the pack's file is finished and noted. What was freed keeps its digest, so that the same
//! bytes, and no others, fill the hole when they are wanted again.

mod arriving;
mod forecast;
pub(crate) mod hole;
mod list;
mod look;
pub(crate) mod mend;
mod packer;
pub(crate) mod parts;

use deltafin_checkpoint::Recipe;
use deltafin_store::SpineNote;

pub use forecast::Forecast;
pub(crate) use forecast::Forecaster;
pub(crate) use list::forget;
pub(crate) use look::Pack;
pub(crate) use packer::Packer;

/// How the spine of a checkpoint is to lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spine {
    /// As the folder was begun; in a new one, as released.
    #[default]
    AsBegun,
    /// As released.
    Released,
    /// Packed as int8.
    Int8 {
        /// Whether the released bytes stay beside the pack.
        keeps_released: bool,
    },
}

impl Spine {
    /// What is to be noted of a folder of which this is noted.
    pub(crate) fn resolved(self, noted: SpineNote) -> SpineNote {
        let recipe = Recipe::Int8;
        match self {
            Spine::AsBegun => noted,
            Spine::Released => SpineNote::RELEASED,
            Spine::Int8 { keeps_released } => {
                let identity = noted.identity.filter(|_| noted.recipe == recipe);
                SpineNote { recipe, is_freed: !keeps_released, identity }
            }
        }
    }
}
