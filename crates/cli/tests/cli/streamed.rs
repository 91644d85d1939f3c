//! Models whose experts come over the network, against a hub on loopback.

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use deltafin_testkit::hub::{Draw, Hub, Misstep, Missteps, REPOSITORY};
use serde_json::json;

use crate::program::{Ran, deltafin, fixture, ran, spawn};
use crate::serve::{ask, begin, terminate};
use crate::setup::{Place, assert_in_flight, assert_whole, kills, text};

const RUN: [&str; 5] = ["run", "--prompt-ids", "5,9,2,44", "--ids", "--ignore-eos"];
const LENGTH: [&str; 2] = ["--max-new", "12"];

pub(crate) fn args(dir: &Path) -> Vec<&str> {
    [&RUN[..], &LENGTH, &["--model", text(dir)]].concat()
}

fn run(place: &Place, dir: &Path, more: &[&str]) -> Ran {
    place.run(&[&args(dir)[..], more].concat())
}

pub(crate) fn wanted() -> String {
    deltafin(&args(Path::new(&fixture("k3-micro")))).ok()
}

/// A place with a folder that streams, and the bytes that it took.
pub(crate) fn streamed() -> (Place, std::path::PathBuf, u64) {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    let out = place.setup(&["--stream", "--model", text(&dir)]).ok();
    assert!(out.contains("experts come when they are needed"), "{out}");
    let bytes = place.hub.served().bytes();
    (place, dir, bytes)
}

/// No byte was sent twice.
#[track_caller]
pub(crate) fn assert_once(hub: &Hub) {
    for (name, ranges) in &hub.served().ranges {
        let mut seen = HashSet::new();
        assert!(ranges.iter().all(|range| seen.insert(range.0)), "{name}: {ranges:?}");
    }
}

#[test]
fn a_model_runs_while_its_experts_come_and_becomes_whole_in_place() {
    let (place, dir, spine) = streamed();
    let wanted = wanted();
    place.hub.answer_late(Duration::from_millis(3));
    let first = run(&place, &dir, &["--stats"]);
    assert!(first.err.contains("experts fetched"), "{first:?}");
    assert_eq!(first.ok(), wanted);
    let came = place.hub.served().bytes();
    assert!(came > spine);
    // The second time all of it is here, and other commands find what they need.
    assert_eq!(run(&place, &dir, &[]).ok(), wanted);
    let inspected = place.run(&["inspect", text(&dir)]).ok();
    assert!(inspected.contains("problems      none"), "{inspected}");
    assert!(place.run(&["verify", "--deep", text(&dir)]).ok().contains("nothing is damaged"));
    assert_eq!(place.hub.served().bytes(), came);
    let again = place.setup(&["--model", text(&dir)]).ok();
    assert!(again.contains("ready already"), "{again}");
    place.setup(&["--full", "--model", text(&dir)]).ok();
    assert_eq!(place.hub.served().bytes(), place.hub.bytes());
    assert_once(&place.hub);
    assert_whole(&dir);
    assert_eq!(run(&place, &dir, &[]).ok(), wanted);
}

/// Bytes of the drive that files in the making take.
fn taken(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = std::fs::read_dir(dir).expect("a folder").flatten();
    let parts = entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "part"));
    parts.map(|part| part.metadata().expect("known").blocks() * 512).sum()
}

