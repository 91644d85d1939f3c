//! Experts of a streamed model that are fetched ahead of time, against a hub on loopback.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::program::{deltafin, fixture, ran, spawn};
use crate::setup::{Place, text};
use crate::streamed::{args, assert_once, streamed, wanted};

fn warm(place: &Place, dir: &Path, more: &[&str]) -> crate::program::Ran {
    place.run(&[&["warm", text(dir)], more].concat())
}

/// Routes of the text that the other tests here generate.
fn trace(place: &Place) -> PathBuf {
    let path = place.at("routes.jsonl");
    let micro = fixture("k3-micro");
    let run = [&args(Path::new(&micro))[..], &["--route-trace", text(&path)]].concat();
    place.run(&run).ok();
    path
}

fn events(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn what_a_trace_names_comes_before_the_run_that_needs_it() {
    let (place, dir, spine) = streamed();
    let trace = trace(&place);
    let more = ["--trace", text(&trace)];
    let show = [&more[..], &["--show"]].concat();
    let table = warm(&place, &dir, &show).ok();
    assert!(table.contains("to fetch") && table.contains("100.0 %"), "{table}");
    let plan = warm(&place, &dir, &[&show[..], &["--json"]].concat()).json();
    assert_eq!(place.hub.served().bytes(), spine, "a plan fetches nothing");
    assert_eq!((&plan["event"], &plan["found_then"]), (&"plan".into(), &1.0.into()));
    assert!(plan["found"].as_f64().expect("a number") < 1.0, "{plan}");
    let layers = plan["layers"].as_array().expect("rows");
    let coming = |share: &Value| share["coming"]["bytes"].as_u64().expect("a number");
    assert_eq!(layers.iter().map(coming).sum::<u64>(), coming(&plan));

    let events = events(&warm(&place, &dir, &[&more[..], &["--json"]].concat()).ok());
    let done = events.last().expect("an end");
    assert_eq!((&done["event"], &done["received"]), (&"done".into(), &coming(&plan).into()));
    assert_eq!(done["records"], plan["coming"]["records"]);
    assert_eq!(place.hub.served().bytes(), spine + coming(&plan));
    assert_eq!(place.run(&args(&dir)).ok(), wanted());
    assert_eq!(place.hub.served().bytes(), spine + coming(&plan), "the run found all of it here");
    let again = warm(&place, &dir, &more).ok();
    assert!(!again.contains("fetched"), "{again}");
    assert_once(&place.hub);
}

#[test]
fn what_runs_learned_comes_and_whole_layers_do() {
    let (place, dir, spine) = streamed();
    let state = place.at("state");
    let with_state = |args: &[&str]| {
        ran(place.command(args).env("XDG_STATE_HOME", &state).output().expect("starts"))
    };
    let unknown = with_state(&["warm", text(&dir), "--heat"]).refusal();
    assert!(unknown.contains("no earlier run") && unknown.contains("--layers"), "{unknown}");
    // Another folder with the same weights, in so little memory that there is something to learn.
    let micro = fixture("k3-micro");
    with_state(&[&args(Path::new(&micro))[..], &["--slabs", "12"]].concat()).ok();
    let done = with_state(&["warm", text(&dir), "--heat"]).ok();
    assert!(done.contains("experts more are here"), "{done}");
    let came = place.hub.served().bytes();
    assert!(came > spine);
    assert_eq!(place.run(&args(&dir)).ok(), wanted());
    assert_eq!(place.hub.served().bytes(), came, "what the same text chose is here");

    let plan = warm(&place, &dir, &["--layers", "2-3", "--show", "--json"]).json();
    assert!(plan["found"].is_null(), "{plan}");
    let done = warm(&place, &dir, &["--layers", "2-3", "--limit-rate", "100M"]).ok();
    assert!(done.contains("fetched"), "{done}");
    let coming = plan["coming"]["bytes"].as_u64().expect("a number");
    assert_eq!(place.hub.served().bytes(), came + coming);
    let again = events(&warm(&place, &dir, &["--layers", "2-3", "--json"]).ok());
    let names: Vec<_> = again.iter().map(|event| &event["event"]).collect();
    assert_eq!(names, ["plan", "done"], "all of these are here");
    let beyond = warm(&place, &dir, &["--layers", "2-99"]).refusal();
    assert!(beyond.contains("has layers 0 to"), "{beyond}");
    assert_once(&place.hub);
}

#[test]
fn an_interrupt_keeps_what_came_and_the_next_one_goes_on() {
    let (place, dir, spine) = streamed();
    let more = ["warm", text(&dir), "--layers", "0-5", "--jobs", "2"];
    let child = spawn(&mut place.command(&[&more[..], &["--limit-rate", "512K"]].concat()));
    while place.hub.served().bytes() == spine {
        sleep(Duration::from_millis(5));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    let ended = ran(child.wait_with_output().expect("ends"));
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.err.contains("the same command goes on"), "{ended:?}");
    place.run(&more).ok();
    assert_eq!(place.run(&args(&dir)).ok(), wanted());
}

#[test]
fn what_cannot_be_warmed_is_named() {
    let micro = fixture("k3-micro");
    let whole = deltafin(&["warm", &micro, "--layers", "0-2"]).ok();
    assert!(whole.contains("nothing is to be fetched"), "{whole}");
    assert!(deltafin(&["warm", "demo", "--heat"]).ok().contains("nothing is to be fetched"));
    let line = deltafin(&["warm", &micro]).usage();
    assert!(line.contains("--trace FILE, --heat or --layers"), "{line}");
    deltafin(&["warm", &micro, "--heat", "--layers", "1"]).usage();
    let (place, dir, _) = streamed();
    let foreign = place.at("foreign.jsonl");
    let head = r#"{"format":"deltafin routes","version":1,"layers":4,"experts":8,"top_k":2}"#;
    fs::write(&foreign, format!("{head}\n")).expect("written");
    let line = warm(&place, &dir, &["--trace", text(&foreign)]).refusal();
    assert!(line.contains("4 layers of 8 experts"), "{line}");
}
