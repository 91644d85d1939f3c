//! `gc`: what may go is listed, what may not stays.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use deltafin_testkit::hub::{Missteps, REPOSITORY};
use serde_json::Value;

use crate::program::command;
use crate::setup::{Place, text};

/// How many of a kind there are.
fn count(report: &Value, kind: &str) -> usize {
    let found = report["found"].as_array().expect("a list");
    found.iter().filter(|found| found["kind"] == kind).count()
}

#[test]
fn a_begun_installation_goes_only_when_that_is_asked_for() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    place.setup(&["--layers", "1-2", "--model", text(&dir)]).ok();
    let parts = || fs::read_dir(&dir).expect("a folder").flatten();
    let parts = || parts().filter(|e| e.path().extension().is_some_and(|e| e == "part")).count();
    let begun = parts();
    assert!(begun > 0);
    let gc = |more: &[&str]| place.run(&[&["gc", "--json", "--model", text(&dir)], more].concat());
    let listed = gc(&[]).json();
    assert_eq!((count(&listed, "partial"), &listed["freed"]), (begun, &Value::from(0)), "{listed}");
    gc(&["--yes"]).ok();
    assert_eq!(parts(), begun);
    let freed = gc(&["--yes", "--partial"]).json();
    assert_eq!((parts(), freed["freed"] == freed["bytes"]), (0, true), "{freed}");
    // What is left is gone on from.
    place.setup(&["--full", "--model", text(&dir)]).ok();
    assert!(place.run(&["verify", "--deep", text(&dir)]).ok().contains("nothing is damaged"));
    assert!(place.run(&["gc", "--model", text(&dir)]).ok().contains("nothing lies about"));
}

#[test]
fn what_a_setup_is_at_work_on_is_left_alone() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    let source = format!("hf:{REPOSITORY}");
    let args = ["setup", "--source", &source, "--model", text(&dir), "--limit-rate", "200K"];
    let mut setup = place.command(&args);
    let mut setup = setup.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    let first = dir.join("model-00001-of-000012.safetensors.part");
    while !first.exists() {
        assert_eq!(setup.try_wait().expect("known"), None);
        sleep(Duration::from_millis(5));
    }
    let gc = place.run(&["gc", "--yes", "--partial", "--model", text(&dir)]);
    assert!(gc.err.contains("left alone") && gc.err.contains("is setting it up"), "{gc:?}");
    assert!(first.exists() && gc.out.contains("nothing lies about"), "{gc:?}");
    setup.kill().expect("killed");
    setup.wait().expect("ended");
}

#[test]
fn what_was_not_used_for_long_is_old() {
    let place = Place::new(Missteps::none());
    let heat = place.at("state/deltafin/heat");
    fs::create_dir_all(&heat).expect("made");
    for (name, days) in [("old.heat", 200), ("new.heat", 1)] {
        let file = fs::File::create(heat.join(name)).expect("made");
        let then = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
        file.set_modified(then).expect("set");
    }
    let gc = |more: &[&str]| {
        let mut command = command();
        command.env("XDG_STATE_HOME", place.at("state")).env("XDG_CACHE_HOME", place.at("cache"));
        crate::program::ran(command.args(["gc"]).args(more).output().expect("starts"))
    };
    let listed = gc(&["--json"]).json();
    assert_eq!((count(&listed, "old"), count(&listed, "orphaned")), (1, 0), "{listed}");
    assert!(heat.join("old.heat").exists());
    gc(&["--yes"]).ok();
    assert!(!heat.join("old.heat").exists() && heat.join("new.heat").exists());
    let misuse = gc(&["--partial"]);
    assert_eq!(misuse.code, Some(2), "{misuse:?}");
}
