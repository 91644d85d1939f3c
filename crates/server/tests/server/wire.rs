//! A client that shows every byte.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

/// A response whose head was read.
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    socket: BufReader<TcpStream>,
}

/// Sends bytes and reads the head of the answer.
#[track_caller]
pub(crate) fn send(at: SocketAddr, bytes: &[u8]) -> Response {
    head(BufReader::new(said(at, bytes)))
}

/// A connection over which these bytes were sent.
#[track_caller]
pub(crate) fn said(at: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(at).expect("connects");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    socket.write_all(bytes).expect("sent");
    socket
}

/// The bytes of a chat on a connection that may go on.
pub(crate) fn chat_bytes(more: Value) -> Vec<u8> {
    let body = chat_body(more).to_string();
    let length = body.len();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n";
    format!("{head}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// Reads the head of an answer.
#[track_caller]
pub(crate) fn head(mut socket: BufReader<TcpStream>) -> Response {
    let mut line = || {
        let mut line = String::new();
        socket.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    };
    let first = line();
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
    let mut headers = Vec::new();
    while let Some((name, value)) = line().split_once(": ") {
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    Response { status: status.unwrap_or_else(|| panic!("no status: {first:?}")), headers, socket }
}

#[track_caller]
pub(crate) fn get(at: SocketAddr, path: &str, headers: &str) -> Response {
    ask(at, "GET", path, headers, "")
}

#[track_caller]
pub(crate) fn ask(at: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Response {
    let length = body.len();
    let length =
        if method == "POST" { format!("Content-Length: {length}\r\n") } else { String::new() };
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {at}\r\n") };
    send(
        at,
        format!(
            "{method} {path} HTTP/1.1\r\n{host}{length}Connection: close\r\n{headers}\r\n{body}"
        )
        .as_bytes(),
    )
}

#[track_caller]
pub(crate) fn post(at: SocketAddr, path: &str, body: &Value) -> Response {
    ask(at, "POST", path, "", &body.to_string())
}

/// A chat with these members besides one message, thinking off unless they say otherwise.
pub(crate) fn chat_body(more: Value) -> Value {
    let mut body = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
    let members = body.as_object_mut().expect("an object");
    members.insert("thinking".to_owned(), json!(false));
    for (name, value) in more.as_object().expect("an object") {
        members.insert(name.clone(), value.clone());
    }
    body
}

#[track_caller]
pub(crate) fn chat(at: SocketAddr, more: Value) -> Response {
    post(at, "/v1/chat/completions", &chat_body(more))
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The next chunk of a chunked body; nothing at its end.
    pub(crate) fn chunk(&mut self) -> Option<String> {
        let mut size = String::new();
        self.socket.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        let mut bytes = vec![0; size + 2];
        self.socket.read_exact(&mut bytes).ok()?;
        bytes.truncate(size);
        (size > 0).then(|| String::from_utf8(bytes).expect("UTF-8"))
    }

    /// All of the body.
    #[track_caller]
    pub(crate) fn text(&mut self) -> String {
        if self.header("transfer-encoding") == Some("chunked") {
            return std::iter::from_fn(|| self.chunk()).collect();
        }
        let length = self.header("content-length").and_then(|length| length.parse().ok());
        let mut bytes = vec![0; length.unwrap_or(0)];
        self.socket.read_exact(&mut bytes).expect("the body");
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[track_caller]
    pub(crate) fn json(mut self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    /// Status, code and param of a refusal, which must have the one form.
    #[track_caller]
    pub(crate) fn refusal(self) -> (u16, String, Value) {
        let status = self.status;
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert!(self.header("x-request-id").is_some());
        let error = self.json();
        let error = error["error"].as_object().expect("an error").clone();
        let names: Vec<&str> = error.keys().map(String::as_str).collect();
        assert_eq!(names, ["message", "type", "param", "code"]);
        assert!(error["message"].as_str().is_some_and(|words| !words.contains('\n')));
        (status, error["code"].as_str().expect("a code").to_owned(), error["param"].clone())
    }

    /// The events of a stream; comments left out.
    #[track_caller]
    pub(crate) fn events(mut self) -> Vec<Value> {
        let text = self.text();
        let blocks = text.split_terminator("\n\n").filter(|block| !block.starts_with(": "));
        let data = blocks.map(|block| {
            let data = block.strip_prefix("data: ").unwrap_or_else(|| panic!("{block:?}"));
            serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()))
        });
        data.collect()
    }

    /// Leaves.
    pub(crate) fn leave(self) {
        let _ = self.socket.get_ref().shutdown(Shutdown::Both);
    }
}
