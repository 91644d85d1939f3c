//! The drafter that `setup` gets beside a model.

use std::fs;
use std::path::Path;

use deltafin_testkit::hub::{DRAFTER, Hub, Missteps, drafter_files};

use crate::program::fixture;
use crate::setup::{Place, text};

fn place() -> Place {
    Place::of(Hub::serve_with_drafter(Path::new(&fixture("k3-micro")), Missteps::none()))
}

#[track_caller]
fn assert_drafter(dir: &Path) {
    for (name, bytes) in drafter_files() {
        assert!(fs::read(dir.join(&name)).expect("read") == bytes, "{name}");
    }
}

fn served(place: &Place) -> u64 {
    let ranges = place.hub.served().ranges;
    let of = ranges.iter().filter(|(name, _)| name.starts_with("drafter/"));
    of.flat_map(|(_, ranges)| ranges).map(|range| range.1).sum()
}

#[test]
fn a_drafter_that_is_named_comes_once_and_proven_into_a_folder_of_its_own() {
    let place = place();
    let (dir, source) = (place.at("here"), format!("hf:{DRAFTER}"));
    let args = ["--model", text(&dir), "--drafter", &source];
    let plan = place.setup(&[&args[..], &["--dry-run", "--json"]].concat()).json();
    let all: u64 = drafter_files().iter().map(|file| file.1.len() as u64).sum();
    assert_eq!(plan["drafter"]["missing"], all);
    // What tells that it is one: its configuration, and the header of its weights.
    let looked_at = served(&place);
    assert!(looked_at < 1000, "{looked_at}");
    place.setup(&args).ok();
    assert_drafter(&dir.join("drafter"));
    assert!(dir.join("drafter/.deltafin/install.json").exists());
    assert_eq!(served(&place), all + 2 * looked_at);
    // Again, and without its name: it is looked after, and nothing comes.
    for more in [&args[..], &args[..2]] {
        place.setup(more).ok();
        assert_eq!(served(&place), all + 2 * looked_at);
    }
}

#[test]
fn a_mirror_has_its_drafter_in_a_folder_and_none_is_no_fault() {
    let (place, bare) = (place(), Place::new(Missteps::none()));
    let dir = place.at("mirrored");
    place.run(&["setup", "--source", &place.hub.mirror(), "--model", text(&dir)]).ok();
    assert_drafter(&dir.join("drafter"));
    let dir = bare.at("mirrored");
    let ran = bare.run(&["setup", "--source", &bare.hub.mirror(), "--model", text(&dir)]);
    let said = ran.err.lines().filter(|line| line.contains("no drafter")).count();
    assert_eq!((ran.code, said), (Some(0), 1), "{ran:?}");
    assert!(!dir.join("drafter").exists());
    let quiet = ["setup", "--source", &bare.hub.mirror(), "--model", text(&dir), "--no-drafter"];
    assert!(!bare.run(&quiet).err.contains("drafter"));
    // A hub says nothing of which drafter is a model's.
    let ran = bare.setup(&["--model", text(&bare.at("hub"))]);
    assert!(ran.err.contains("no drafter is known for") && ran.code == Some(0), "{ran:?}");
}

#[test]
fn a_drafter_that_was_asked_for_and_is_not_to_be_had_is_a_fault() {
    let place = Place::new(Missteps::none());
    let source = format!("hf:{DRAFTER}");
    let dir = place.at("here");
    let refused = place.setup(&["--model", text(&dir), "--drafter", &source]);
    let line = refused.err.lines().last().unwrap_or_default();
    assert!(refused.code == Some(1) && line.contains(DRAFTER), "{refused:?}");
    // A model is no drafter.
    let model = fixture("k3-micro");
    let refused = place.setup(&["--model", text(&dir), "--drafter", &model]);
    let line = refused.err.lines().last().unwrap_or_default();
    assert!(refused.code == Some(1) && line.contains("no drafter: "), "{refused:?}");
    assert!(!dir.exists(), "nothing is fetched for what is refused");
}