#[test]
fn a_limited_cache_stays_within_its_limit_and_says_the_same_also_when_killed() {
    let (place, dir, _) = streamed();
    let (wanted, begun) = (wanted(), taken(&dir));
    let refused = run(&place, &dir, &["--cache-limit", "1K"]).refusal();
    assert!(refused.contains("--cache-limit 1024 is too small"), "{refused}");
    let least = refused.rsplit("at least ").next().and_then(|rest| rest.split(',').next());
    let least = least.expect("the smallest that works");
    let bytes: u64 = least.trim_end_matches('K').parse().expect("a number");
    let limited = run(&place, &dir, &["--cache-limit", least, "--stats"]);
    assert!(limited.err.contains("others made room"), "{limited:?}");
    assert_eq!(limited.ok(), wanted);
    assert!(taken(&dir) - begun <= bytes << 10);
    let inspected = place.run(&["inspect", text(&dir)]).ok();
    assert!(
        inspected.contains(" experts are here") && inspected.contains("   here"),
        "{inspected}"
    );
    let (mut draw, args) = (Draw(11), [&args(&dir)[..], &["--cache-limit", least]].concat());
    place.hub.answer_late(Duration::from_millis(1));
    for _ in 0..kills() {
        let mut run = place.command(&args);
        let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        sleep(Duration::from_millis(draw.below(300)));
        child.kill().expect("killed"); // SIGKILL
        child.wait().expect("ends");
    }
    let tidied = place.run(&["gc", "--yes", "--json", "--model", text(&dir)]).json();
    assert_eq!(tidied["freed"], tidied["bytes"]);
    assert!(place.run(&["gc", "--model", text(&dir)]).ok().contains("nothing lies about"));
    assert!(place.run(&["verify", "--deep", text(&dir)]).ok().contains("nothing is damaged"));
    assert!(taken(&dir) - begun <= bytes << 10);
    assert_eq!(run(&place, &dir, &["--cache-limit", least]).ok(), wanted);
    place.setup(&["--full", "--model", text(&dir)]).ok();
    assert_whole(&dir);
    let whole = run(&place, &dir, &["--cache-limit", least]);
    assert!(whole.err.contains("--cache-limit has no effect"), "{whole:?}");
    assert_eq!(whole.ok(), wanted);
}

#[test]
fn a_dry_run_says_to_the_byte_what_would_come() {
    let place = Place::new(Missteps::none());
    let report = place.setup(&["--stream", "--dry-run", "--json"]).json();
    let looked_at = place.hub.served().bytes();
    assert_eq!((&report["streams"], &report["bytes"]), (&true.into(), &place.hub.bytes().into()));
    place.setup(&["--stream"]).ok();
    assert_eq!(report["missing"], place.hub.served().bytes() - looked_at);
    let words = place.setup(&["--full", "--dry-run"]).ok();
    assert!(words.contains(" of ") && words.contains("to fetch"), "{words}");
}

#[test]
fn a_lost_network_ends_the_reply_with_what_was_said() {
    let (place, dir, _) = streamed();
    let short = [&RUN[..], &["--max-new", "2", "--model", text(&dir)]].concat();
    let said = place.run(&short);
    assert_eq!(said.code, Some(0), "{said:?}");
    place.hub.misstep(Missteps::of(&[Misstep::Unavailable], u64::MAX));
    // What setup is told holds for the runs after it.
    place.setup(&["--stream", "--patience", "0", "--model", text(&dir)]).ok();
    let lost = run(&place, &dir, &[]);
    assert_eq!(lost.code, Some(1), "{lost:?}");
    assert!(lost.out.starts_with(said.out.trim_end()), "{lost:?}");
    assert!(lost.err.contains("waiting for experts: model-000"), "{lost:?}");
    assert!(lost.err.contains("given up after 0 s (--patience)"), "{lost:?}");
    let line = lost.err.lines().last().unwrap_or_default();
    assert!(line.contains("503") && line.contains("layer") && line.contains("expert"), "{line}");
    place.hub.misstep(Missteps::none());
    assert_eq!(run(&place, &dir, &[]).ok(), wanted());
}

#[test]
fn an_interrupt_ends_the_wait_for_a_lost_network() {
    let (place, dir, _) = streamed();
    place.hub.misstep(Missteps::of(&[Misstep::Unavailable], u64::MAX));
    let mut command = place.command(&args(&dir));
    let mut child = spawn(&mut command);
    wait_for_words(&mut child, "waiting for experts");
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(child.wait().expect("ends").code(), Some(130));
}

/// A server of this folder, and its address.
fn served(place: &Place, dir: &Path, more: &[&str]) -> (Child, String) {
    let serve = ["serve", "--port", "0", "--snapshot-disk", "0", "--model", text(dir)];
    let mut child = spawn(&mut place.command(&[&serve, more].concat()));
    let line = wait_for_words(&mut child, " on http://");
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    (child, address.expect("an address").to_owned())
}

