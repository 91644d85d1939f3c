//! A streamed model on a drive without a free block, in a file system of its own.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;

use deltafin_testkit::hub::Missteps;

use crate::program::{Ran, ran};
use crate::setup::{Place, text};
use crate::streamed::{args, streamed, wanted};

/// Copies a folder to a small file system, lets something else take what is free there, and runs the program on it.
const FILL_AND_RUN: &str = r#"
    set -e
    mount -t tmpfs -o size=8m none "$1"
    cp -a --sparse=always "$2/." "$1/"
    cat /dev/zero > "$1/other" 2>&- || true
    test "$(df --output=avail "$1" | tail -1)" -eq 0
    shift 2
    exec "$@"
"#;

/// The last shard that has experts.
const ROOMY: &str = "model-00009-of-000012.safetensors.map";

/// Lets the map of every other shard end with a page, so that the next line takes another.
fn pad(dir: &Path) {
    const PAGE_BYTES: usize = 4096;
    let entries = fs::read_dir(dir.join(".deltafin")).expect("notes").flatten();
    let mut maps: Vec<_> = entries.map(|entry| entry.path()).collect();
    maps.retain(|path| path.to_string_lossy().ends_with(".safetensors.map"));
    assert!(maps.iter().any(|map| map.ends_with(ROOMY)));
    for map in maps.iter().filter(|map| !map.ends_with(ROOMY)) {
        let lines = fs::read_to_string(map).expect("a map");
        let rest = PAGE_BYTES - (lines.len() + 16) % PAGE_BYTES + 16;
        // Of a piece that is not here: it says nothing.
        let zeros = "0".repeat(rest - "gone 1\n".len());
        fs::write(map, format!("{lines}gone {zeros}1\n")).expect("written");
        assert_eq!(fs::metadata(map).expect("a map").len() % PAGE_BYTES as u64, 0);
    }
}

#[test]
fn room_is_made_though_there_is_none_for_the_line_that_says_so() {
    let (place, dir, _) = streamed();
    let wanted = wanted();
    assert_eq!(place.run(&args(&dir)).ok(), wanted);
    let refused = place.run(&[&args(&dir)[..], &["--cache-limit", "1K"]].concat()).refusal();
    let least = refused.rsplit("at least ").next().and_then(|rest| rest.split(',').next());
    pad(&dir);
    let least = ["--cache-limit", least.expect("the smallest that works")];
    let Some(ran) = run_on_full_drive(&place, &dir, &least) else { return };
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("cache: ") && ran.err.contains(" experts went"), "{ran:?}");
    assert_eq!(ran.out, wanted);
}

/// The experts that another text used make room, and the text is the same.
#[test]
fn a_drive_that_is_full_before_the_limit_is_reached_ends_no_reply() {
    for layout in ["auto", "layers"] {
        let place = Place::new(Missteps::none());
        let dir = place.at("here");
        place.setup(&["--stream", "--layout", layout, "--model", text(&dir)]).ok();
        let other = ["run", "--prompt-ids", "7,8,31,2,90,4", "--ids", "--max-new", "8"];
        place.run(&[&other[..], &["--model", text(&dir)]].concat()).ok();
        let limited = ["--cache-limit", "1G"];
        let Some(ran) = run_on_full_drive(&place, &dir, &limited) else { return };
        assert_eq!(ran.code, Some(0), "{layout}: {ran:?}");
        assert_eq!(ran.err.matches("the drive is full, so the experts").count(), 1, "{ran:?}");
        assert_eq!(ran.out, wanted(), "{layout}");
        let Some(ran) = run_on_full_drive(&place, &dir, &[]) else { return };
        assert!(ran.err.contains("the drive is full; what is here is kept"), "{layout}: {ran:?}");
    }
}

/// Runs the program on a copy of a folder where no block is free; nothing where nobody may have a file system of his
/// own.
fn run_on_full_drive(place: &Place, dir: &Path, more: &[&str]) -> Option<Ran> {
    let small = place.at("small");
    fs::create_dir_all(&small).expect("a folder");
    let program = place.command(&args(&small));
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", FILL_AND_RUN, "sh", text(&small), text(dir)]);
    command.arg(program.get_program()).args(program.get_args());
    command.args(more);
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let ran = ran(command.output().expect("unshare starts"));
    if ran.err.contains("unshare:") || ran.err.contains("mount:") {
        return None;
    }
    Some(ran)
}
