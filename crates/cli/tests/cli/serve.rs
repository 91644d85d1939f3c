//! `serve`: the port, the first answer, the end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::program::{GIVE_UP, RELEASED_SPINE, command, deltafin, spawn, wait_until};

/// A server on a port that the system chose, and its address.
fn serving(args: &[&str]) -> (Child, String) {
    serving_by(command(), args)
}

/// The same, by a command that somebody has prepared.
pub(crate) fn serving_by(mut command: Command, args: &[&str]) -> (Child, String) {
    let mut child = spawn(command.args(["serve", "--model", "demo", "--port", "0"]).args(args));
    // Else what it was given for the child would stay open here.
    drop(command);
    let stderr = child.stderr.take().expect("piped");
    let mut lines = BufReader::new(stderr).lines();
    let mut line = || lines.next().expect("a line").expect("UTF-8");
    assert_eq!(line() + "\n", RELEASED_SPINE);
    let line = line();
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
    assert_eq!(line, format!("deltafin: serving deltafin-demo on http://{address}/v1"));
    // What it says later is read, or it would have nowhere to say it.
    std::thread::spawn(move || lines.for_each(drop));
    (child, address)
}

/// Asks, and gives the whole answer, head and body.
pub(crate) fn ask(address: &str, path: &str, body: &str) -> String {
    let mut answer = String::new();
    begin(address, path, body).read_to_string(&mut answer).expect("an answer");
    answer
}

/// Asks, and listens to nothing yet.
pub(crate) fn begin(address: &str, path: &str, body: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).expect("connects");
    socket.set_read_timeout(Some(GIVE_UP)).expect("set");
    socket.set_write_timeout(Some(GIVE_UP)).expect("set");
    let length = body.len();
    let method = if body.is_empty() { "GET" } else { "POST" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    socket.write_all((head + body).as_bytes()).expect("sent");
    socket
}

#[test]
fn a_port_that_is_taken_ends_it_before_weights_are_read() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    // The model does not even exist: the port is looked at first.
    let line = deltafin(&["serve", "--model", "/no/such", "--port", &port]).refusal();
    assert!(line.contains(&port) && line.contains("--port"), "{line}");
}

#[test]
fn what_a_server_has_no_use_for_is_misuse() {
    for args in [
        &["--json"][..],
        &["--stats"],
        &["--api-key", ""],
        &["--host", "nowhere"],
        &["--cors-origin", "localhost:3000"],
    ] {
        deltafin(&[&["serve", "--model", "demo"], args].concat()).usage();
    }
}

#[test]
fn keys_may_stand_in_a_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("keys");
    let path = file.to_str().expect("UTF-8");
    for (text, words) in [("", "it has no key"), ("one\n\ntwo words\n", "line 3")] {
        std::fs::write(&file, text).expect("written");
        let line = deltafin(&["serve", "--model", "demo", "--api-key-file", path]).refusal();
        assert!(line.contains(path) && line.contains(words), "{line}");
    }
    std::fs::write(&file, "one\n\n two \n").expect("written");
    let (child, address) =
        serving(&["--api-key-file", path, "--reasoning-field", "none", "--strict"]);
    assert!(ask(&address, "/v1/models", "").starts_with("HTTP/1.1 401"));
    let head = format!(
        "GET /v1/models HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nx-api-key: two\r\n\r\n"
    );
    let mut socket = TcpStream::connect(&address).expect("connects");
    socket.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("UTF-8");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    terminate(child);
}

/// Found out before the first conversation would be lost.
#[test]
fn a_folder_for_conversations_that_cannot_be_made_is_refused() {
    let args = ["serve", "--model", "demo", "--port", "0", "--snapshot-disk", "64M"];
    for folder in ["/dev/null", "/dev/null/below"] {
        let line = deltafin(&[&args[..], &["--snapshot-dir", folder]].concat()).refusal();
        assert!(line.contains(&format!("--snapshot-dir {folder}: ")), "{line}");
    }
}