/// What the server has counted under this name.
#[track_caller]
fn counted(address: &str, name: &str) -> String {
    let page = ask(address, "/metrics", "");
    let found = page.lines().find_map(|one| one.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("{name}: {page}")).to_owned()
}

/// A source that answers nothing holds nobody who has left, whether it says that or is silent.
#[test]
fn a_client_that_leaves_a_server_ends_its_wait_for_a_lost_network() {
    for misstep in [Misstep::Unavailable, Misstep::Silence] {
        let (place, dir, _) = streamed();
        place.hub.misstep(Missteps::of(&[misstep], u64::MAX));
        let (child, address) = served(&place, &dir, &[]);
        let counts = |name: &str| counted(&address, name);
        let body = r#"{"prompt":"one two three","max_tokens":2,"stream":true}"#;
        let asked = begin(&address, "/v1/completions", body);
        until("asked", || counts("deltafin_network_requests_total") != "0");
        drop(asked);
        until("idle", || counts("deltafin_busy") == "0");
        if misstep == Misstep::Unavailable {
            assert_ne!(counts("deltafin_network_waits_total"), "0");
        }
        place.hub.misstep(Missteps::none());
        let answer = ask(&address, "/v1/completions", body);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("[DONE]"), "{answer}");
        assert_ne!(counts("deltafin_network_bytes_total"), "0");
        terminate(child);
    }
}

/// A server that is to end does not end the wait: the reply may finish if the network comes back, and is broken off
/// after the grace if it does not. Either way the client has what was said.
#[test]
fn a_reply_that_waits_for_a_lost_network_has_the_grace() {
    let body = |count: usize| {
        format!(r#"{{"prompt":"one two three","max_tokens":{count},"stream":true}}"#)
    };
    for (grace, comes_back) in [("60", true), ("1", false)] {
        let (place, dir, _) = streamed();
        let (mut child, address) = served(&place, &dir, &["--shutdown-grace", grace]);
        let first = said(&ask(&address, "/v1/completions", &body(2)));
        place.hub.misstep(Missteps::of(&[Misstep::Unavailable], u64::MAX));
        let mut asked = begin(&address, "/v1/completions", &body(60));
        until("waits", || counted(&address, "deltafin_network_waits_total") != "0");
        let kill = std::process::Command::new("kill").arg(child.id().to_string()).status();
        assert!(kill.expect("kill runs").success());
        until("ends", || !is_well(&address));
        if comes_back {
            place.hub.misstep(Missteps::none());
        }
        let mut answer = String::new();
        asked.read_to_string(&mut answer).expect("UTF-8");
        assert!(said(&answer).starts_with(first.trim_end_matches('\u{fffd}')), "{answer}");
        assert_eq!(answer.contains("[DONE]"), comes_back, "{answer}");
        assert_eq!(answer.contains("shutting_down"), !comes_back, "{answer}");
        assert_eq!(child.wait().expect("ends").code(), Some(0));
    }
}

/// Whether a server takes requests. One that has ended does not, nor one that is about to.
fn is_well(address: &str) -> bool {
    let Ok(mut socket) = TcpStream::connect(address) else { return false };
    let request = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    socket.write_all(request.as_bytes()).is_ok()
        && socket.read_to_string(&mut answer).is_ok()
        && answer.contains("\"ok\"")
}

/// The text of a stream of a completion.
fn said(answer: &str) -> String {
    let events = answer.lines().filter_map(|line| line.strip_prefix("data: {"));
    let text = |event: &str| {
        let event: serde_json::Value = serde_json::from_str(&format!("{{{event}")).expect("JSON");
        event["choices"][0]["text"].as_str().unwrap_or_default().to_owned()
    };
    events.map(text).collect()
}

/// Waits for what must come long before the patience with a source ends.
#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
        sleep(Duration::from_millis(20));
    }
}

