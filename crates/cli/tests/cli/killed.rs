//! Ends without notice while experts come to a folder that streams.
//!
//! After each of them what is there is gone on with: in the end nothing came twice but what was on its way.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use deltafin_testkit::hub::{Draw, Hub, REPOSITORY, Served};

use crate::setup::{Place, assert_whole, kills, text};
use crate::streamed::{args, streamed, wanted};

/// Requests at once.
const JOBS: u64 = 4;
/// So slow that the whole way takes longer than the pause before an end.
const RATE: &str = "1M";
/// The longest pause before one.
const PAUSE_MS: u64 = 250;

/// A copy of a folder that streams; its holes stay holes.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy(&path, &target),
            false => copy_file(&path, &target).expect("copied"),
        }
    }
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let (bytes, out) = (fs::read(from)?, File::create(to)?);
    out.set_len(bytes.len() as u64)?;
    for (block, at) in bytes.chunks(4096).zip((0..).step_by(4096)) {
        if block.iter().any(|byte| *byte != 0) {
            out.write_all_at(block, at)?;
        }
    }
    Ok(())
}

/// Bytes that came more than once since `before`: of each range all but the longest answer.
fn twice(hub: &Hub, before: &Served) -> u64 {
    let mut longest: HashMap<(String, u64), u64> = HashMap::new();
    let (now, mut sum) = (hub.served(), 0);
    for (name, ranges) in now.ranges {
        let known = before.ranges.get(&name).map_or(0, Vec::len);
        for (first, bytes) in &ranges[known..] {
            let seen = longest.entry((name.clone(), *first)).or_default();
            sum += *bytes.min(seen);
            *seen = (*bytes).max(*seen);
        }
    }
    sum
}

/// Kills a command at random moments until it has been done so often, in a fresh copy of the folder each time
/// that it came to its end; `done` looks at what is there then.
fn kill_often(command: &[&str], seed: u64, done: impl Fn(&Place, &Path)) {
    let (place, template, _) = streamed();
    let largest = largest_record(&place, &template);
    let (mut draw, mut killed) = (Draw(seed), 0);
    for round in 0.. {
        let dir = place.at(&format!("round-{round}"));
        copy(&template, &dir);
        let (before, mut killed_here) = (place.hub.served(), 0);
        let slow = ["--limit-rate", RATE, "--jobs", "4", "--model", text(&dir)];
        let args = [command, &slow].concat();
        let is_done = loop {
            if killed == kills() {
                break false;
            }
            let mut running = place.command(&args);
            let running = running.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = running.spawn().expect("starts");
            sleep(Duration::from_millis(draw.below(PAUSE_MS)));
            child.kill().expect("killed"); // SIGKILL
            if child.wait().expect("ends").success() {
                break true;
            }
            (killed, killed_here) = (killed + 1, killed_here + 1);
        };
        if !is_done {
            place.run(&[command, &["--model", text(&dir)]].concat()).ok();
        }
        let (twice, most) = (twice(&place.hub, &before), killed_here * JOBS * largest);
        assert!(twice <= most, "{twice} bytes came twice after {killed_here} kills, {most} may");
        done(&place, &dir);
        fs::remove_dir_all(dir).expect("removed");
        if !is_done {
            return;
        }
    }
}

/// Bytes of the largest record that is not here.
fn largest_record(place: &Place, dir: &Path) -> u64 {
    let plan = ["warm", "--layers", "0-1", "--show", "--json", "--model", text(dir)];
    let coming = &place.run(&plan).json()["coming"];
    let [records, bytes] = ["records", "bytes"].map(|of| coming[of].as_u64().expect("a number"));
    assert_eq!(bytes % records, 0, "all are of one length");
    bytes / records
}

#[test]
fn an_upgrade_killed_at_any_moment_goes_on() {
    let source = format!("hf:{REPOSITORY}");
    kill_often(&["setup", "--full", "--source", &source], 21, |_, dir| assert_whole(dir));
}

#[test]
fn a_warming_killed_at_any_moment_goes_on() {
    let layers = format!("0-{}", deltafin_testkit::open("k3-micro").spec().layers.len() - 1);
    kill_often(&["warm", "--layers", &layers], 22, |place, dir| {
        let before = place.hub.served().bytes();
        assert_eq!(place.run(&args(dir)).ok(), wanted());
        place.run(&["verify", "--deep", text(dir)]).ok();
        assert_eq!(place.hub.served().bytes(), before, "all of it was here");
    });
}
