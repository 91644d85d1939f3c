//! `convert`, and what runs with the spine it makes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::program::{RELEASED_SPINE, Ran, command, deltafin, linked, ran, spawn};

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir).expect("a folder");
    entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| (path.file_name().expect("a name").into(), fs::read(path).expect("read")))
        .collect()
}

fn run(model: &str, more: &[&str]) -> Ran {
    let args = ["run", "--prompt-ids", "1,2,3", "--max-new", "3", "--json", "--model", model];
    deltafin(&[&args, more].concat())
}

#[test]
fn a_packed_spine_is_used_said_and_in_the_statistics() {
    let (folder, model) = linked();
    let before = run(&model, &[]);
    assert_eq!(before.err, RELEASED_SPINE);
    assert_eq!(before.json()["stats"]["recipe"], "bf16");
    let line = run(&model, &["--spine", "int8"]).refusal();
    let remedy = format!("deltafin convert --spine int8 --model {model}");
    assert!(line.contains("no int8 spine") && line.contains(&remedy), "{line}");

    let report = deltafin(&["convert", "--spine", "int8", "--model", &model, "--json"]).json();
    let pack = folder.path().join("spine-int8");
    assert_eq!(report["path"], pack.to_str().expect("UTF-8"));
    assert_eq!((&report["found"], &report["kept"]), (&0.into(), &serde_json::json!([])));
    let said = format!("deltafin: spine: int8, from {}\n", pack.display());
    for spine in [&[][..], &["--spine", "auto"], &["--spine", "int8"]] {
        let ran = run(&model, spine);
        assert_eq!(ran.err, said);
        assert_eq!(ran.json()["stats"]["recipe"], "int8");
    }
    let released = run(&model, &["--spine", "bf16"]);
    assert_eq!(released.err, RELEASED_SPINE);
    let twin = command()
        .args(["run", "--prompt-ids", "1", "--max-new", "1", "--ids", "--model", &model])
        .env("DELTAFIN_SPINE", "bf16")
        .output();
    assert_eq!(ran(twin.expect("runs")).err, RELEASED_SPINE);
    let words = deltafin(&["convert", "--spine", "int8", "--model", &model]).ok();
    assert!(words.contains("complete already"), "{words}");
}

#[test]
fn a_pack_of_released_bits_gives_the_released_ids() {
    let (folder, model) = linked();
    let wanted = run(&model, &[]).json()["ids"].clone();
    let out = folder.path().join("elsewhere");
    let out = out.to_str().expect("UTF-8");
    let made = deltafin(&["convert", "--spine", "bf16", "--model", &model, "--out", out]);
    assert_eq!(made.err, format!("deltafin: use it with --spine '{out}'\n"));
    let packed = run(&model, &["--spine", out]);
    assert_eq!(packed.err, format!("deltafin: spine: bf16, from {out}\n"));
    assert_eq!(packed.json()["ids"], wanted);
}

#[test]
fn a_spine_that_cannot_be_used_is_refused_by_name() {
    let (folder, model) = linked();
    let line = run(&model, &["--spine", "int4"]).refusal();
    assert!(line.contains("int4: there is no spine pack"), "{line}");
    deltafin(&["convert", "--spine", "int8", "--model", &model]).ok();
    let head = folder.path().join("spine-int8/head.spine");
    File::options().write(true).open(head).expect("opens").set_len(1).expect("cut");
    // Also where nobody asked for it: another spine would be another text.
    let line = run(&model, &[]).refusal();
    assert!(line.contains("head.spine: 1 bytes") && line.contains("deltafin convert"), "{line}");
    fs::remove_file(folder.path().join("spine-int8/head.spine")).expect("removed");
    let line = run(&model, &[]).refusal();
    assert!(
        line.contains("head.spine: no such file") && line.contains("deltafin convert"),
        "{line}"
    );
    deltafin(&["convert", "--spine", "int8", "--model", &model]).ok();
    assert_eq!(run(&model, &[]).json()["stats"]["recipe"], "int8");
}

#[test]
fn the_demo_gets_its_spine_at_the_start() {
    let ran = run("demo", &["--spine", "int8"]);
    assert_eq!(ran.err, "deltafin: spine: int8, made at the start\n");
    assert_eq!(ran.json()["stats"]["recipe"], "int8");
    let line = deltafin(&["convert", "--spine", "int8", "--model", "demo"]).refusal();
    assert!(line.contains("--out"), "{line}");
}

/// Killed at a moment that nobody chose, many times over, and then let through.
#[test]
fn a_killed_conversion_goes_on_to_the_same_bytes() {
    let (folder, _) = linked();
    let place = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (whole, out) = (place("whole"), place("out"));
    let args = ["convert", "--spine", "int8", "--model", "demo", "--out"];
    deltafin(&[&args[..], &[&whole]].concat()).ok();
    let mut killed = 0;
    for wait_ms in (0..40).map(|step| step * 3) {
        let mut child = spawn(command().args(args).arg(&out));
        std::thread::sleep(Duration::from_millis(wait_ms));
        child.kill().expect("killed");
        killed += usize::from(child.wait().expect("ends").code().is_none());
    }
    assert!(killed > 0, "every run was over before it was killed");
    deltafin(&[&args[..], &[&out]].concat()).ok();
    assert!(contents(Path::new(&out)) == contents(Path::new(&whole)));
}

#[test]
fn a_target_that_cannot_be_written_says_so_in_one_line() {
    let (folder, model) = linked();
    let convert = |out: &str| {
        deltafin(&["convert", "--spine", "int8", "--model", &model, "--out", out]).refusal()
    };
    let place = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let line = convert(&place("config.json/spine"));
    assert!(line.contains("config.json/spine") && line.contains("--out"), "{line}");
    // A folder that another process has locked.
    let out = place("spine");
    fs::create_dir(&out).expect("made");
    let held = File::open(&out).expect("opens");
    held.lock().expect("locked");
    let line = convert(&out);
    assert!(line.contains("another process is converting into it"), "{line}");
    drop(held);

    let gone = deltafin(&["convert", "--spine", "int8", "--model", &place("gone")]).refusal();
    assert!(gone.contains("no such folder"), "{gone}");
}

/// A limit on the length of files stands in for a drive that is full.
#[test]
fn a_full_drive_says_so_and_the_next_run_goes_on() {
    let (folder, model) = linked();
    let out = folder.path().join("spine");
    let program = format!(
        "trap '' XFSZ; ulimit -f 96; exec '{}' convert --spine bf16 --model '{model}' --out '{}'",
        env!("CARGO_BIN_EXE_deltafin"),
        out.display()
    );
    let output = Command::new("bash").args(["-c", &program]).stdin(Stdio::null()).output();
    let line = ran(output.expect("bash runs")).refusal();
    assert!(line.contains("the drive is full") && line.contains("files are finished"), "{line}");
    let out = out.to_str().expect("UTF-8");
    deltafin(&["convert", "--spine", "bf16", "--model", &model, "--out", out]).ok();
    assert_eq!(run(&model, &["--spine", out]).json()["stats"]["recipe"], "bf16");
}