/// Reads what a process says until these words come, and gives their line.
fn wait_for_words(child: &mut Child, words: &str) -> String {
    use std::io::{BufRead as _, BufReader};
    let err = child.stderr.take().expect("piped");
    let mut lines = BufReader::new(err).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}"));
    // Whoever writes more must find a reader.
    std::thread::spawn(move || lines.for_each(drop));
    line
}

#[test]
fn two_processes_share_what_comes() {
    let (place, dir, _) = streamed();
    place.hub.answer_late(Duration::from_millis(3));
    let start = || spawn(&mut place.command(&args(&dir)));
    let both = [start(), start(), start()];
    let wanted = wanted();
    for child in both {
        assert_eq!(ran(child.wait_with_output().expect("ends")).ok(), wanted);
    }
    assert_once(&place.hub);
}

/// Runs that are killed at moments of all kinds.
fn run_and_kill(place: &Place, dir: &Path) {
    let mut draw = Draw(5);
    for _ in 0..kills() {
        let mut run = place.command(&args(dir));
        let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        sleep(Duration::from_millis(draw.below(400)));
        child.kill().expect("killed"); // SIGKILL
        child.wait().expect("ends");
    }
}

#[test]
fn killed_at_any_moment_it_goes_on() {
    let (place, dir, _) = streamed();
    let wanted = wanted();
    place.hub.answer_late(Duration::from_millis(4));
    run_and_kill(&place, &dir);
    assert_eq!(run(&place, &dir, &[]).ok(), wanted);
    place.setup(&["--full", "--model", text(&dir)]).ok();
    assert_whole(&dir);
    // Eight requests at once.
    assert_in_flight(&place.hub, &mut 0, 2 * kills());
    assert_eq!(run(&place, &dir, &[]).ok(), wanted);
}

/// As on a drive whose files have no holes.
#[test]
fn layer_by_layer_it_says_the_same_killed_limited_warmed_and_made_whole() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    place.setup(&["--stream", "--layout", "layers", "--model", text(&dir)]).ok();
    let wanted = wanted();
    place.hub.answer_late(Duration::from_millis(4));
    run_and_kill(&place, &dir);
    place.hub.answer_late(Duration::ZERO);
    let both = [(); 2].map(|()| spawn(&mut place.command(&args(&dir))));
    for child in both {
        assert_eq!(ran(child.wait_with_output().expect("ends")).ok(), wanted);
    }
    place.run(&["warm", text(&dir), "--layers", "2-3"]).ok();
    assert!(place.run(&["verify", "--deep", text(&dir)]).ok().contains("nothing is damaged"));
    let inspected = place.run(&["inspect", text(&dir)]).ok();
    assert!(inspected.contains("problems      none"), "{inspected}");
    let doctor = place.run(&["doctor", "--quick", text(&dir)]);
    assert!(doctor.out.contains("come when they are needed"), "{doctor:?}");
    place.run(&["gc", "--yes", "--model", text(&dir)]).ok();
    let came = place.hub.served().bytes();
    assert_eq!(run(&place, &dir, &[]).ok(), wanted);
    assert_eq!(place.hub.served().bytes(), came, "all of it was here");
    let refused = run(&place, &dir, &["--cache-limit", "1K"]).refusal();
    let least = refused.rsplit("at least ").next().and_then(|rest| rest.split(',').next());
    let limited = run(&place, &dir, &["--cache-limit", least.expect("the smallest that works")]);
    assert_eq!(limited.ok(), wanted);
    place.setup(&["--full", "--model", text(&dir)]).ok();
    assert_whole(&dir);
    assert_eq!(run(&place, &dir, &[]).ok(), wanted);
}

