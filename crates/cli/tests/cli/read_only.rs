//! Folders that a program may read and not write, or not even read, as another user meets them.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{Ran, ran};
use crate::setup::{Place, text};
use crate::streamed::{args, streamed, wanted};

/// Somebody who owns nothing.
const NOBODY: u32 = 65534;

/// Runs the program as whom modes bind: who runs the tests, or somebody else where that is root.
struct Stranger<'p> {
    place: &'p Place,
    program: PathBuf,
    is_root: bool,
}

impl Stranger<'_> {
    /// Nothing where the program cannot be run like that.
    fn of(place: &Place) -> Option<Stranger<'_>> {
        let home = place.at("");
        fs::set_permissions(&home, Permissions::from_mode(0o755)).expect("its owner");
        let program = home.join("deltafin");
        let built = env!("CARGO_BIN_EXE_deltafin");
        // Where it was built nobody else may be let in.
        fs::copy(built, &program).expect("copied");
        let is_root = fs::metadata(&home).expect("known").uid() == 0;
        let state = home.join("stranger");
        fs::create_dir(&state).expect("a folder");
        fs::set_permissions(&state, Permissions::from_mode(0o777)).expect("its owner");
        let stranger = Stranger { place, program, is_root };
        match stranger.command(&["--version"]).output() {
            Ok(output) if output.status.success() => Some(stranger),
            why => {
                let words =
                    format!("skipped: the program does not run as user {NOBODY} here: {why:?}");
                writeln!(std::io::stderr(), "{words}").expect("standard error");
                None
            }
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let asked = self.place.command(args);
        let mut command = Command::new(&self.program);
        command.args(args);
        for (name, value) in asked.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let state = self.place.at("stranger");
        command.env("XDG_STATE_HOME", &state).env("XDG_CONFIG_HOME", &state).env("HOME", &state);
        if self.is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().expect("the program starts"))
    }
}

/// Everything below a folder.
fn below(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    for entry in fs::read_dir(dir).expect("a folder").flatten() {
        match entry.file_type().expect("a kind").is_dir() {
            true => found.extend(below(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

fn set_modes(dir: &Path, folders: u32, files: u32) {
    // What is inside first: of a folder that is closed nothing inside can be changed.
    for path in below(dir).iter().rev() {
        let mode = if path.is_dir() { folders } else { files };
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("its owner");
    }
}

/// Names, lengths and times of last change.
fn state(dir: &Path) -> Vec<(PathBuf, u64, i64)> {
    let of = |path: PathBuf| {
        let meta = fs::metadata(&path).expect("known");
        (path, meta.len(), meta.mtime_nsec())
    };
    let mut all: Vec<_> = below(dir).into_iter().map(of).collect();
    all.sort();
    all
}

/// Everything below the folder can be removed again.
struct Reopened<'d>(&'d Path);

impl Drop for Reopened<'_> {
    fn drop(&mut self) {
        let _ = fs::set_permissions(self.0, Permissions::from_mode(0o755));
        let _ = fs::set_permissions(self.0.join(".deltafin"), Permissions::from_mode(0o755));
        set_modes(self.0, 0o755, 0o644);
    }
}

/// The last line of a command that failed.
#[track_caller]
fn fault(ran: &Ran) -> String {
    assert_eq!(ran.code, Some(1), "{ran:?}");
    ran.err.lines().last().unwrap_or_default().to_owned()
}

const NOTICE: &str = "nothing may be written here (Permission denied";

fn runs_and_keeps_nothing(layout: &[&str]) {
    let place = Place::new(deltafin_testkit::hub::Missteps::none());
    let dir = place.at("here");
    place.setup(&[&["--stream", "--model", text(&dir)], layout].concat()).ok();
    let (wanted, short) = (wanted(), ["--max-new", "1"]);
    let few = args(&dir).into_iter().map(|word| if word == "12" { "1" } else { word });
    let few: Vec<&str> = few.collect();
    assert!(few.windows(2).any(|two| two == short));
    place.run(&few).ok();
    let Some(stranger) = Stranger::of(&place) else { return };
    set_modes(&dir, 0o555, 0o444);
    let _reopened = Reopened(&dir);
    let (before, came) = (state(&dir), place.hub.served().bytes());
    // What is here is enough for these ids, also where a limit was said.
    for more in [&[][..], &["--cache-limit", "1K"]] {
        let ran = stranger.run(&[&few[..], more].concat());
        assert_eq!(ran.err.matches(NOTICE).count(), 1, "{ran:?}");
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    assert_eq!(place.hub.served().bytes(), came);
    // What is not comes each time.
    for more in [&[][..], &["--prefetch", "off"], &["--memory", "64M"]] {
        let came = place.hub.served().bytes();
        let ran = stranger.run(&[&args(&dir)[..], more].concat());
        assert_eq!(ran.err.matches(NOTICE).count(), 1, "{ran:?}");
        assert_eq!(ran.ok(), wanted);
        assert!(place.hub.served().bytes() > came);
    }
    for command in [&["warm", "--layers", "1-4"][..], &["setup", "--full"]] {
        let line = fault(&stranger.run(&[command, &["--model", text(&dir)]].concat()));
        assert!(line.contains(text(&dir)) && line.contains("let this user"), "{line}");
    }
    let verified = stranger.run(&["verify", "--deep", text(&dir)]);
    assert!(verified.out.contains("nothing is damaged"), "{verified:?}");
    let found = stranger.run(&["gc", "--model", text(&dir)]).ok();
    assert!(found.contains("nothing lies about") && found.contains("experts are here"), "{found}");
    let doctor = stranger.run(&["doctor", "--quick", "--json", "--model", text(&dir)]).out;
    assert!(doctor.contains("DF-DRIVE-01"), "{doctor}");
    assert_eq!(state(&dir), before);
}

#[test]
fn a_model_that_nobody_may_write_to_runs_and_keeps_nothing() {
    runs_and_keeps_nothing(&[]);
}

#[test]
fn so_does_one_that_lies_layer_by_layer() {
    runs_and_keeps_nothing(&["--layout", "layers"]);
}

/// What may not be looked at is not taken for what is not there.
#[test]
fn notes_that_nobody_may_read_are_named() {
    let (place, dir, _) = streamed();
    let Some(stranger) = Stranger::of(&place) else { return };
    let notes = dir.join(".deltafin");
    fs::set_permissions(&notes, Permissions::from_mode(if stranger.is_root { 0o700 } else { 0 }))
        .expect("its owner");
    let _reopened = Reopened(&dir);
    let folder = text(&dir);
    let run = args(&dir);
    let commands: [&[&str]; 7] = [
        &run,
        &["plan", "--model", folder],
        &["verify", folder],
        &["warm", "--layers", "1", "--model", folder],
        &["gc", "--model", folder],
        &["setup", "--stream", "--model", folder],
        &["setup", "--dry-run", "--model", folder],
    ];
    for command in commands {
        let line = fault(&stranger.run(command));
        assert!(
            line.contains(text(&notes)) && line.contains("let this user"),
            "{command:?}: {line}"
        );
    }
    let doctor = stranger.run(&["doctor", "--quick", "--model", folder]);
    assert!(doctor.out.contains("FAULT") && doctor.out.contains(text(&notes)), "{doctor:?}");
}
