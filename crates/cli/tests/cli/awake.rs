//! The machine is kept awake while there is work, by a program of the system that ends with it.

use std::fs::{self, Permissions};
use std::io::{PipeReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::program::{GIVE_UP, command, ran, spawn, wait_until};
use crate::serve::{begin, serving_by, terminate};
use crate::stuck::almost_full;

/// Stands in for the system's: notes what it was given and which process it is, and runs while its standard input is open.
const SCRIPT: &str = "#!/bin/sh
ls -l /proc/$$/fd > \"$0.files\"; env > \"$0.env\"
echo $$ > \"$0.new\" && mv \"$0.new\" \"$0.pid\" && exec cat\n";

/// It cannot be had, as in a container.
const REFUSES: &str = "#!/bin/sh\ntouch \"$0.pid\"\nexit 1\n";

/// A folder with a program that is found before the system's.
struct Stand {
    folder: TempDir,
}

impl Stand {
    fn of(script: &str) -> Stand {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("systemd-inhibit");
        fs::write(&program, script).expect("written");
        fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("set");
        Stand { folder }
    }

    /// The command, which finds it.
    fn command(&self) -> Command {
        let path = std::env::var("PATH").expect("a path");
        let mut command = command();
        command.env("PATH", format!("{}:{path}", self.folder.path().display()));
        command
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.folder.path().join(format!("systemd-inhibit.{kind}"))
    }

    /// Which process it is, once it is one.
    #[track_caller]
    fn process(&self, child: &mut Child) -> String {
        let noted = self.file("pid");
        wait_until(child, "the machine is kept awake", |_| noted.exists());
        fs::read_to_string(noted).expect("read").trim().to_owned()
    }
}

/// A run that waits for its reader.
fn run(stand: &Stand, more: &[&str]) -> (Child, PipeReader) {
    let mut run = stand.command();
    run.args(["run", "--model", "demo", "--ids", "--ignore-eos", "--prompt", "Once"]).args(more);
    let (near, _, far) = almost_full();
    let child = spawn(run.stdout(near));
    // Else a pipe would have a writer for ever.
    drop(run);
    (child, far)
}

/// Neither ended nor about to be taken note of.
fn runs(process: &str) -> bool {
    let command = fs::read(Path::new("/proc").join(process).join("cmdline"));
    command.is_ok_and(|words| !words.is_empty())
}

#[track_caller]
fn until_gone(process: &str) {
    let began = Instant::now();
    while runs(process) {
        assert!(began.elapsed() < GIVE_UP, "{process} goes on");
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_keeps_the_machine_awake_ends_with_the_work() {
    let stand = Stand::of(SCRIPT);
    let (mut child, reader) = run(&stand, &[]);
    let process = stand.process(&mut child);
    assert!(runs(&process), "{process}");
    drop(reader);
    assert!(child.wait().expect("ended").success());
    assert!(!runs(&process), "{process}");
}

#[test]
fn what_keeps_the_machine_awake_ends_with_a_process_that_is_killed() {
    let stand = Stand::of(SCRIPT);
    let (mut child, _reader) = run(&stand, &[]);
    let process = stand.process(&mut child);
    child.kill().expect("killed");
    child.wait().expect("ended");
    until_gone(&process);
}

/// Nor does it matter to the work whether there is a program that does it.
#[test]
fn a_machine_that_may_sleep_is_left_alone_and_who_refuses_is_left_out() {
    let stands = [(SCRIPT, &["--allow-sleep"][..], false), (REFUSES, &[], true)];
    let mut works = stands.map(|(script, more, is_asked)| {
        let stand = Stand::of(script);
        let (child, reader) = run(&stand, more);
        (stand, child, reader, is_asked)
    });
    // Longer than it takes until somebody is asked.
    sleep(Duration::from_millis(1300));
    for (stand, child, _, is_asked) in &mut works {
        if *is_asked {
            stand.process(child);
        }
        assert_eq!(stand.file("pid").exists(), *is_asked);
        assert!(child.try_wait().expect("asked").is_none(), "it goes on");
    }
    for (_, child, reader, _) in works {
        drop(reader);
        let ended = ran(child.wait_with_output().expect("ended"));
        assert_eq!((ended.code, ended.said().as_str()), (Some(0), ""), "{ended:?}");
    }
}

/// All of a command counts where all of it takes long: here it waits for its text.
#[test]
fn an_evaluation_keeps_the_machine_awake() {
    let stand = Stand::of(SCRIPT);
    let mut evaluation = stand.command();
    evaluation.args(["eval", "ppl", "--model", "demo", "--text", "-"]);
    let mut child = spawn(evaluation.stdin(Stdio::piped()));
    let process = stand.process(&mut child);
    assert!(runs(&process), "{process}");
    let mut text = child.stdin.take().expect("piped");
    text.write_all(b"a few words").expect("sent");
    drop(text);
    let ended = ran(child.wait_with_output().expect("ended"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!runs(&process), "{process}");
}

/// A reply that takes its time: as many numbers as there is room for.
const LONG: &str = r#"{"messages":[{"role":"user","content":"Count."}],"thinking":{"type":"disabled"},"stream":true,
"response_format":{"type":"json_schema","json_schema":{"name":"numbers","schema":
{"type":"array","items":{"type":"integer"},"minItems":100000}}}}"#;

const SLOW: [&str; 6] = ["--isa", "scalar", "--threads", "1", "--shutdown-grace", "0"];

/// A server at work, and who keeps the machine awake meanwhile.
fn working(stand: &Stand, server: Command) -> (Child, String, TcpStream, String) {
    let (mut child, address) = serving_by(server, &SLOW);
    assert!(!stand.file("pid").exists(), "nothing was asked of it");
    let reply = begin(&address, "/v1/chat/completions", LONG);
    let process = stand.process(&mut child);
    (child, address, reply, process)
}

/// A port that a child had inherited would be taken for as long as that lives.
fn has_only_what_it_needs(stand: &Stand) {
    let files = fs::read_to_string(stand.file("files")).expect("read");
    assert!(files.contains("pipe:") && !files.contains("socket:"), "{files}");
    let environment = fs::read_to_string(stand.file("env")).expect("read");
    assert!(environment.contains("PATH=") && !environment.contains("secret"), "{environment}");
}

#[test]
fn a_server_keeps_the_machine_awake_while_it_replies() {
    let stand = Stand::of(SCRIPT);
    let mut server = stand.command();
    server.env("AWS_SECRET_ACCESS_KEY", "secret");
    let (mut child, address, reply, process) = working(&stand, server);
    has_only_what_it_needs(&stand);
    // With the reply, not with the server.
    drop(reply);
    until_gone(&process);
    assert!(child.try_wait().expect("asked").is_none());
    terminate(child);
    TcpListener::bind(&address).expect("the port is free");
}

/// As systemd starts it, with a port that it holds.
#[test]
fn a_server_that_is_killed_leaves_nobody_who_has_its_port() {
    let stand = Stand::of(SCRIPT);
    let port = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let mut shell = Command::new("sh");
    let as_service = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
    let server = stand.command();
    shell.args(["-c", as_service]).arg(server.get_program());
    shell.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.stdin(OwnedFd::from(port)).stdout(Stdio::null()).stderr(Stdio::piped());
    let (mut child, address, _reply, process) = working(&stand, shell);
    has_only_what_it_needs(&stand);
    child.kill().expect("killed");
    child.wait().expect("ended");
    until_gone(&process);
    TcpListener::bind(&address).expect("the port is free");
}