#[test]
fn a_layers_file_that_lost_its_experts_is_one_line_with_what_helps() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    place.setup(&["--stream", "--layout", "layers", "--model", text(&dir)]).ok();
    place.run(&["warm", text(&dir), "--layers", "2-3"]).ok();
    let records = |layer: u32| dir.join(format!("experts-{layer:03}.records"));
    std::fs::remove_file(records(2)).expect("removed");
    let cut = std::fs::OpenOptions::new().write(true).open(records(3)).expect("opened");
    let length = cut.metadata().expect("known").len();
    cut.set_len(length / 2).expect("cut");
    let found = place.run(&["verify", text(&dir)]);
    let lines: Vec<&str> = found.out.lines().collect();
    assert_eq!((found.code, lines.len()), (Some(1), 3), "{found:?}");
    assert!(lines[0].starts_with("experts-002.records: ends before 15 experts that came"));
    assert!(lines[1].starts_with("experts-003.records: ends before "), "{lines:?}");
    assert!(lines[2].contains("--repair makes that good again"), "{lines:?}");
    let each = place.run(&["verify", "--json", text(&dir)]);
    let each: serde_json::Value = serde_json::from_str(&each.out).expect("JSON");
    assert!(each["damage"].as_array().expect("a list").len() > 20, "{each}");
    let doctor = place.run(&["doctor", "--quick", "--offline", text(&dir)]);
    assert_eq!(doctor.out.matches(": ends before ").count(), 2, "{doctor:?}");
    assert!(doctor.out.contains("deltafin verify --repair"), "{doctor:?}");
    place.run(&["verify", "--repair", text(&dir)]).ok();
    assert_eq!(run(&place, &dir, &[]).ok(), wanted());
}

/// What no expert has of a layer's file: at its end it can go, between experts it is filled.
#[test]
fn free_slots_of_layers_are_told_and_freed_where_they_can_be() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    place.setup(&["--stream", "--layout", "layers", "--model", text(&dir)]).ok();
    place.run(&["warm", text(&dir), "--layers", "2"]).ok();
    let gc = |more: &[&str]| place.run(&[&["gc", "--json", text(&dir)], more].concat()).json();
    assert_eq!((&gc(&[])["found"], &gc(&[])["free_slots"]), (&json!([]), &json!(0)));
    let map = dir.join(".deltafin/model-00003-of-000012.safetensors.map");
    let lines = std::fs::read_to_string(&map).expect("read");
    let places = |line: &&str| Some(line.rsplit_once(" 2 ")?.1.parse::<u64>().expect("a place"));
    let mut slots: Vec<u64> = lines.lines().collect::<Vec<_>>().iter().filter_map(places).collect();
    slots.sort_unstable();
    assert_eq!(slots.len(), 15, "{lines}");
    let length = std::fs::metadata(dir.join("experts-002.records")).expect("there").len();
    // Lost are the lines of the second slot and the last.
    let is_lost = |line: &&str| [slots[1], slots[14]].contains(&places(line).unwrap_or(u64::MAX));
    let kept: String =
        lines.split_inclusive('\n').filter(|line| !is_lost(&line.trim_end())).collect();
    std::fs::write(&map, kept).expect("written");
    let slot = length / 15;
    let told = gc(&[]);
    assert_eq!((&told["bytes"], &told["free_slots"]), (&slot.into(), &slot.into()), "{told}");
    let words = place.run(&["gc", text(&dir)]).ok();
    assert!(words.contains("are free between them"), "{words}");
    assert_eq!(gc(&["--yes"])["freed"], slot);
    let left = std::fs::metadata(dir.join("experts-002.records")).expect("there").len();
    assert_eq!((left, &gc(&[])["found"]), (length - slot, &json!([])));
    assert!(place.run(&["verify", "--deep", text(&dir)]).ok().contains("nothing is damaged"));
    assert_eq!(run(&place, &dir, &[]).ok(), wanted());
}

