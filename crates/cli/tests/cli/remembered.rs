//! What `setup` does with the folder that it remembers, and with what that came from.

use std::fs;
use std::path::Path;

use deltafin_testkit::hub::{Hub, Missteps, checkpoint_files};

use crate::program::{Ran, fixture, ran};
use crate::setup::{Place, assert_whole, text};

/// Sets up from a place's mirror, without looking for a drafter.
fn from_mirror(place: &Place, hub: &Hub, more: &[&str]) -> Ran {
    place.run(&[&["setup", "--no-drafter", "--source", &hub.mirror()], more].concat())
}

#[test]
fn without_a_folder_setup_goes_on_with_the_remembered_one_and_its_mirror() {
    let place = Place::new(Missteps::none());
    let dir = place.at("mirrored");
    from_mirror(&place, &place.hub, &["--stream", "--model", text(&dir)]).ok();
    for more in [&["--layers", "1-2"][..], &["--spine", "bf16"], &[], &["--full"]] {
        let again = place.run(&[&["setup", "--no-drafter"], more].concat());
        assert_eq!(again.code, Some(0), "{more:?}: {again:?}");
        assert!(again.err.contains(&format!("asking {}", place.hub.mirror())), "{again:?}");
    }
    assert_whole(&dir);
}

#[test]
fn a_mirror_is_refused_where_another_one_was_begun() {
    let (place, other) =
        (Place::new(Missteps::none()), checkpoint_files(Path::new(&fixture("k3-micro"))));
    let other = Hub::serve(other, Missteps::none());
    let dir = place.at("data/deltafin/model");
    from_mirror(&place, &place.hub, &["--stream"]).ok();
    for more in [&[][..], &["--full"], &["--layers", "1-2"], &["--full", "--dry-run"]] {
        let refused = from_mirror(&place, &other, more);
        let line = refused.err.lines().last().unwrap_or_default();
        let names = [text(&dir), &place.hub.mirror(), &other.mirror(), "--model"];
        assert_eq!(refused.code, Some(1), "{more:?}: {refused:?}");
        assert!(names.iter().all(|name| line.contains(name)), "{more:?}: {line}");
    }
    from_mirror(&place, &place.hub, &["--full"]).ok();
    assert_whole(&dir);
}

#[test]
fn where_the_remembered_folder_is_gone_setup_begins_anew() {
    let place = Place::new(Missteps::none());
    fs::create_dir_all(place.at("config/deltafin")).expect("made");
    for useless in ["/gone\n", "somewhere\n"] {
        fs::write(place.at("config/deltafin/model"), useless).expect("written");
        let anew = place.setup(&["--no-drafter"]);
        assert!(anew.err.contains("as if nothing were remembered"), "{anew:?}");
        assert!(anew.err.contains(useless.trim()) && anew.code == Some(0), "{anew:?}");
        let again = place.setup(&["--no-drafter"]);
        assert!(!again.err.contains("remembered") && again.code == Some(0), "{again:?}");
    }
    assert_whole(&place.at("data/deltafin/mini"));
}

#[test]
fn what_is_in_the_way_of_a_folder_is_named() {
    let (place, folder) = (Place::new(Missteps::none()), fixture("k3-micro"));
    let (gone, dir) = (place.at("gone"), place.at("here"));
    let nothing = place.run(&["setup", "--source", text(&gone), "--model", text(&dir)]).refusal();
    assert!(nothing.contains("no such folder") && nothing.contains(text(&gone)), "{nothing}");
    let mut named = place.command(&["setup", "--source", &folder]);
    let twice = ran(named.env("DELTAFIN_MODEL", &dir).output().expect("starts")).refusal();
    assert!(twice.contains("DELTAFIN_MODEL") && !twice.contains("--model"), "{twice}");
}

#[test]
fn where_nothing_can_be_remembered_the_last_line_names_the_folder() {
    let (place, folder) = (Place::new(Missteps::none()), fixture("k3-micro"));
    fs::write(place.at("config"), "a file").expect("written");
    let ready = place.run(&["setup", "--source", &folder]);
    assert!(ready.err.contains("cannot remember it") && ready.code == Some(0), "{ready:?}");
    let full = fs::canonicalize(&folder).expect("there");
    let wanted = format!("ready: deltafin chat --model '{}'", full.display());
    assert!(ready.err.lines().last().is_some_and(|line| line.ends_with(&wanted)), "{ready:?}");
}
