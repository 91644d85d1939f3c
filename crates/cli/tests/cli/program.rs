//! Runs the binary away from the settings of whoever runs the tests.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// What every command with a model says where nothing was packed.
pub(crate) const RELEASED_SPINE: &str = "deltafin: spine: bf16, as released\n";

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Standard error but for the line about the released spine, which has to be there.
    #[track_caller]
    pub(crate) fn said(&self) -> String {
        assert_eq!(self.err.matches(RELEASED_SPINE).count(), 1, "{self:?}");
        self.err.replace(RELEASED_SPINE, "")
    }

    /// Standard output, after a look at the exit code.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
    }

    /// The one line of a refusal, without the program's name. Says nothing on standard output.
    #[track_caller]
    pub(crate) fn refusal(self) -> String {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        let mut lines = self.err.lines().filter(|line| !is_about_the_model(line));
        let line = lines.next().and_then(|line| line.strip_prefix("deltafin: "));
        assert!(line.is_some() && lines.next().is_none(), "{self:?}");
        line.unwrap_or_default().to_owned()
    }

    /// What is said about misuse: one line that ends with whose help to read.
    #[track_caller]
    pub(crate) fn usage(self) -> String {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        let line = self.err.strip_prefix("deltafin: ").and_then(|rest| rest.strip_suffix('\n'));
        let line = line.unwrap_or_else(|| panic!("{self:?}"));
        assert!(!line.contains('\n') && line.ends_with(" --help'"), "{self:?}");
        line.to_owned()
    }
}

/// Whether a line says what runs and in which context, as commands with a model do first.
pub(crate) fn is_about_the_model(line: &str) -> bool {
    ["deltafin: model: ", "deltafin: spine: ", "deltafin: context: "]
        .iter()
        .any(|about| line.starts_with(about))
}

/// The command, with nobody's settings and nothing on standard input.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_deltafin"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("DELTAFIN_")) {
            command.env_remove(name);
        }
    }
    command.env("XDG_CONFIG_HOME", "/nonexistent").env("XDG_STATE_HOME", "/nonexistent");
    // No test goes on from what another one left behind.
    command.env("DELTAFIN_SNAPSHOT_DISK", "0");
    command.env("COLUMNS", "100");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end.
#[track_caller]
pub(crate) fn deltafin(args: &[&str]) -> Ran {
    ran(command().args(args).output().expect("the binary starts"))
}

/// Runs it to its end on this standard input.
#[track_caller]
pub(crate) fn deltafin_on(input: &str, args: &[&str]) -> Ran {
    let mut child = spawn(command().args(args).stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_owned();
    // A program that reads and writes by turns would otherwise wait for us, and we for it.
    let feed = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().expect("the binary ends");
    feed.join().expect("fed");
    ran(output)
}

pub(crate) fn spawn(command: &mut Command) -> Child {
    command.spawn().expect("the binary starts")
}

/// Longer than anything here takes on the busiest machine; nobody waits for it in vain but in a fault.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(120);

/// Waits until something holds. Gives up in the end, and ends the program.
#[track_caller]
pub(crate) fn wait_until(child: &mut Child, what: &str, mut holds: impl FnMut(&mut Child) -> bool) {
    let deadline = Instant::now() + GIVE_UP;
    while !holds(child) {
        if Instant::now() > deadline {
            child.kill().expect("killed");
            panic!("in vain: {what}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn ran(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// The directory of a miniature checkpoint.
pub(crate) fn fixture(name: &str) -> String {
    deltafin_testkit::fixture(name).display().to_string()
}

/// A file of the text crate's fixtures.
pub(crate) fn text_fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../text/tests/fixtures").join(name)
}

/// Ids as the command line takes them.
pub(crate) fn list(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Ids as `--ids` prints them.
pub(crate) fn line(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ") + "\n"
}

/// A folder of links to a miniature checkpoint, which a pack may be put in.
pub(crate) fn linked() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(fixture("k3-micro")).expect("a fixture") {
        let path = entry.expect("a file").path();
        let name = path.file_name().expect("a name");
        std::os::unix::fs::symlink(&path, folder.path().join(name)).expect("a link");
    }
    let path = folder.path().to_str().expect("UTF-8").to_owned();
    (folder, path)
}