#[test]
fn set_up_that_is_killed_goes_on_too() {
    let place = Place::new(Missteps::none());
    let (dir, mut draw) = (place.at("here"), Draw(9));
    let source = format!("hf:{REPOSITORY}");
    let args = ["setup", "--stream", "--source", &source, "--limit-rate", "4M", "--jobs", "4"];
    let args = [&args[..], &["--model", text(&dir)]].concat();
    for _ in 0..kills() {
        let mut setup = place.command(&args);
        let mut child = setup.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        sleep(Duration::from_millis(draw.below(300)));
        child.kill().expect("killed"); // SIGKILL
        if !child.wait().expect("ends").success() && dir.join(".deltafin/stream.json.part").exists()
        {
            let refused = run(&place, &dir, &[]).refusal();
            assert!(refused.contains("not finished"), "{refused}");
        }
    }
    place.setup(&["--stream", "--model", text(&dir)]).ok();
    assert_eq!(run(&place, &dir, &[]).ok(), wanted());
    place.setup(&["--full", "--model", text(&dir)]).ok();
    assert_whole(&dir);
    assert_in_flight(&place.hub, &mut 0, kills());
}

/// As on a drive whose files have no holes.
#[test]
fn layers_come_where_they_lie_layer_by_layer_and_the_rest_when_it_is_needed() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    let layers = ["--layers", "2-3", "--layout", "layers", "--model", text(&dir)];
    let would = place.setup(&[&layers[..], &["--dry-run", "--json"]].concat()).ok();
    let would: serde_json::Value =
        serde_json::from_str(would.lines().last().expect("a line")).expect("JSON");
    let looked_at = place.hub.served().bytes();
    let out = place.setup(&layers);
    // Which layers there are is looked up before anything comes.
    let config = std::fs::metadata(dir.join("config.json")).expect("it came").len();
    assert_eq!(would["missing"], place.hub.served().bytes() - looked_at - config);
    assert!(out.err.contains("one file for each layer"), "{out:?}");
    out.ok();
    let shown = place.run(&["warm", "--layers", "2-3", "--show", text(&dir)]).ok();
    assert!(shown.contains("here"), "{shown}");
    let came = place.hub.served().bytes();
    place.run(&["warm", "--layers", "2-3", text(&dir)]).ok();
    assert_eq!(place.hub.served().bytes(), came, "the experts of the layers are here");
    assert_eq!(run(&place, &dir, &[]).ok(), wanted());
    assert!(place.hub.served().bytes() > came);
}

/// Every file below a folder, as text where it is text.
fn all_text(dir: &Path) -> String {
    let entries = std::fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry"));
    let text = |path: &Path| match path.is_dir() {
        true => all_text(path),
        false => String::from_utf8_lossy(&std::fs::read(path).expect("read")).into_owned(),
    };
    entries.map(|entry| text(&entry.path())).collect()
}

#[test]
fn a_mirror_s_password_is_there_when_experts_come_and_shown_to_nobody() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    let mirror = place.hub.mirror();
    let with_login = mirror.replace("http://", "http://a%20name:a%3Apass@");
    place.hub.require_login("YSBuYW1lOmE6cGFzcw==");
    let refused = place.run(&["setup", "--stream", "--source", &mirror, "--model", text(&dir)]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("401") && refused.err.contains("NAME:PASSWORD@"), "{refused:?}");
    let asked = place.hub.served().unauthorized;
    let set_up = ["setup", "--stream", "--source", &with_login, "--model", text(&dir)];
    let set_up = place.run(&set_up);
    assert_eq!(set_up.code, Some(0), "{set_up:?}");
    let ran = run(&place, &dir, &["--stats"]);
    assert!(ran.err.contains("experts fetched"), "{ran:?}");
    let full = place.run(&["setup", "--full", "--source", &mirror, "--model", text(&dir)]);
    assert_eq!(full.code, Some(0), "{full:?}");
    let doctor = place.run(&["doctor", "--quick", text(&dir)]);
    assert!(doctor.out.contains(&mirror), "{doctor:?}");
    assert_eq!(place.hub.served().unauthorized, asked);
    assert_eq!(ran.out, wanted());
    assert_whole(&dir);
    let shown = [set_up.out, set_up.err, ran.err, full.out, full.err, doctor.out, doctor.err];
    for text in [shown.concat(), all_text(&dir.join(".deltafin"))] {
        assert!(!text.contains("pass@") && !text.contains("a%3Apass"), "{text}");
    }
}

