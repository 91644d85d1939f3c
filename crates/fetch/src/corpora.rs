//! The seeds of this crate's fuzz targets, so that they never go stale.
#![allow(clippy::print_stderr, reason = "these functions run in tests only")]

#[path = "../../../fuzz/checks/hub_listing.rs"]
mod hub_listing;
#[path = "../../../fuzz/checks/install_map.rs"]
mod install_map;

use std::fs;
use std::path::Path;

/// Runs `check` on every seed of a fuzz target, on all that it begins with, and with each byte changed.
fn each_seed(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut seeds = 0;
    for seed in fs::read_dir(&folder).unwrap() {
        let path = seed.unwrap().path();
        // Captured unless the check fails: then it names the seed.
        eprintln!("{}", path.display());
        let mut bytes = fs::read(path).unwrap();
        check(&bytes);
        for at in 0..bytes.len() {
            check(&bytes[..at]);
            for bit in [1, 0x10, 0x80] {
                bytes[at] ^= bit;
                check(&bytes);
                bytes[at] ^= bit;
            }
        }
        seeds += 1;
    }
    assert!(seeds > 0, "no seeds in {}", folder.display());
}

#[test]
fn install_map_seeds_pass() {
    each_seed("install_map", install_map::check);
}

#[test]
fn hub_listing_seeds_pass() {
    each_seed("hub_listing", hub_listing::check);
}