/// Every line is an object, whoever writes it.
#[test]
fn its_log_can_be_read_by_machines() {
    let args = ["serve", "--model", "demo", "--port", "0", "--log-format", "json"];
    let mut child = spawn(command().args(args));
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut next = |event: &str| loop {
        let line = lines.next().expect("a line").expect("UTF-8");
        let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert!(line["time"].as_f64().expect("a time") > 1.7e9, "{line}");
        if line["event"] == event {
            return line;
        }
    };
    let address = loop {
        let line = next("note")["message"].as_str().expect("words").to_owned();
        if let Some(rest) = line.split("http://").nth(1) {
            break rest.trim_end_matches("/v1").to_owned();
        }
    };
    ask(&address, "/v1/completions", r#"{"prompt":"Hi","max_tokens":2}"#);
    let generation = next("generation");
    assert_eq!(
        (&generation["outcome"], &generation["completion_tokens"]),
        (&"done".into(), &2.into())
    );
    let request = next("request");
    assert_eq!((&request["path"], &request["status"]), (&"/v1/completions".into(), &200.into()));
    assert_eq!(request["request"], generation["request"]);
    child.kill().expect("killed");
    child.wait().expect("ended");
}

#[test]
fn it_answers_and_ends_when_asked() {
    for signal in ["-TERM", "-INT"] {
        let (mut child, address) = serving(&["--alias", "k3"]);
        assert!(ask(&address, "/health", "").contains("{\"status\":\"ok\"}"));
        let body = r#"{"model":"k3","messages":[{"role":"user","content":"What is 47 + 38?"}]}"#;
        assert!(ask(&address, "/v1/chat/completions", body).contains("47 + 38 = 85."));
        let mut kill = std::process::Command::new("kill");
        let sent = kill.args([signal, &child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
        assert_eq!(child.wait().expect("ends").code(), Some(0), "{signal}");
    }
}

/// The line of the spine is said while the model is loaded.
#[test]
fn asked_to_end_while_it_loads_it_ends_well() {
    let mut child = spawn(command().args(["serve", "--model", "demo", "--port", "0"]));
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("read");
    assert_eq!(line, RELEASED_SPINE);
    terminate(child);
}

pub(crate) fn terminate(mut child: Child) {
    let mut kill = std::process::Command::new("kill");
    assert!(kill.arg(child.id().to_string()).status().expect("kill runs").success());
    wait_until(&mut child, "its end", |child| child.try_wait().expect("asked").is_some());
    assert_eq!(child.wait().expect("ended").code(), Some(0));
}

#[test]
fn a_restart_keeps_the_conversation() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("kept").display().to_string();
    let kept = ["--snapshot-dir", dir.as_str(), "--snapshot-disk", "64M"];
    let body = r#"{"messages":[{"role":"user","content":"What is 47 + 38?"}]}"#;
    let mut told = Vec::new();
    for _ in 0..2 {
        let (child, address) = serving(&kept);
        let answer = ask(&address, "/v1/chat/completions", body);
        let json: Value =
            serde_json::from_str(answer.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
        terminate(child);
        told.push(json);
    }
    let [first, second] = [0, 1].map(|at| &told[at]);
    assert_eq!(first["choices"], second["choices"]);
    let cached = |reply: &Value| reply["usage"]["prompt_tokens_details"]["cached_tokens"].clone();
    assert_eq!(cached(first), 0);
    assert_eq!(cached(second), second["usage"]["prompt_tokens"]);
}

#[test]
fn memory_that_holds_no_conversation_is_refused_and_none_is_as_good() {
    let line = deltafin(&["serve", "--model", "demo", "--port", "0", "--snapshot-memory", "1"]);
    let line = line.refusal();
    assert!(line.contains("--snapshot-memory 1 ") && line.contains("or 0"), "{line}");
    for flag in ["--snapshot-memory", "--max-body"] {
        let more = ["serve", "--model", "demo", "--port", "0", "--memory", "200M", flag, "1000G"];
        let line = deltafin(&more).refusal();
        assert!(line.contains(&format!("lower {flag}")), "{line}");
    }
    let (child, address) = serving(&["--snapshot-memory", "0"]);
    let body = r#"{"messages":[{"role":"user","content":"What is 47 + 38?"}]}"#;
    assert!(ask(&address, "/v1/chat/completions", body).contains("47 + 38 = 85."));
    terminate(child);
}

/// A pipe holds 64 KiB, and nobody reads this one after the second line.
#[test]
fn a_log_that_nobody_takes_holds_nothing_up() {
    let mut child = spawn(command().args(["serve", "--model", "demo", "--port", "0"]));
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("http://") {
        line.clear();
        assert!(stderr.read_line(&mut line).expect("UTF-8") > 0);
    }
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.unwrap_or_else(|| panic!("{line}"));
    for _ in 0..16 {
        let path = format!("/{}", "x".repeat(30_000));
        assert!(ask(address, &path, "").starts_with("HTTP/1.1 404"));
    }
    assert!(ask(address, "/health", "").contains("{\"status\":\"ok\"}"));
    terminate(child);
    // What it could not say is missing between whole lines.
    let lines = stderr.lines().map(|line| line.expect("UTF-8"));
    assert!(lines.filter(|line| line.contains(" 404")).count() < 16);
}

/// As systemd does it: a descriptor that listens already, and a socket that wants to know.
#[test]
fn a_supervisor_may_hold_the_port_and_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
    told.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    let port = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = port.local_addr().expect("an address").to_string();
    let mut shell = std::process::Command::new("sh");
    // A port of its own would be refused: this one is taken.
    let script =
        "exec 3<&0; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve --model demo --port \"$1\"";
    shell.args([
        "-c",
        script,
        env!("CARGO_BIN_EXE_deltafin"),
        address.rsplit(':').next().expect("a port"),
    ]);
    shell.stdin(OwnedFd::from(port)).stderr(Stdio::null());
    shell.env("NOTIFY_SOCKET", folder.path().join("notify"));
    let mut child = shell.spawn().expect("starts");
    let heard = || {
        let mut bytes = [0; 64];
        let length = told.recv(&mut bytes).expect("a word");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    assert_eq!(heard(), "READY=1");
    assert!(ask(&address, "/health", "").contains("{\"status\":\"ok\"}"));
    let mut kill = std::process::Command::new("kill");
    assert!(kill.arg(child.id().to_string()).status().expect("kill runs").success());
    assert_eq!(heard(), "STOPPING=1");
    assert_eq!(child.wait().expect("ends").code(), Some(0));
}
