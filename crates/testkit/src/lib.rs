//! Fixtures and deliberately awkward weights, for tests only.
//!
//! The miniature checkpoints under `fixtures/` are random models in the released layout; their golden
//! vectors come from a float64 evaluation of the exact weights. `fixtures/k3-micro/README.md`
//! describes them.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // A broken fixture should stop the test on the spot.

mod counting;
mod faulty;
mod golden;
pub mod hub;
mod noted;
mod pairs;
mod shuffled;

pub use counting::CountingStore;
pub use faulty::{Fault, FaultyStore, Hits};
pub use golden::{DemoGolden, DemoPrompt, Golden, Prompt, largest_difference};
pub use noted::NotedStore;
pub use pairs::all_pairs;
pub use shuffled::Shuffled;

use deltafin_engine::Recipe;
use deltafin_store::{Checkpoint, SpineChoice};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The folder of a miniature checkpoint: `k3-micro` or `k3-calm`.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// Opens `k3-micro`, `k3-calm` or `demo`.
pub fn open(name: &str) -> Checkpoint {
    match name {
        "demo" => deltafin_store::from_memory(deltafin_demo::FILES).unwrap(),
        _ => deltafin_store::open_dir(fixture(name)).unwrap(),
    }
}

/// As [`open`], with the spine of a recipe, packed in memory.
pub fn open_as(name: &str, recipe: Recipe) -> Checkpoint {
    let checkpoint = open(name);
    let pack = deltafin_setup::pack_in_memory(&checkpoint, recipe).unwrap();
    checkpoint.with_pack(pack).unwrap()
}

/// As [`open_as`], with the pack's files in a folder.
pub fn open_packed(name: &str, recipe: Recipe, dir: &Path) -> Checkpoint {
    let checkpoint = open(name);
    let go_on = &mut |_| ControlFlow::Continue(());
    deltafin_setup::convert(&checkpoint, recipe, dir, go_on).unwrap();
    checkpoint.with_spine(&SpineChoice::Pack(dir.to_owned())).unwrap()
}