#[test]
fn a_drafter_on_this_machine_is_used_where_it_is() {
    let place = Place::new(Missteps::none());
    let own = place.at("drafts");
    fs::create_dir(&own).expect("made");
    for (name, bytes) in drafter_files() {
        fs::write(own.join(name), bytes).expect("written");
    }
    let dir = place.at("here");
    for _ in 0..2 {
        place.setup(&["--model", text(&dir), "--drafter", text(&own)]).ok();
        assert_eq!(fs::read_link(dir.join("drafter")).expect("a link"), own);
    }
    // And beside a checkpoint that is here already.
    let copy = place.at("copy");
    fs::create_dir(&copy).expect("made");
    for (name, bytes) in deltafin_testkit::hub::checkpoint_files(Path::new(&fixture("k3-micro"))) {
        fs::write(copy.join(name), bytes).expect("written");
    }
    let args = ["setup", "--source", text(&copy), "--drafter", text(&own)];
    place.run(&args).ok();
    assert_drafter(&copy.join("drafter"));
    let ran = place.run(&["setup", "--source", text(&copy)]);
    assert!(ran.err.contains("used where it is") && ran.code == Some(0), "{ran:?}");
    assert_eq!(place.run(&["run", "--prompt-ids", "1,2", "--ids", "--max-new", "1"]).code, Some(0));
}

#[test]
fn what_is_no_drafter_is_refused_before_anything_comes() {
    let place = place();
    let (dir, model) = (place.at("here"), format!("hf:{}", deltafin_testkit::hub::REPOSITORY));
    let gone = place.at("gone");
    for named in [&model, text(&gone)] {
        for more in [&["--dry-run"][..], &[]] {
            let args = [&["--model", text(&dir), "--drafter", named], more].concat();
            let refused = place.setup(&args);
            let line = refused.err.lines().last().unwrap_or_default();
            assert!(refused.code == Some(1) && line.contains("no drafter: "), "{refused:?}");
        }
    }
    let served = place.hub.served().ranges;
    assert!(served.keys().all(|name| name == "config.json"), "{served:?}");
    assert!(!dir.exists());
    // One that lies there is no reason not to set up the model.
    place.setup(&["--no-drafter", "--model", text(&dir.join("drafter"))]).ok();
    let ran = place.setup(&["--model", text(&dir)]);
    assert!(ran.err.contains("no drafter: ") && ran.code == Some(0), "{ran:?}");
    let doctor = place.run(&["doctor", "--quick", "--offline", "--model", text(&dir)]);
    assert!(doctor.out.contains("DF-DRAFTER-01"), "{doctor:?}");
    let verified = place.run(&["verify", text(&dir)]);
    assert!(verified.code == Some(1) && verified.err.contains("no drafter: "), "{verified:?}");
}

#[test]
fn damage_of_a_drafter_is_found_and_mended_and_what_lies_about_is_listed() {
    let place = place();
    let (dir, source) = (place.at("here"), format!("hf:{DRAFTER}"));
    place.setup(&["--model", text(&dir), "--drafter", &source]).ok();
    let drafter = dir.join("drafter");
    let weights = drafter.join("model.safetensors");
    let mut bytes = fs::read(&weights).expect("read");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&weights, bytes).expect("written");
    let found = place.run(&["verify", "--deep", text(&dir)]);
    assert!(
        found.code == Some(1) && found.out.contains("drafter/model.safetensors: "),
        "{found:?}"
    );
    place.run(&["verify", "--deep", "--repair", text(&dir)]).ok();
    assert_drafter(&drafter);
    let doctor = place.run(&["doctor", "--quick", "--offline", "--model", text(&dir)]);
    assert!(doctor.out.contains("ok") && !doctor.out.contains("DF-DRAFTER"), "{doctor:?}");
    let left = drafter.join(".deltafin/config.json.map.new");
    fs::write(&left, "x").expect("written");
    assert!(place.run(&["gc", "--model", text(&dir)]).ok().contains(text(&left)));
    place.setup(&["--model", text(&dir)]).ok();
    assert!(!left.exists(), "the next setup removes it");
}

