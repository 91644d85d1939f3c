//! Bits that flip on the drive in what setup brought, adopted or streams: never other ids.

use std::fs;
use std::path::{Path, PathBuf};

use deltafin_testkit::hub::Missteps;
use serde_json::Value;

use crate::program::{deltafin, fixture};
use crate::setup::{Place, assert_whole, text};
use crate::streamed::{args, streamed, wanted};

const EXPERTS: &str = "model-00005-of-000012.safetensors";
const GLOBALS: &str = "model-00010-of-000012.safetensors";

/// Of the embedding.
const ROW_BYTES: usize = 256;

/// Flips a low bit of the byte at `at` of every tensor of a shard whose name ends like this. Of an expert that stays a
/// number of four bits, of all else the lowest bits of a fraction.
fn flip(shard: &Path, ending: &str, at: usize) {
    let mut bytes = fs::read(shard).expect("read");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight")) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).expect("JSON");
    let tensors = header.as_object().expect("an object").iter();
    let begins = tensors.filter(|(name, _)| name.ends_with(ending)).map(|(_, tensor)| {
        let begin = tensor["data_offsets"][0].as_u64().expect("a number");
        8 + length + begin as usize + at
    });
    let places: Vec<usize> = begins.collect();
    assert!(!places.is_empty(), "no {ending} in {}", shard.display());
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    fs::write(shard, bytes).expect("written");
}

/// An error that names file, offset and remedy; what the remedy brings; the right ids.
#[track_caller]
fn assert_refused_and_mended(place: &Place, dir: &Path, shard: &str, wanted: &str) {
    let line = place.run(&args(dir)).refusal();
    assert!(line.contains(shard) && line.contains("between offsets "), "{line}");
    assert!(line.contains("deltafin verify --deep --repair"), "{line}");
    let report = place.run(&["verify", "--deep", "--repair", "--json", text(dir)]).json();
    assert_eq!(report["damage"][0]["file"], shard, "{report}");
    assert_eq!(place.run(&args(dir)).ok(), wanted);
}

#[test]
fn a_bit_of_what_setup_brought_is_named_and_mended() {
    let (place, wanted) = (Place::new(Missteps::none()), wanted());
    let dir = place.at("here");
    place.setup(&["--model", text(&dir)]).ok();
    for (shard, ending, at) in [
        (EXPERTS, ".w1.weight_packed", 7),
        (EXPERTS, ".self_attn.q_proj.weight", 2),
        (EXPERTS, ".input_layernorm.weight", 0),
        (GLOBALS, ".embed_tokens.weight", 44 * ROW_BYTES),
        (GLOBALS, "lm_head.weight", 100),
        (GLOBALS, ".model.norm.weight", 0),
    ] {
        println!("{ending}");
        flip(&dir.join(shard), ending, at);
        assert_refused_and_mended(&place, &dir, shard, &wanted);
    }
    assert_whole(&dir);
}

#[test]
fn a_bit_of_an_expert_that_came_when_it_was_needed_is_named_and_mended() {
    let (place, dir, _) = streamed();
    let wanted = wanted();
    assert_eq!(place.run(&args(&dir)).ok(), wanted);
    flip(&dir.join(format!("{EXPERTS}.part")), ".w2.weight_packed", 1);
    assert_refused_and_mended(&place, &dir, EXPERTS, &wanted);
    flip(&dir.join(GLOBALS), ".embed_tokens.weight", 5 * ROW_BYTES);
    assert_refused_and_mended(&place, &dir, GLOBALS, &wanted);
}

#[test]
fn a_header_that_makes_no_sense_is_mended_by_what_is_advised() {
    let (place, wanted) = (Place::new(Missteps::none()), wanted());
    let dir = place.at("here");
    place.setup(&["--model", text(&dir)]).ok();
    let break_header = || {
        let mut bytes = fs::read(dir.join(EXPERTS)).expect("read");
        bytes[12] = 7;
        fs::write(dir.join(EXPERTS), bytes).expect("written");
    };
    break_header();
    assert!(place.run(&args(&dir)).refusal().contains(EXPERTS));
    let line = place.run(&["verify", text(&dir)]).refusal();
    assert!(line.contains(EXPERTS) && line.contains("deltafin verify --repair"), "{line}");
    let report = place.run(&["verify", "--repair", "--json", text(&dir)]).json();
    assert_eq!(report["damage"][0]["file"], EXPERTS, "{report}");
    assert_eq!(place.run(&args(&dir)).ok(), wanted);
    // Beside damage that is seen at once.
    break_header();
    fs::remove_file(dir.join(GLOBALS)).expect("removed");
    place.run(&["verify", "--repair", text(&dir)]).ok();
    assert_eq!(place.run(&args(&dir)).ok(), wanted);
    assert_whole(&dir);
}

#[test]
fn no_pack_is_made_of_what_is_not_what_setup_brought() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    place.setup(&["--model", text(&dir)]).ok();
    flip(&dir.join(EXPERTS), ".self_attn.q_proj.weight", 2);
    let line = place.run(&["convert", "--spine", "int8", "--model", text(&dir)]).refusal();
    assert!(line.contains(EXPERTS) && line.contains("deltafin verify --deep --repair"), "{line}");
}

/// A copy of the fixture's files in a folder.
fn copied(place: &Place) -> PathBuf {
    let dir = place.at("copy");
    fs::create_dir(&dir).expect("made");
    for entry in fs::read_dir(fixture("k3-micro")).expect("a folder") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, dir.join(path.file_name().expect("a name"))).expect("copied");
    }
    dir
}

#[test]
fn a_folder_that_setup_adopted_has_digests_and_one_that_it_never_saw_has_none() {
    let (place, wanted) = (Place::new(Missteps::none()), wanted());
    let dir = copied(&place);
    flip(&dir.join(EXPERTS), ".w1.weight_packed", 7);
    // Nobody knows what it should be.
    deltafin(&args(&dir)).ok();
    flip(&dir.join(EXPERTS), ".w1.weight_packed", 7);
    place.setup(&["--model", text(&dir)]).ok();
    flip(&dir.join(EXPERTS), ".w1.weight_packed", 7);
    assert_refused_and_mended(&place, &dir, EXPERTS, &wanted);
}
