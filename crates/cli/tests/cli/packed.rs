//! `setup --spine int8`, against a hub on loopback.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use deltafin_testkit::hub::{Draw, Missteps, REPOSITORY};

use crate::program::{deltafin, fixture, linked};
use crate::setup::{Place, kills, text};

const RUN: [&str; 6] = ["run", "--prompt-ids", "1,2", "--ids", "--max-new", "3"];

/// The pack that `convert` makes, in a folder.
fn converted(place: &Place) -> std::path::PathBuf {
    let out = place.at("converted");
    let args = ["convert", "--spine", "int8", "--model", &fixture("k3-micro"), "--out", text(&out)];
    deltafin(&args).ok();
    out
}

#[track_caller]
fn assert_same_pack(found: &Path, wanted: &Path) {
    let names = |dir: &Path| {
        let names = fs::read_dir(dir).expect("a folder").map(|e| e.expect("an entry").file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    assert_eq!(names(found), names(wanted));
    for name in names(wanted) {
        let read = |dir: &Path| fs::read(dir.join(&name)).expect("read");
        assert!(read(found) == read(wanted), "{name:?}");
    }
}

#[test]
fn an_int8_setup_runs_like_a_conversion_and_says_what_it_lacks() {
    let place = Place::new(Missteps::none());
    let pack = converted(&place);
    let model = fixture("k3-micro");
    let spine =
        |spine: &str| deltafin(&[&RUN[..], &["--model", &model, "--spine", spine]].concat());
    let wanted = spine(text(&pack)).ok();
    for (name, mode) in [("whole", "--full"), ("streamed", "--stream")] {
        let dir = place.at(name);
        let dir = text(&dir);
        let ran = place.setup(&["--spine", "int8", mode, "--model", dir]);
        assert!(ran.err.contains("'deltafin setup --spine bf16' fetches it"), "{ran:?}");
        ran.ok();
        assert_same_pack(&Path::new(dir).join("spine-int8"), &pack);
        assert_eq!(place.run(&[&RUN[..], &["--model", dir]].concat()).ok(), wanted, "{name}");
        let bf16 = [&RUN[..], &["--model", dir, "--spine", "bf16"]].concat();
        let refused = place.run(&bf16).refusal();
        assert!(
            refused.contains(&format!("deltafin setup --spine bf16 --model {dir}")),
            "{refused}"
        );
        let inspected = place.run(&["inspect", dir]);
        assert!(inspected.out.contains("of these weights"), "{inspected:?}");
        let doctor = place.run(&["doctor", "--quick", "--offline", "--model", dir]);
        assert!(doctor.out.contains("of the spine only the int8 pack is here"), "{doctor:?}");
        assert!(place.run(&["verify", "--deep", dir]).ok().contains("nothing is damaged"));
        assert!(place.run(&["gc", "--model", dir]).ok().contains("nothing lies about"));
        if mode == "--stream" {
            // The pack tells whose heat it is.
            let warmed = place.run(&["warm", dir, "--heat"]).ok();
            assert!(warmed.contains("more are here"), "{warmed}");
        }
        let back = ["setup", "--spine", "bf16", "--model", dir];
        assert!(place.run(&back).err.contains("is not used any more"));
        assert_eq!(place.run(&bf16).ok(), spine("bf16").ok());
    }
}

#[test]
fn where_a_pack_is_gone_it_is_said_what_runs_in_its_place() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    place.setup(&["--spine", "int8", "--keep-bf16", "--model", text(&dir)]).ok();
    let pack = dir.join("spine-int8");
    fs::remove_dir_all(&pack).expect("removed");
    let args = [&RUN[..], &["--model", text(&dir)]].concat();
    let said = format!("spine: bf16, as released; {}, which setup made, is gone", pack.display());
    let ran = place.run(&args);
    assert!(ran.code == Some(0) && ran.err.contains(&said), "{ran:?}");
    let asked = place.run(&[&args[..], &["--spine", "bf16"]].concat());
    assert!(!asked.err.contains("is gone"), "{asked:?}");
    let doctor = place.run(&["doctor", "--quick", "--offline", text(&dir)]);
    assert!(doctor.out.contains("DF-SPINE-03") && doctor.code == Some(0), "{doctor:?}");
    // Either remedy ends it.
    place.setup(&["--model", text(&dir)]).ok();
    assert!(place.run(&args).err.contains("spine: int8, from "));
    fs::remove_dir_all(&pack).expect("removed");
    place.setup(&["--spine", "bf16", "--model", text(&dir)]).ok();
    assert!(!place.run(&args).err.contains("is gone"));
}

#[test]
fn a_dry_run_tells_the_room_that_a_packed_spine_takes() {
    let place = Place::new(Missteps::none());
    let kept = place.setup(&["--dry-run", "--json", "--spine", "int8", "--keep-bf16"]).json();
    let freed = place.setup(&["--dry-run", "--json", "--spine", "int8"]).json();
    let of =
        |report: &serde_json::Value, name: &str| report["spine"][name].as_u64().expect("bytes");
    assert_eq!(
        (of(&kept, "freed"), of(&kept, "end")),
        (0, place.hub.bytes() + of(&kept, "packed"))
    );
    assert_eq!(of(&kept, "most"), of(&kept, "end"));
    assert!(of(&freed, "freed") > of(&freed, "packed"), "{freed}");
    assert_eq!(of(&freed, "end"), of(&kept, "end") - of(&freed, "freed"));
    assert!(of(&freed, "most") <= of(&kept, "end"));
    assert!(place.setup(&["--dry-run", "--json"]).json()["spine"].is_null());
    let words = place.setup(&["--dry-run", "--spine", "int8"]).ok();
    assert!(words.contains("spine packed as int8"), "{words}");
    let dir = place.at("here");
    place.setup(&["--spine", "int8", "--model", text(&dir)]).ok();
    let pack = fs::read_dir(dir.join("spine-int8")).expect("a pack");
    let sizes = pack.map(|entry| entry.expect("an entry"));
    let sizes = sizes.filter(|entry| entry.file_name() != "manifest.json");
    let packed: u64 = sizes.map(|entry| entry.metadata().expect("a size").len()).sum();
    assert_eq!(packed, of(&freed, "packed"), "as was said");
}

#[test]
fn a_folder_that_is_somebody_else_s_gets_a_pack_and_loses_nothing() {
    let place = Place::new(Missteps::none());
    let dir = place.at("foreign");
    fs::create_dir(&dir).expect("made");
    for (name, bytes) in deltafin_testkit::hub::checkpoint_files(Path::new(&fixture("k3-micro"))) {
        fs::write(dir.join(name), bytes).expect("written");
    }
    let ran = place.run(&["setup", "--source", text(&dir), "--spine", "int8"]);
    assert!(ran.err.contains("stay as they are"), "{ran:?}");
    assert_same_pack(&dir.join("spine-int8"), &converted(&place));
    place.run(&[&RUN[..], &["--spine", "bf16"]].concat()).ok();
}

#[test]
fn killed_at_any_moment_an_int8_setup_goes_on_to_the_same_pack() {
    let place = Place::new(Missteps::none());
    let pack = converted(&place);
    let source = format!("hf:{REPOSITORY}");
    let (mut draw, mut killed, mut round) = (Draw(kills() + 1), 0, 0);
    while killed < kills() {
        let dir = place.at(&format!("round-{round}"));
        let mode = if round % 2 == 0 { "--full" } else { "--stream" };
        let args = ["setup", "--source", &source, "--spine", "int8", mode, "--model", text(&dir)];
        let limit = [&args[..], &["--limit-rate", "6M", "--jobs", "4"]].concat();
        let mut setup = place.command(&limit);
        let mut child = setup.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        sleep(Duration::from_millis(draw.below(700)));
        child.kill().expect("killed"); // SIGKILL
        if child.wait().expect("ends").success() {
            round += 1;
        } else {
            killed += 1;
        }
        if killed % 4 == 3 {
            place.run(&args).ok();
            assert_same_pack(&dir.join("spine-int8"), &pack);
            let deep = place.run(&["verify", "--deep", text(&dir)]).ok();
            assert!(deep.contains("nothing is damaged"), "{deep}");
            round += 1;
            killed += 1;
        }
    }
}

#[test]
fn keeping_what_is_not_packed_is_misuse() {
    let line = deltafin(&["setup", "--keep-bf16"]).usage();
    assert!(line.contains("give --spine int8, too"), "{line}");
}

#[test]
fn the_spine_that_was_chosen_last_runs_and_the_other_pack_is_seen_and_can_go() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    let (pack, dir) = (dir.join("spine-int8"), text(&dir));
    let recipe = || {
        let run = ["run", "--prompt-ids", "1,2", "--max-new", "1", "--json", "--model", dir];
        place.run(&run).json()["stats"]["recipe"].clone()
    };
    place.setup(&["--spine", "int8", "--keep-bf16", "--model", dir]).ok();
    assert_eq!(recipe(), "int8");
    let said = place.setup(&["--spine", "bf16", "--model", dir]);
    assert!(said.err.contains("is not used any more"), "{said:?}");
    assert_eq!(recipe(), "bf16");
    let doctor = place.run(&["doctor", "--quick", "--offline", "--model", dir]);
    assert!(doctor.out.contains("DF-SPINE-02"), "{doctor:?}");
    // It is looked at nonetheless, and made again from what is here.
    let file = pack.join("layer-001.spine");
    let mut bytes = fs::read(&file).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).expect("written");
    place.run(&["verify", dir]).ok();
    let found = place.run(&["verify", "--deep", dir]);
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(found.out.contains("spine-int8/layer-001.spine: layer 1, int8 spine"), "{found:?}");
    assert!(found.out.contains("'deltafin convert --spine int8'"), "{found:?}");
    let mended = place.run(&["verify", "--deep", "--repair", "--json", dir]).json();
    assert_eq!(mended["received"], 0);
    assert_same_pack(&pack, &converted(&place));
    let listed = place.run(&["gc", "--yes", "--json", "--model", dir]).json();
    assert_eq!(listed["found"][0]["path"], text(&pack));
    assert!(listed["freed"] == listed["bytes"] && !pack.exists(), "{listed}");
    assert_eq!(recipe(), "bf16");
    place.run(&["convert", "--spine", "int8", "--model", dir]).ok();
    assert_eq!(recipe(), "int8");
}

