//! Experts that are likely to be needed, fetched before they are.
//!
//! A [`Plan`] says which records are to come, and in which order: the likeliest first where that is known, and
//! among those that come at about the same time as they lie in the files. It says, too, what they take and what part
//! of the choices it goes by would find its expert here. [`Plan::fetch`] brings them by the way that a model
//! uses which needs one, so that programs which run the model at the same time see them, no record comes twice, and
//! an interrupted fetch is gone on with by the next plan.

mod lanes;

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use deltafin_checkpoint::Span;
use deltafin_spec::{ExpertId, LayerId, ModelSpec};
use deltafin_store::{Checkpoint, Distant};

use crate::{FetchError, room};

/// Records that are sorted by where they lie. Few enough that an early end has brought the likeliest, and so
/// many that a drive writes in long runs.
const ROUND: usize = 256;

/// Left free on the drive for whatever else is written there.
const SPARE_BYTES: u64 = 1 << 30;

/// Which experts are likely to be needed.
#[derive(Clone, Debug, PartialEq)]
pub enum Likely {
    /// Those that were chosen, the most often chosen first: how often each was, layer by layer and in it
    /// expert by expert, layers without experts included.
    Chosen(Vec<f64>),
    /// All of these layers.
    Layers(RangeInclusive<u32>),
}

impl Likely {
    /// How often an expert was chosen; nothing where it is not likely.
    fn weight(&self, spec: &ModelSpec, layer: LayerId, expert: ExpertId) -> Option<f64> {
        match self {
            Likely::Layers(layers) => layers.contains(&layer.number()).then_some(0.0),
            Likely::Chosen(counts) => {
                let at = layer.index() * spec.moe.experts + expert.index();
                counts.get(at).copied().filter(|count| *count > 0.0)
            }
        }
    }
}

/// Records, and how many bytes they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Amount {
    /// Adds a record of so many bytes.
    fn add(&mut self, bytes: u64) {
        self.records += 1;
        self.bytes += bytes;
    }
}

/// What a plan means for some layers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Experts that are likely to be needed.
    pub likely: Amount,
    /// Those of them that are here.
    pub here: Amount,
    /// Those that are to come.
    pub coming: Amount,
    /// How often experts were chosen; 0 where no choices are known.
    pub chosen: f64,
    /// How often of these the expert is one that is here.
    pub found: f64,
    /// How often it is one that is here or is to come.
    pub found_then: f64,
}

impl std::ops::AddAssign for Share {
    fn add_assign(&mut self, other: Share) {
        let amounts = [
            (&mut self.likely, other.likely),
            (&mut self.here, other.here),
            (&mut self.coming, other.coming),
        ];
        for (sum, more) in amounts {
            sum.records += more.records;
            sum.bytes += more.bytes;
        }
        self.chosen += other.chosen;
        self.found += other.found;
        self.found_then += other.found_then;
    }
}

/// A record that is to come.
#[derive(Clone, Debug, PartialEq)]
pub struct Coming {
    /// Whose it is.
    pub layer: LayerId,
    /// Which of the layer's.
    pub expert: ExpertId,
    /// Its bytes.
    pub bytes: u64,
    weight: f64,
    pieces: Vec<Span>,
}

/// What is to be fetched ahead of time, and in which order.
pub struct Plan {
    distant: Option<Arc<dyn Distant>>,
    coming: Vec<Coming>,
    left_out: Amount,
    shares: Vec<(LayerId, Share)>,
}

impl Plan {
    /// Plans for a checkpoint that [`open_streamed`](crate::open_streamed) opened; nothing is to come for any other.
    /// At most `room` bytes are to come: what has no room is left out, the least likely first.
    pub fn new(checkpoint: &Checkpoint, likely: &Likely, room: u64) -> Plan {
        let (spec, distant) = (checkpoint.spec(), checkpoint.store.distant());
        let mut plan =
            Plan { distant, coming: Vec::new(), left_out: Amount::default(), shares: Vec::new() };
        for layer in spec.moe_layers() {
            let mut share = Share::default();
            for expert in (0..spec.moe.experts as u32).map(ExpertId::new) {
                let Some(weight) = likely.weight(spec, layer, expert) else { continue };
                let record = checkpoint.catalog.expert(layer, expert).record;
                let (bytes, pieces) = (record.len(), record.pieces());
                share.likely.add(bytes);
                share.chosen += weight;
                if plan.distant.as_ref().is_none_or(|distant| distant.is_here(pieces)) {
                    share.here.add(bytes);
                    share.found += weight;
                } else {
                    let pieces = pieces.to_vec();
                    plan.coming.push(Coming { layer, expert, bytes, weight, pieces });
                }
            }
            share.found_then = share.found;
            plan.shares.push((layer, share));
        }
        plan.bound(room);
        plan.arrange(likely);
        for record in &plan.coming {
            let share = plan.shares.iter_mut().find(|(layer, _)| *layer == record.layer);
            if let Some((_, share)) = share {
                share.coming.add(record.bytes);
                share.found_then += record.weight;
            }
        }
        plan
    }

    /// Keeps the likeliest for which there is room.
    fn bound(&mut self, room: u64) {
        // Stable, so that of equals the lower layer and number comes first, in every plan.
        self.coming.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let mut taken = 0_u64;
        let fits = self.coming.iter().take_while(|record| {
            taken = taken.saturating_add(record.bytes);
            taken <= room
        });
        let fits = fits.count();
        self.coming.drain(fits..).for_each(|record| self.left_out.add(record.bytes));
    }

    /// Lets those that come at about the same time come as they lie in the files.
    fn arrange(&mut self, likely: &Likely) {
        let round = match likely {
            Likely::Chosen(_) => ROUND,
            Likely::Layers(_) => self.coming.len().max(1),
        };
        for round in self.coming.chunks_mut(round) {
            round.sort_by(|a, b| a.pieces.cmp(&b.pieces));
        }
    }

    /// Refuses to fetch into a folder that does not keep what comes.
    ///
    /// # Errors
    /// When nothing may be written there.
    pub fn check_kept(&self, dir: &Path) -> Result<(), FetchError> {
        match self.distant.as_ref().and_then(|distant| distant.unkept()) {
            None => Ok(()),
            Some(why) => {
                let reason = std::io::Error::other(why);
                Err(FetchError::ReadOnly { path: dir.to_owned(), reason })
            }
        }
    }

    /// The records that are to come, in their order.
    pub fn coming(&self) -> &[Coming] {
        &self.coming
    }

    /// What is likely, not here, and has no room.
    pub fn left_out(&self) -> Amount {
        self.left_out
    }

    /// What it means for each layer that has experts, ascending.
    pub fn shares(&self) -> &[(LayerId, Share)] {
        &self.shares
    }

    /// What it means for all layers together.
    pub fn total(&self) -> Share {
        self.shares.iter().fold(Share::default(), |mut sum, (_, share)| {
            sum += *share;
            sum
        })
    }
}

/// How many bytes may be fetched ahead of time into a folder.
///
/// # Errors
/// When the drive does not say how full it is.
pub fn room_ahead(dir: &Path) -> Result<u64, FetchError> {
    let free = room::free_bytes(dir).map_err(|error| FetchError::disk(dir, error))?;
    Ok(free.saturating_sub(SPARE_BYTES))
}
