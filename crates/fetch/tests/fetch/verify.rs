//! Damage in place: found, named, and mended by fetching about one piece.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use deltafin_fetch::{Event, FetchError, Verified, give_up, verify};
use deltafin_testkit::hub::{Hub, Missteps};

use crate::support::{CALM, assert_whole, files, hub, run};

const SHARD: &str = "model-00002-of-000012.safetensors";

fn deep(dir: &Path) -> Verified {
    verify(dir, true, &|_: Event<'_>| {}, &AtomicBool::new(false)).unwrap()
}

fn installed() -> (Hub, tempfile::TempDir) {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    run(&hub, dir.path(), CALM).unwrap();
    (hub, dir)
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x40;
    fs::write(path, bytes).unwrap();
}

#[test]
fn every_byte_of_a_whole_folder_is_read_and_held_good() {
    let (hub, dir) = installed();
    let found = deep(dir.path());
    assert_eq!((found.bytes, found.files, found.damage), (hub.bytes(), files().len(), vec![]));
}

#[test]
fn one_flipped_bit_costs_one_piece() {
    let (hub, dir) = installed();
    let shard = dir.path().join(SHARD);
    let length = fs::metadata(&shard).unwrap().len() as usize;
    for at in [length - 1, length / 2, 20, 3] {
        flip(&shard, at);
        let shallow = verify(dir.path(), false, &|_: Event<'_>| {}, &AtomicBool::new(false));
        assert_eq!(shallow.unwrap().damage, vec![]);
        let damage = deep(dir.path()).damage;
        assert_eq!(damage.len(), 1, "{damage:?}");
        let piece = &damage[0];
        assert!((piece.offset..piece.offset + piece.bytes).contains(&(at as u64)), "{piece:?}");
        let names = ["layer 1, ", "its header"];
        assert!(names.iter().any(|name| piece.of.starts_with(name)), "{piece:?}");
        give_up(dir.path(), &damage).unwrap();
        assert!(!shard.exists());
        let mended = run(&hub, dir.path(), CALM).unwrap();
        assert_eq!(mended.received, piece.bytes);
        assert_whole(dir.path());
    }
}

#[test]
fn an_expert_is_named() {
    let (_hub, dir) = installed();
    let shard = dir.path().join(SHARD);
    let bytes = fs::read(&shard).unwrap();
    let header = bytes[8..].split(|byte| *byte == 0).next().unwrap();
    let header = String::from_utf8_lossy(header);
    assert!(
        header.contains(".layers.1.") && header.contains(".experts.3."),
        "the fixture is another"
    );
    let map = fs::read_to_string(dir.path().join(format!(".deltafin/{SHARD}.map"))).unwrap();
    // Each piece in turn: some are experts of this layer, and each is named as such.
    let offsets = map.lines().filter_map(|line| line.split_once(' ')?.0.parse::<usize>().ok());
    let mut named = Vec::new();
    for offset in offsets.filter(|offset| *offset > 8) {
        flip(&shard, offset);
        named.push(deep(dir.path()).damage[0].of.clone());
        flip(&shard, offset);
    }
    assert!(named.contains(&"layer 1, expert 3".to_owned()), "{named:?}");
    assert_eq!(deep(dir.path()).damage, vec![]);
}

#[test]
fn a_file_that_is_gone_or_cut_is_named_without_reading() {
    let (hub, dir) = installed();
    fs::remove_file(dir.path().join("config.json")).unwrap();
    let shard = fs::OpenOptions::new().write(true).open(dir.path().join(SHARD)).unwrap();
    shard.set_len(1000).unwrap();
    let found = verify(dir.path(), false, &|_: Event<'_>| {}, &AtomicBool::new(false)).unwrap();
    let names: Vec<_> = found.damage.iter().map(|damage| damage.file.as_str()).collect();
    assert_eq!(names, ["config.json", SHARD]);
    give_up(dir.path(), &found.damage).unwrap();
    run(&hub, dir.path(), CALM).unwrap();
    assert_whole(dir.path());
}

#[test]
fn a_repair_that_was_stopped_half_way_fetches_no_more_than_one_that_was_not() {
    let (hub, dir) = installed();
    let shard = dir.path().join(SHARD);
    flip(&shard, 5000);
    let damage = deep(dir.path()).damage;
    give_up(dir.path(), &damage).unwrap();
    // As if it had been stopped before the file was taken back.
    fs::rename(dir.path().join(format!("{SHARD}.part")), &shard).unwrap();
    let mended = run(&hub, dir.path(), CALM).unwrap();
    assert_eq!(mended.received, damage[0].bytes);
    assert_whole(dir.path());
}

#[test]
fn a_folder_that_setup_did_not_make_has_no_digests() {
    let dir = tempfile::tempdir().unwrap();
    let found = verify(dir.path(), true, &|_: Event<'_>| {}, &AtomicBool::new(false));
    assert!(matches!(found, Err(FetchError::NotInstalled { .. })), "{found:?}");
}
