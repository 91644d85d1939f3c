//! The seeds of this crate's fuzz targets, so that they never go stale.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "these functions run in tests only")]

#[path = "../../../fuzz/checks/rank_file.rs"]
mod rank_file;
#[path = "../../../fuzz/checks/reply_parser.rs"]
mod reply_parser;

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
fn rank_file_seeds_pass() {
    each_seed("rank_file", rank_file::check);
}

#[test]
fn reply_parser_seeds_pass() {
    each_seed("reply_parser", reply_parser::check);
}
