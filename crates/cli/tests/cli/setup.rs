//! `setup`, against a hub on loopback.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use deltafin_testkit::hub::{Draw, Hub, Misstep, Missteps, REPOSITORY, REVISION, checkpoint_files};
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Ran, command, deltafin, fixture, ran, spawn};

/// A hub, and a home of its own.
pub(crate) struct Place {
    pub(crate) hub: Hub,
    home: TempDir,
}

impl Place {
    pub(crate) fn new(missteps: Missteps) -> Place {
        Place::of(Hub::serve_dir(Path::new(&fixture("k3-micro")), missteps))
    }

    pub(crate) fn of(hub: Hub) -> Place {
        Place { hub, home: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = command();
        command.env("HF_ENDPOINT", self.hub.endpoint()).env("HF_HOME", self.at("hf"));
        command.env("XDG_CONFIG_HOME", self.at("config")).env("XDG_DATA_HOME", self.at("data"));
        command.env_remove("HF_TOKEN").env("NO_PROXY", "127.0.0.1").args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().expect("the binary starts"))
    }

    /// `setup` from the hub, with more arguments.
    pub(crate) fn setup(&self, more: &[&str]) -> Ran {
        let source = format!("hf:{REPOSITORY}");
        self.run(&[&["setup", "--source", &source], more].concat())
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry"));
    let entries = entries.filter(|entry| entry.file_name() != ".deltafin");
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().expect("UTF-8");
    entries.map(|entry| (name(&entry), fs::read(entry.path()).expect("read"))).collect()
}

#[track_caller]
pub(crate) fn assert_whole(dir: &Path) {
    let wanted: BTreeMap<_, _> =
        checkpoint_files(Path::new(&fixture("k3-micro"))).into_iter().collect();
    assert!(contents(dir) == wanted, "{:?}", contents(dir).keys());
}

const RUN: [&str; 6] = ["run", "--prompt-ids", "1,2", "--ids", "--max-new", "3"];

#[test]
fn one_command_gets_a_model_that_every_command_finds() {
    let place = Place::new(Missteps::drawn(3));
    let ran = place.setup(&[]);
    assert!(ran.err.contains(&format!("hf:{REPOSITORY}@{REVISION}: ")), "{ran:?}");
    let dir = place.at("data/deltafin/mini");
    assert!(ran.ok().contains(text(&dir)));
    assert_whole(&dir);
    let wanted = deltafin(&[&RUN[..], &["--model", &fixture("k3-micro")]].concat()).ok();
    let installed = place.run(&RUN);
    assert!(installed.err.contains("(installed by setup)"), "{installed:?}");
    assert_eq!(installed.ok(), wanted);
    let again = place.setup(&[]).ok();
    assert!(again.contains("complete already"), "{again}");
    assert_eq!(place.hub.served().tokens_leaked, 0);
}

#[test]
fn the_token_goes_to_the_hub_and_not_to_where_it_sends_us() {
    let place = Place::new(Missteps::none());
    place.hub.require_token("hf_a_secret");
    let dir = place.at("here");
    let args = ["setup", "--source", &format!("hf:{REPOSITORY}"), "--model", text(&dir)];
    let ran = ran(place.command(&args).env("HF_TOKEN", "hf_a_secret").output().expect("starts"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_whole(&dir);
    let served = place.hub.served();
    assert!(served.links > 0, "nothing was asked of the CDN");
    assert_eq!((served.unauthorized, served.tokens_leaked), (0, 0));
    assert!(!ran.err.contains("hf_a_secret") && !ran.out.contains("hf_a_secret"));
}

#[test]
fn a_dry_run_says_what_would_come_and_leaves_nothing() {
    let place = Place::new(Missteps::none());
    let out = place.setup(&["--dry-run"]).ok();
    assert!(out.contains("model-00001-of-000012.safetensors") && out.contains("to fetch"), "{out}");
    let report = place.setup(&["--dry-run", "--json"]).json();
    assert_eq!(report["missing"], place.hub.bytes());
    assert!(report["files"][0]["proof"].as_str().expect("words").starts_with("git "));
    assert_eq!(fs::read_dir(place.home.path()).expect("a folder").count(), 0);
    assert_eq!(place.hub.served().bytes(), 0);
}

#[test]
fn events_are_lines_of_json() {
    let place = Place::new(Missteps::of(&[Misstep::Unavailable], 1));
    let out = place.setup(&["--json"]).ok();
    let events: Vec<Value> =
        out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    let files = checkpoint_files(Path::new(&fixture("k3-micro"))).len();
    assert_eq!((of("plan"), of("file"), of("waiting"), of("done")), (1, files, 1, 1), "{out}");
}

#[test]
fn a_file_that_never_comes_right_is_named_and_the_folder_does_not_run() {
    let shard = "model-00003-of-000012.safetensors";
    let place = Place::new(Missteps::of(&[Misstep::Flipped], u64::MAX).only_for(shard));
    let ran = place.setup(&["--patience", "0"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let line = ran.err.lines().last().unwrap_or_default();
    assert!(line.contains("1 of ") && line.contains(shard) && line.contains("sha256"), "{line}");
    let dir = place.at("data/deltafin/mini");
    let refused = deltafin(&[&RUN[..], &["--model", text(&dir)]].concat()).refusal();
    assert!(refused.contains("not finished") && refused.contains("deltafin setup"), "{refused}");
    place.hub.misstep(Missteps::none());
    place.setup(&[]).ok();
    assert_whole(&dir);
}

#[test]
fn a_part_first_and_the_rest_later() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    let partial = place.setup(&["--layers", "1-2", "--model", text(&dir)]);
    assert!(partial.err.contains("setup --full --model"), "{partial:?}");
    let served = place.hub.served().bytes();
    assert!(served < place.hub.bytes());
    // The folder is known by now, and what was asked for.
    for again in [place.setup(&[]), place.run(&["setup"])] {
        assert!(again.err.contains("was begun with --layers 1-2"), "{again:?}");
        assert_eq!((again.code, place.hub.served().bytes()), (Some(0), served), "{again:?}");
    }
    let doctor = place.run(&["doctor", "--quick", "--offline"]);
    assert!(doctor.out.contains(" for --layers 1-2 are here"), "{doctor:?}");
    assert!(doctor.out.contains("deltafin setup --full"), "{doctor:?}");
    place.setup(&["--full", "--model", text(&dir)]).ok();
    // The configuration was looked at before it came: it says which layers there are.
    let config = fs::metadata(dir.join("config.json")).expect("there").len();
    assert_eq!(place.hub.served().bytes(), place.hub.bytes() + config);
    assert_whole(&dir);
}

#[test]
fn layers_that_the_model_does_not_have_are_refused_before_anything_comes() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    let refuse = |more: &[&str]| {
        let ran = place.setup(&[&["--layers", "2-400", "--model", text(&dir)], more].concat());
        let line = ran.err.lines().last().unwrap_or_default();
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(line.ends_with("--layers 2-400: the model has layers 0 to 8"), "{ran:?}");
    };
    refuse(&[]);
    refuse(&["--dry-run"]);
    assert!(place.hub.served().ranges.keys().all(|name| name == "config.json"));
    place.setup(&["--model", text(&dir)]).ok();
    refuse(&[]);
    place.setup(&["--stream", "--model", text(&place.at("streamed"))]).ok();
    let dir = place.at("streamed");
    let ran = place.setup(&["--layers", "9", "--model", text(&dir)]);
    assert!(ran.code == Some(1) && ran.err.contains("layers 0 to 8"), "{ran:?}");
}

#[test]
fn a_folder_is_used_where_it_is() {
    let place = Place::new(Missteps::none());
    let folder = fixture("k3-micro");
    let ran = place.run(&["setup", "--source", &folder]);
    assert!(ran.out.contains("used where it is"), "{ran:?}");
    assert_eq!(place.run(&RUN).code, Some(0));
    let twice = place.run(&["setup", "--source", &folder, "--model", "elsewhere"]).refusal();
    assert!(twice.contains("leave out --model"), "{twice}");
    let nothing = place.run(&["setup", "--source", text(&place.at("gone"))]).refusal();
    assert!(nothing.contains("no such folder"), "{nothing}");
    // And what lies where it would be installed is adopted, too.
    let copy = place.at("copy");
    fs::create_dir(&copy).expect("made");
    for (name, bytes) in checkpoint_files(Path::new(&folder)) {
        fs::write(copy.join(name), bytes).expect("written");
    }
    let ran = place.run(&["setup", "--model", text(&copy)]);
    assert!(ran.out.contains("used where it is"), "{ran:?}");
    assert_eq!(place.hub.served().bytes(), 0);
}

#[test]
fn the_cache_of_the_hub_s_own_tools_is_used_where_it_is() {
    let place = Place::new(Missteps::none());
    let cache = place.at("hf/hub").join(format!("models--{}", REPOSITORY.replace('/', "--")));
    let (snapshot, blobs) = (cache.join("snapshots").join(REVISION), cache.join("blobs"));
    for dir in [&snapshot, &blobs, &cache.join("refs")] {
        fs::create_dir_all(dir).expect("made");
    }
    fs::write(cache.join("refs/main"), REVISION).expect("written");
    for (name, bytes) in checkpoint_files(Path::new(&fixture("k3-micro"))) {
        fs::write(blobs.join(&name), bytes).expect("written");
        let target = Path::new("../../blobs").join(&name);
        std::os::unix::fs::symlink(target, snapshot.join(name)).expect("a link");
    }
    let ran = place.setup(&[]);
    assert!(ran.out.contains(text(&snapshot)) && ran.out.contains("used where it is"), "{ran:?}");
    assert_eq!(place.hub.served().bytes(), 0);
    assert_eq!(place.run(&RUN).code, Some(0));
}

#[test]
fn an_interrupt_keeps_what_came() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    let source = format!("hf:{REPOSITORY}");
    let args = ["setup", "--source", &source, "--model", text(&dir), "--limit-rate", "1M"];
    let child = spawn(&mut place.command(&args));
    while !dir.join("model-00001-of-000012.safetensors").exists() {
        sleep(Duration::from_millis(5));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    let ran = ran(child.wait_with_output().expect("ends"));
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(ran.err.contains("interrupted") && ran.err.contains("goes on"), "{ran:?}");
    assert!(dir.join("model-00001-of-000012.safetensors").exists());
    place.setup(&["--model", text(&dir)]).ok();
    assert_whole(&dir);
}

/// How often to kill; `DELTAFIN_KILLS=100` is more than usual.
pub(crate) fn kills() -> u64 {
    std::env::var("DELTAFIN_KILLS").map_or(10, |n| n.parse().expect("a number"))
}

#[test]
fn killed_at_any_moment_it_goes_on() {
    let kills = kills();
    let place = Place::new(Missteps::none());
    let source = format!("hf:{REPOSITORY}");
    let (mut draw, mut killed, mut round, mut served) = (Draw(kills), 0, 0, 0);
    let (mut dir, mut killed_here) = (place.at("round-0"), 0);
    while killed < kills {
        let args = ["setup", "--source", &source, "--limit-rate", "6M", "--jobs", "4"];
        let mut setup = place.command(&[&args[..], &["--model", text(&dir)]].concat());
        let mut child = setup.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        sleep(Duration::from_millis(draw.below(500)));
        child.kill().expect("killed"); // SIGKILL
        let ended = child.wait().expect("ends");
        if ended.success() {
            assert_whole(&dir);
            assert_in_flight(&place.hub, &mut served, killed_here);
            round += 1;
            (dir, killed_here) = (place.at(&format!("round-{round}")), 0);
            continue;
        }
        (killed, killed_here) = (killed + 1, killed_here + 1);
    }
    place.setup(&["--model", text(&dir)]).ok();
    assert_whole(&dir);
    assert_in_flight(&place.hub, &mut served, killed_here);
}

/// Nothing was fetched twice but what was on its way when the process was killed: four requests at most.
#[track_caller]
pub(crate) fn assert_in_flight(hub: &Hub, served: &mut u64, kills: u64) {
    let now = hub.served();
    let largest = now.ranges.values().flatten().map(|range| range.1).max().unwrap_or_default();
    let twice = now.bytes() - *served - hub.bytes();
    assert!(twice <= kills * 4 * largest, "{twice} bytes came twice after {kills} kills");
    *served = now.bytes();
}

#[test]
fn damage_is_named_and_mended() {
    let place = Place::new(Missteps::none());
    let dir = place.at("here");
    place.setup(&["--model", text(&dir)]).ok();
    let verify = |more: &[&str]| place.run(&[&["verify", text(&dir)], more].concat());
    assert!(verify(&[]).ok().contains("nothing is damaged"));
    let shard = dir.join("model-00005-of-000012.safetensors");
    let mut bytes = fs::read(&shard).expect("read");
    let at = bytes.len() - 5;
    bytes[at] ^= 2;
    fs::write(&shard, &bytes).expect("written");
    assert!(verify(&[]).ok().contains("nothing is damaged"), "too fine for sizes");
    let found = verify(&["--deep"]);
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(found.out.contains("layer 4, ") && found.out.contains("--repair"), "{found:?}");
    let report = verify(&["--deep", "--repair", "--json"]).json();
    assert_eq!(report["received"], report["damage"][0]["bytes"]);
    assert_whole(&dir);
    assert!(verify(&["--deep"]).ok().contains("nothing is damaged"));
    fs::remove_file(&shard).expect("removed");
    assert_eq!(verify(&[]).code, Some(1));
    verify(&["--repair"]).ok();
    assert_whole(&dir);
    // What setup did not install has no digests.
    let folder = fixture("k3-micro");
    assert!(place.run(&["verify", &folder]).ok().contains("nothing is damaged"));
    let read = place.run(&["verify", "--deep", &folder]);
    assert!(read.err.contains("no digests are known"), "{read:?}");
    assert!(read.err.contains("deltafin setup --source"), "{read:?}");
    assert!(read.ok().contains("nothing is damaged"));
    let line = place.run(&["verify", "--repair", &folder]).refusal();
    assert!(line.contains("deltafin setup --source"), "{line}");
}

#[test]
fn a_repair_killed_at_any_moment_goes_on() {
    let place = Place::new(Missteps::none());
    let (dir, mut draw) = (place.at("here"), Draw(11));
    place.setup(&["--model", text(&dir)]).ok();
    let args = ["verify", "--deep", "--repair", text(&dir)];
    let (mut served, mut damaged) = (place.hub.served().bytes(), 0);
    for _ in 0..kills() {
        // Damage wherever there is a whole shard, as long as there is one.
        let number = draw.below(12) + 1;
        let shard = dir.join(format!("model-{number:05}-of-000012.safetensors"));
        if let Ok(mut bytes) = fs::read(&shard) {
            let at = draw.below(bytes.len() as u64) as usize;
            bytes[at] ^= 0x10;
            fs::write(&shard, bytes).expect("written");
            damaged += 1;
        }
        let mut verify = place.command(&args);
        let mut child = verify.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        sleep(Duration::from_millis(draw.below(120)));
        child.kill().expect("killed"); // SIGKILL
        child.wait().expect("ends");
    }
    place.run(&args).ok();
    assert_whole(&dir);
    let now = place.hub.served();
    let largest = now.ranges.values().flatten().map(|range| range.1).max().unwrap_or_default();
    served = now.bytes() - served;
    let most = (damaged + 4 * kills()) * largest;
    assert!(served <= most, "{served} bytes came for {damaged} damaged pieces");
}

#[test]
fn misuse_is_named() {
    let line = deltafin(&["setup", "--source", "ftp://x/y"]).usage();
    assert!(line.contains("hf:owner/name"), "{line}");
    let line = deltafin(&["setup", "--source", "https://me:geheim@mirror/?x"]).usage();
    assert!(line.contains("https://mirror/?x") && !line.contains("geheim"), "{line}");
    let line = deltafin(&["setup", "--layers", "4-1"]).usage();
    assert!(line.contains("FIRST-LAST"), "{line}");
    let line = deltafin(&["setup", "--model", "demo"]).usage();
    assert!(line.contains("takes a folder"), "{line}");
}

#[test]
fn without_a_network_a_dry_run_says_so() {
    let place = Place::new(Missteps::none());
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let nobody = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let ran = place.setup(&["--dry-run", "--endpoint", &nobody]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""), "{ran:?}");
    let line = ran.err.lines().last().unwrap_or_default();
    assert!(line.contains("refused") && line.contains("check the address"), "{line}");
    assert_eq!(fs::read_dir(place.home.path()).expect("a folder").count(), 0);
}

#[test]
fn an_interrupted_dry_run_has_kept_nothing() {
    use std::io::{BufRead as _, BufReader};
    let place = Place::new(Missteps::none());
    // Takes connections and never answers.
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let endpoint = format!("http://{}", silent.local_addr().expect("an address"));
    let source = format!("hf:{REPOSITORY}");
    let args = ["setup", "--dry-run", "--no-drafter", "--source", &source, "--endpoint", &endpoint];
    let mut child = spawn(&mut place.command(&args));
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    assert!(lines.any(|line| line.expect("text").contains("asking")));
    let _connection = silent.accept().expect("it asks");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    let said: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().expect("ends").code(), Some(130), "{said:?}");
    assert_eq!(said, ["deltafin: interrupted; nothing was fetched"]);
}

#[test]
fn layers_of_a_model_that_is_ready_leave_it_ready() {
    let place = Place::new(Missteps::none());
    let (whole, dir) = (place.at("whole"), place.at("streamed"));
    place.setup(&["--model", text(&whole)]).ok();
    let served = place.hub.served().bytes();
    let layers = ["--layers", "1-2", "--model"];
    let said = place.setup(&[&layers[..], &[text(&whole)]].concat()).ok();
    assert!(said.contains("complete already"), "{said}");
    assert_eq!(place.hub.served().bytes(), served);
    assert_whole(&whole);

    place.setup(&["--stream", "--model", text(&dir)]).ok();
    let layers = [&layers[..], &[text(&dir)]].concat();
    let served = place.hub.served().bytes();
    let planned = place.setup(&[&layers[..], &["--dry-run"]].concat()).ok();
    assert!(planned.contains("to fetch") && place.hub.served().bytes() == served, "{planned}");
    let said = place.setup(&layers).ok();
    assert!(said.contains("experts more are here"), "{said}");
    assert!(place.hub.served().bytes() > served && dir.join(".deltafin/stream.json").exists());
    place.run(&[&RUN[..], &["--model", text(&dir)]].concat()).ok();
    let again = place.run(&["warm", "--show", "--json", "--layers", "1-2", text(&dir)]).json();
    assert_eq!(again["coming"]["records"], 0);
}

#[test]
fn a_file_is_no_place_for_a_model() {
    let place = Place::new(Missteps::none());
    let file = place.at("file");
    fs::write(&file, "x").expect("written");
    for more in [&[][..], &["--dry-run"]] {
        let ran = place.setup(&[&["--model", text(&file)], more].concat());
        let line = ran.err.lines().last().unwrap_or_default();
        assert!(ran.code == Some(1) && line.contains("it is a file"), "{ran:?}");
    }
}
