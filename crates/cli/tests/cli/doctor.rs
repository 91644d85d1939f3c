//! `doctor`, on machines that lack something.

use std::fs;
use std::path::Path;

use deltafin_testkit::hub::{Hub, Misstep, Missteps};
use serde_json::Value;

use crate::program::{Ran, fixture, linked, ran};
use crate::setup::{Place, text};
use crate::streamed::streamed;

/// The finding with this code.
fn find<'r>(report: &'r Value, code: &str) -> Option<&'r Value> {
    report["findings"].as_array()?.iter().find(|finding| finding["code"] == code)
}

/// The report, whatever the exit code, which must fit.
#[track_caller]
fn report(ran: &Ran) -> Value {
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    assert_eq!(ran.code, Some(i32::from(report["faults"] != 0)), "{ran:?}");
    report
}

fn doctor(place: &Place, more: &[&str]) -> Value {
    report(&place.run(&[&["doctor", "--quick", "--json"], more].concat()))
}

#[test]
fn a_model_from_the_hub_is_looked_at_from_all_sides() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    place.setup(&["--model", text(&dir)]).ok();
    let report = doctor(&place, &[]);
    assert_eq!(report["faults"], 0, "{report}");
    let subjects: Vec<_> =
        report["findings"].as_array().expect("a list").iter().map(|f| &f["subject"]).collect();
    for subject in ["platform", "cores", "kernels", "memory", "budget", "model", "spine", "source"]
    {
        assert!(subjects.iter().any(|found| **found == subject), "{subject}: {report}");
    }
    let words = place.run(&["doctor"]);
    assert!(words.out.contains("bf16, as released") && words.out.contains("GB/s"), "{words:?}");
    // To see whether the source answers, the length of a header is fetched, each time.
    assert_eq!(place.hub.served().bytes(), place.hub.bytes() + 2 * 8);
}

#[test]
fn without_a_model_the_way_to_one_is_shown() {
    let place = Place::new(Missteps::none());
    let found = doctor(&place, &["--offline"]);
    let none = find(&found, "DF-MODEL-01").expect("no model");
    assert!(none["fix"].as_str().expect("words").contains("deltafin setup"), "{none}");
}

#[test]
fn an_unfinished_setup_is_told_with_what_is_missing() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    place.setup(&["--layers", "1-2", "--model", text(&dir)]).ok();
    let found = doctor(&place, &["--offline", "--model", text(&dir)]);
    let unfinished = find(&found, "DF-MODEL-03").expect("unfinished");
    assert!(unfinished["found"].as_str().expect("words").contains(" of "), "{unfinished}");
    assert!(unfinished["fix"].as_str().expect("words").contains("deltafin setup"), "{unfinished}");
}

#[test]
fn an_unfinished_stream_is_held_against_what_streaming_needs() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    place.setup(&["--stream", "--model", text(&dir)]).ok();
    let notes = dir.join(".deltafin");
    fs::rename(notes.join("stream.json"), notes.join("stream.json.part")).expect("renamed");
    let said = |place: &Place| {
        let found = doctor(place, &["--offline", text(&dir)]);
        find(&found, "DF-MODEL-03").expect("unfinished")["found"]
            .as_str()
            .expect("words")
            .to_owned()
    };
    let whole = said(&place);
    let (here, needed) =
        whole.rsplit_once(", ").expect("amounts").1.split_once(" of ").expect("both");
    assert_eq!(needed, format!("{here} that streaming needs are here"), "all of it is: {whole}");
    // The last piece that came to a shard is lost.
    let map = notes.join("model-00003-of-000012.safetensors.map");
    let lines = fs::read_to_string(&map).expect("read");
    let kept = lines.trim_end().rsplit_once('\n').expect("lines").0;
    fs::write(&map, format!("{kept}\n")).expect("written");
    let short = said(&place);
    assert!(short != whole && short.ends_with(&needed.to_owned()), "{short}");
    // And a header, which says what is needed.
    fs::remove_file(&map).expect("removed");
    let unknown = said(&place);
    assert!(unknown.ends_with("setup is not finished"), "{unknown}");
}