/// A folder with a drafter in it.
fn own(place: &Place, name: &str) -> std::path::PathBuf {
    let own = place.at(name);
    fs::create_dir(&own).expect("made");
    for (name, bytes) in drafter_files() {
        fs::write(own.join(name), bytes).expect("written");
    }
    own
}

fn names(dir: &Path) -> usize {
    fs::read_dir(dir).expect("a folder").count()
}

#[test]
fn a_link_gives_way_to_the_drafter_that_is_named_and_nothing_goes_through_it() {
    let (place, source) = (place(), format!("hf:{DRAFTER}"));
    let (dir, first, second) = (place.at("here"), own(&place, "first"), own(&place, "second"));
    let setup = |named: &str| place.setup(&["--model", text(&dir), "--drafter", named]);
    setup(text(&first)).ok();
    // Without a name it stays, also where the source has one.
    let (mirror, mirrored) = (place.hub.mirror(), place.at("mirrored"));
    let args = ["setup", "--source", &mirror, "--model", text(&mirrored)];
    place.run(&[&args[..], &["--drafter", text(&first)]].concat()).ok();
    let again = place.run(&args);
    assert!(again.err.contains("used where it is"), "{again:?}");
    assert_eq!(fs::read_link(mirrored.join("drafter")).expect("a link"), first);
    let other = setup(text(&second));
    assert!(other.err.contains(&format!("was a link to {}", first.display())), "{other:?}");
    assert_eq!(fs::read_link(dir.join("drafter")).expect("a link"), second);
    let fetched = setup(&source);
    assert!(fetched.err.contains(&format!("was a link to {}", second.display())), "{fetched:?}");
    assert_drafter(&dir.join("drafter"));
    assert!(dir.join("drafter/.deltafin/install.json").exists());
    assert_eq!((names(&first), names(&second)), (2, 2), "nothing was written there");
}

#[test]
fn a_drafter_that_was_fetched_or_put_there_does_not_give_way_in_silence() {
    let (place, source) = (place(), format!("hf:{DRAFTER}"));
    let (dir, first) = (place.at("here"), own(&place, "first"));
    let setup = |named: &str| place.setup(&["--model", text(&dir), "--drafter", named]);
    setup(&source).ok();
    let mirrored = format!("{}drafter/", place.hub.mirror());
    for named in [text(&first), &mirrored] {
        let refused = setup(named);
        let line = refused.err.lines().last().unwrap_or_default();
        let wanted = format!("it has the drafter from {source}, and --drafter {named} was asked");
        assert!(refused.code == Some(1) && line.contains(&wanted), "{refused:?}");
        assert!(line.contains("remove this folder"), "{line}");
    }
    fs::remove_dir_all(dir.join("drafter")).expect("removed");
    fs::rename(&first, dir.join("drafter")).expect("moved");
    let refused = setup(&source);
    assert!(refused.code == Some(1) && refused.err.contains("did not bring"), "{refused:?}");
    assert_eq!(names(&dir.join("drafter")), 2);
    let kept = place.setup(&["--model", text(&dir)]);
    assert!(kept.err.contains("used where it is") && kept.code == Some(0), "{kept:?}");
}

#[test]
fn a_link_that_leads_nowhere_is_named_with_where_it_leads() {
    let place = place();
    let (dir, gone) = (place.at("here"), own(&place, "gone"));
    place.setup(&["--model", text(&dir), "--drafter", text(&gone)]).ok();
    fs::remove_dir_all(&gone).expect("removed");
    let link = dir.join("drafter");
    let words =
        format!("{}: it is a link to {}, which is not there", link.display(), gone.display());
    let doctor = place.run(&["doctor", "--quick", "--offline", text(&dir)]);
    assert!(doctor.out.contains(&words), "{doctor:?}");
    for args in [&["verify", text(&dir)][..], &["setup", "--model", text(&dir)]] {
        let ran = place.run(args);
        assert!(ran.err.contains(&words), "{ran:?}");
    }
    assert!(link.is_symlink());
    place.setup(&["--model", text(&dir), "--drafter", &format!("hf:{DRAFTER}")]).ok();
    assert_drafter(&link);
}
