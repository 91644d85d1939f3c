//! The seeds of this crate's fuzz targets, so that they never go stale.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "these functions run in tests only")]

#[path = "../../../fuzz/checks/config.rs"]
mod config;
#[path = "../../../fuzz/checks/index.rs"]
mod index;
#[path = "../../../fuzz/checks/pack_manifest.rs"]
mod pack_manifest;
#[path = "../../../fuzz/checks/safetensors_header.rs"]
mod safetensors_header;

use std::fs;
use std::path::Path;

/// Runs `check` on every seed of a fuzz target.
fn each_seed(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut seeds = 0;
    for seed in fs::read_dir(&folder).unwrap() {
        let path = seed.unwrap().path();
        // Captured unless the check fails: then it names the seed.
        eprintln!("{}", path.display());
        check(&fs::read(path).unwrap());
        seeds += 1;
    }
    assert!(seeds > 0, "no seeds in {}", folder.display());
}

#[test]
fn config_seeds_pass() {
    each_seed("config", config::check);
}

#[test]
fn index_seeds_pass() {
    each_seed("index", index::check);
}

#[test]
fn pack_manifest_seeds_pass() {
    each_seed("pack_manifest", pack_manifest::check);
}

#[test]
fn safetensors_header_seeds_pass() {
    each_seed("safetensors_header", safetensors_header::check);
}