#[test]
fn a_limit_that_setup_was_told_holds_until_it_is_told_another() {
    let (place, dir, _) = streamed();
    let setup = |limit: &str| place.setup(&["--cache-limit", limit, "--model", text(&dir)]);
    let kept = || std::fs::read_to_string(dir.join(".deltafin/settings.json")).unwrap_or_default();
    let refused = setup("1K");
    let line = refused.err.lines().last().unwrap_or_default();
    assert!(refused.code == Some(1) && line.contains("--cache-limit 1024 is too small"), "{line}");
    assert!(!kept().contains("cache_limit"));
    let least = line.rsplit("at least ").next().and_then(|rest| rest.split(',').next());
    let least = least.expect("the smallest that works");
    setup(least).ok();
    place.setup(&["--patience", "9", "--model", text(&dir)]).ok();
    assert!(kept().contains("cache_limit") && kept().contains("patience"), "{}", kept());
    let (begun, bytes) =
        (taken(&dir), least.trim_end_matches('K').parse::<u64>().expect("a number"));
    assert_eq!(run(&place, &dir, &[]).ok(), wanted());
    assert!(taken(&dir) - begun <= bytes << 10);
    let gc = place.run(&["gc", "--model", text(&dir)]).ok();
    assert!(gc.contains("cache: ") && gc.contains(" experts are here, "), "{gc}");
    let report = place.run(&["gc", "--json", "--model", text(&dir)]).json();
    assert_eq!(report["cache"]["limit_bytes"], bytes << 10);
    let doctor = place.run(&["doctor", "--quick", "--offline", "--model", text(&dir)]);
    assert!(doctor.out.contains(" experts are here, "), "{doctor:?}");
    setup("none").ok();
    assert!(!kept().contains("cache_limit"), "{}", kept());
}

#[test]
fn doctor_finds_damaged_notes_and_what_it_says_helps() {
    let (place, dir, _) = streamed();
    let doctor = || place.run(&["doctor", "--quick", "--offline", "--model", text(&dir)]);
    let [settings, spine] = ["settings.json", "spine"].map(|name| dir.join(".deltafin").join(name));
    for note in [&settings, &spine] {
        std::fs::write(note, "garbage").expect("written");
        let found = doctor();
        assert!(found.code == Some(1) && found.out.contains("DF-MODEL-06"), "{found:?}");
        assert_ne!(place.run(&args(&dir)).code, Some(0));
        if *note == settings {
            std::fs::remove_file(note).expect("removed");
        } else {
            assert!(found.out.contains("deltafin setup --model"), "{found:?}");
            place.setup(&["--model", text(&dir)]).ok();
        }
        assert!(!doctor().out.contains("DF-MODEL-06"));
    }
    assert_eq!(run(&place, &dir, &[]).ok(), wanted());
}

/// What is said of it is what helps.
#[test]
fn a_shard_that_was_replaced_at_its_mirror_is_named_with_the_command_that_works() {
    let place = Place::new(Missteps::none());
    let (dir, mirror) = (place.at("here"), place.hub.mirror());
    place.run(&["setup", "--stream", "--source", &mirror, "--model", text(&dir)]).ok();
    for name in ["model-00002-of-000012.safetensors", "model-00003-of-000012.safetensors"] {
        let path = Path::new(&fixture("k3-micro")).join(name);
        let mut bytes = std::fs::read(path).expect("read");
        *bytes.last_mut().expect("not empty") ^= 1;
        place.hub.replace(name, bytes);
    }
    let refused = run(&place, &dir, &[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let line = refused.err.lines().last().unwrap_or_default();
    assert!(line.contains("entity tag") && line.contains("-of-000012.safetensors"), "{line}");
    let command = line.split('\'').find(|words| words.starts_with("deltafin setup"));
    let words: Vec<&str> = command.unwrap_or_else(|| panic!("{line}")).split(' ').collect();
    place.run(&words[1..]).ok();
    run(&place, &dir, &[]).ok();
    assert!(place.run(&["verify", "--deep", text(&dir)]).ok().contains("nothing is damaged"));
}