#[test]
fn a_pack_of_a_checkpoint_that_setup_did_not_bring_is_looked_at_too() {
    let (folder, model) = linked();
    deltafin(&["convert", "--spine", "int8", "--model", &model]).ok();
    let head = folder.path().join("spine-int8/head.spine");
    fs::OpenOptions::new().write(true).open(&head).expect("opens").set_len(1).expect("cut");
    let found = deltafin(&["verify", &model]);
    assert!(found.code == Some(1) && found.out.contains("'deltafin convert"), "{found:?}");
    deltafin(&["verify", "--repair", &model]).ok();
    deltafin(&["verify", "--deep", &model]).ok();
}

#[test]
fn what_a_packed_folder_lacks_is_said_with_what_brings_it() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    let (pack, dir) = (dir.join("spine-int8"), text(&dir));
    place.setup(&["--spine", "int8", "--model", dir]).ok();
    let remedy = format!("deltafin verify --repair {dir}");
    let run = [&RUN[..], &["--model", dir]].concat();
    for (name, most) in [("layer-002.spine", place.hub.bytes() / 10), ("manifest.json", 0)] {
        fs::remove_file(pack.join(name)).expect("removed");
        let refused = place.run(&run).refusal();
        assert!(refused.contains(&remedy) && !refused.contains("convert"), "{refused}");
        let inspected = place.run(&["inspect", dir]);
        assert_eq!(inspected.code, Some(1), "{inspected:?}");
        assert!(inspected.out.contains(&remedy), "{inspected:?}");
        let before = place.hub.served().bytes();
        place.run(&["verify", "--repair", dir]).ok();
        let came = place.hub.served().bytes() - before;
        assert!(came <= most, "{came} bytes came");
        assert_same_pack(&pack, &converted(&place));
        place.run(&run).ok();
    }
}
