//! The seeds of this crate's fuzz target, so that they never go stale.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "these functions run in tests only")]

#[path = "../../../fuzz/checks/snapshot.rs"]
mod snapshot;

use deltafin_checkpoint::{Identity, Recipe};
use deltafin_snapshot::{Flaw, Head, Origin, Reader, Shape, write};
use std::fs;
use std::path::Path;

#[test]
fn snapshot_seeds_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/snapshot");
    let mut seeds = 0;
    for seed in fs::read_dir(&folder).unwrap() {
        let path = seed.unwrap().path();
        // Captured unless the check fails: then it names the seed.
        eprintln!("{}", path.display());
        snapshot::check(&fs::read(path).unwrap());
        seeds += 1;
    }
    assert!(seeds > 0, "no seeds in {}", folder.display());
}

const SHAPE: Shape = Shape { recurrent: 5, row: 2 };
const IDS: [u32; 3] = [7, 8, 9];

fn origin() -> Origin {
    Origin { identity: Identity::from_bytes(*b"a checkpoint's n"), recipe: Recipe::Bf16 }
}

fn whole() -> Vec<u8> {
    let head = Head { origin: origin(), shape: SHAPE, positions: 3 };
    let rows = [1.0, -2.0, 3.5, f32::NAN, f32::INFINITY, -0.0];
    let mut bytes = Vec::new();
    let (ids, rows) = ([&IDS[..]].into_iter(), [&rows[..4], &rows[4..]].into_iter());
    write(&mut bytes, head, ids, rows, &[0.1, 0.2, 0.3, 0.4, 0.5]).unwrap();
    bytes
}

fn read(bytes: &[u8], ids: &[u32]) -> Result<Vec<f32>, Flaw> {
    let mut reader = Reader::open(bytes, bytes.len() as u64, origin(), SHAPE, ids)?;
    let mut values = vec![0.0; ids.len() * SHAPE.row + SHAPE.recurrent];
    reader.fill(&mut values)?;
    reader.finish()?;
    Ok(values)
}

#[test]
fn what_is_written_is_read_bit_for_bit() {
    let bytes = whole();
    assert_eq!(SHAPE.file_bytes(3), Some(bytes.len() as u64));
    let values = read(&bytes, &IDS).unwrap();
    assert_eq!(values[3].to_bits(), f32::NAN.to_bits());
    assert_eq!(values[5].to_bits(), (-0.0f32).to_bits());
    assert_eq!(values[6..], [0.1, 0.2, 0.3, 0.4, 0.5]);
}

#[test]
fn no_byte_of_it_can_change_and_none_can_be_missing() {
    let bytes = whole();
    for at in 0..bytes.len() {
        for bit in [1, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= bit;
            assert!(read(&damaged, &IDS).is_err(), "byte {at}");
            snapshot::check(&damaged);
        }
        assert!(read(&bytes[..at], &IDS).is_err(), "cut to {at}");
        snapshot::check(&bytes[..at]);
    }
    assert!(matches!(read(&[bytes, vec![0]].concat(), &IDS), Err(Flaw::Length { .. })));
}

/// `at` is set to `byte`; each way to be wrong has its own word.
#[test]
fn each_way_to_be_wrong_is_told() {
    let told = |at: usize, byte: u8| {
        let mut bytes = whole();
        bytes[at] = byte;
        read(&bytes, &IDS).unwrap_err().to_string()
    };
    for (at, byte, words) in [
        (0, b'X', "it is not a snapshot"),
        (7, 9, "it has version 9 of the format, this program version 1"),
        (8, b'A', "it is of another checkpoint"),
        (24, 1, "it is of another recipe"),
        (24, 7, "it is of another recipe"),
        (25, 1, "it is of another recipe"),
        (32, 4, "it is of other tokens"),
        (40, 6, "it is of a model of other dimensions"),
        (48, 255, "it is of a model of other dimensions"),
        (56, 6, "it is of other tokens"),
        (70, 0, "it is damaged: its digest is another"),
    ] {
        assert_eq!(told(at, byte), words, "byte {at}");
    }
    let short = read(&whole()[..20], &IDS).unwrap_err().to_string();
    assert_eq!(short, "it ends after 20 bytes, within its head");
    let cut = read(&whole()[..100], &IDS).unwrap_err().to_string();
    assert_eq!(cut, "it has 100 bytes where 144 were expected");
}

/// Writes the seeds: `cargo test -p deltafin-snapshot --test corpora -- --ignored`.
#[test]
#[ignore = "writes into the source tree"]
fn write_seeds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/snapshot");
    let bytes = whole();
    let changed = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        bytes
    };
    for (name, seed) in [
        ("whole", bytes.clone()),
        ("cut", bytes[..100].to_vec()),
        ("head-alone", bytes[..56].to_vec()),
        ("newer", changed(7, 2)),
        ("foreign", changed(8, b'A')),
        ("damaged", changed(90, 1)),
        ("endless", changed(39, 0xff)),
        ("huge", changed(47, 0x7f)),
    ] {
        fs::write(folder.join(name), seed).unwrap();
    }
}