#[test]
fn a_broken_checkpoint_and_a_missing_one_are_faults() {
    let place = Place::new(Missteps::none());
    let (folder, path) = linked();
    let shard = folder.path().join("model-00004-of-000012.safetensors");
    let bytes = fs::read(&shard).expect("read");
    fs::remove_file(&shard).expect("removed");
    fs::write(&shard, &bytes[..bytes.len() - 1]).expect("written");
    let found = doctor(&place, &["--offline", "--model", &path]);
    let broken = find(&found, "DF-MODEL-04").expect("broken");
    assert!(broken["found"].as_str().expect("words").contains("00004"), "{broken}");
    let gone = place.at("gone");
    let found = doctor(&place, &["--offline", "--model", text(&gone)]);
    let missing = find(&found, "DF-MODEL-02").expect("not there");
    assert!(missing["found"].as_str().expect("words").ends_with("is not there"), "{missing}");
    assert!(!found.to_string().contains(&format!("{} can be", gone.display())), "{found}");
    // What was remembered and is no longer there.
    fs::create_dir_all(place.at("config/deltafin")).expect("made");
    fs::write(place.at("config/deltafin/model"), text(&gone)).expect("written");
    let found = doctor(&place, &["--offline"]);
    assert!(find(&found, "DF-MODEL-02").is_some(), "{found}");
}

#[test]
fn a_pack_that_cannot_be_used_is_a_fault() {
    let place = Place::new(Missteps::none());
    let (folder, path) = linked();
    fs::create_dir(folder.path().join("spine-int8")).expect("made");
    fs::write(folder.path().join("spine-int8/manifest.json"), "{}").expect("written");
    let found = doctor(&place, &["--offline", "--model", &path]);
    assert!(find(&found, "DF-SPINE-01").is_some(), "{found}");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_a_fault() {
    let place = Place::new(Missteps::none());
    fs::write(place.at("data"), "a file where the folder should be").expect("written");
    let found = doctor(&place, &["--offline"]);
    let folder = find(&found, "DF-DRIVE-01").expect("it cannot be written to");
    assert!(folder["found"].as_str().expect("words").contains(text(&place.at("data"))), "{folder}");
}

#[test]
fn a_source_that_does_not_answer_is_a_fault_only_for_who_needs_it() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    place.setup(&["--model", text(&dir)]).ok();
    let silent = Hub::serve(Vec::new(), Missteps::none()).endpoint();
    let ask = |home: &Place| {
        let mut command = home.command(&["doctor", "--quick", "--json", "--endpoint", &silent]);
        report(&ran(command.output().expect("starts")))
    };
    let installed = ask(&place);
    assert_eq!(find(&installed, "DF-NET-01").expect("unreached")["level"], "note", "{installed}");
    let empty = ask(&Place::new(Missteps::none()));
    assert_eq!(find(&empty, "DF-NET-01").expect("unreached")["level"], "fault", "{empty}");
}

/// How the source is found by a look at a folder, with nobody at the endpoint.
fn unreached(place: &Place, dir: &Path) -> Value {
    let nobody = ["--endpoint", "http://127.0.0.1:9", text(dir)];
    let report = doctor(place, &nobody);
    find(&report, "DF-NET-01").unwrap_or_else(|| panic!("unreached: {report}")).clone()
}

#[test]
fn a_model_without_all_experts_needs_its_source_and_one_with_them_does_not() {
    let (place, dir, _) = streamed();
    let lacking = unreached(&place, &dir);
    assert_eq!(lacking["level"], "fault", "{lacking}");
    assert!(lacking["found"].as_str().expect("words").contains("experts that are not here"));
    place.setup(&["--layers", "0-8", "--model", text(&dir)]).ok();
    assert_eq!(unreached(&place, &dir)["level"], "note");
    // One that lists its files and gives none of them is as good as none.
    let (place, dir, _) = streamed();
    place.hub.misstep(Missteps::of(&[Misstep::Unavailable], u64::MAX));
    let report = doctor(&place, &[text(&dir)]);
    assert_eq!(find(&report, "DF-NET-01").expect("refused")["level"], "fault", "{report}");
}

#[test]
fn a_folder_that_is_used_where_it_is_has_no_source() {
    let place = Place::new(Missteps::none());
    let found = doctor(&place, &["--model", &fixture("k3-micro")]);
    assert_eq!(found["faults"], 0, "{found}");
    assert_eq!(place.hub.served().bytes(), 0);
}
