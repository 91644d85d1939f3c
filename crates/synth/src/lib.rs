//! Synthetic checkpoints in the released layout, for measuring and testing without 1.56 TB.
//!
//! [`Dimensions`] choose a model and [`Routing`] how its router chooses; [`Plan`] knows its shards;
//! [`Plan::write`] makes them: real names, headers, index and configuration around seeded random weights
//! of realistic magnitudes, or around holes. The same dimensions, routing and seed give the same bytes on
//! every machine. A shard gets its name when it is complete, and what this call wrote is removed when it
//! fails or is stopped.
#![forbid(unsafe_code)]

mod dimensions;
mod draw;
mod error;
mod fill;
mod random;
mod recipe;
pub mod routes;
mod routing;
mod vision;
mod write;

use deltafin_checkpoint::write::{self as layout, PlannedShard};
use deltafin_spec::{ModelSpec, SpecError};
use routing::Wiring;

pub use dimensions::{Dimensions, Preset};
pub use error::SynthError;
pub use routing::Routing;
pub use write::{Content, Ended, Progress};

/// Special ids end where the vocabulary does, as in the release: the one that ends a message is this
/// far from the end.
const END_OF_MESSAGE_FROM_END: usize = 254;

/// The files of a checkpoint, before there are any.
#[derive(Clone, Debug)]
pub struct Plan {
    spec: ModelSpec,
    shards: Vec<PlannedShard>,
    wiring: Wiring,
    seed: u64,
}

impl Plan {
    /// Plans the checkpoint of a seed.
    pub fn new(dimensions: &Dimensions, routing: Routing, seed: u64) -> Result<Plan, SpecError> {
        let spec = dimensions.spec()?;
        let extra = match dimensions.preset {
            Preset::K3 => vision::shards(),
            Preset::Slice | Preset::Tiny => Vec::new(),
        };
        let shards = layout::layout(&spec, &extra);
        let wiring = Wiring::new(routing, &spec);
        Ok(Plan { spec, shards, wiring, seed })
    }

    /// The dimensions.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// The shards, in the order they are written.
    pub fn shards(&self) -> &[PlannedShard] {
        &self.shards
    }

    /// Bytes of all shard files.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.header().len() as u64 + shard.data_bytes()).sum()
    }

    /// The id that ends a message.
    fn end_of_message(&self) -> u32 {
        let last = self.spec.vocab - 1;
        self.spec.vocab.checked_sub(END_OF_MESSAGE_FROM_END).unwrap_or(last) as u32
    }

    /// The small files beside the shards, by name.
    fn side_files(&self) -> [(&'static str, String); 3] {
        let end = self.end_of_message();
        let max = self.spec.max_positions;
        let generation = format!("{{\n  \"max_length\": {max},\n  \"eos_token_id\": {end}\n}}");
        [
            ("generation_config.json", generation),
            ("config.json", layout::config_json(&self.spec, &[end])),
            // Last: without it nobody takes the directory for a checkpoint.
            ("model.safetensors.index.json", layout::index_json(&self.shards)),
        ]
    }
}
