//! What is hardly a request: answered in the form of every refusal.

use std::io::{BufReader, Read as _};

use crate::script::{Act, start};
use crate::wire::{get, head, said, send};

#[test]
fn what_is_no_request_gets_the_one_form() {
    let rig = start(&[Act::Stop]);
    let long = "x".repeat(70_000);
    for (bytes, status) in [
        ("hello\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/7.0\r\n\r\n".to_owned(), 400),
        ("GET /health HTTP/1.1\r\nHost localhost\r\n\r\n".to_owned(), 400),
        ("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n".to_owned(), 400),
        (format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"), 431),
        (of_head(HEAD_BYTES + 1), 431),
        (of_head(40_000), 431),
        (format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"), 431),
        ("\u{16}\u{3}\u{1}\u{2}".to_owned(), 400),
    ] {
        let response = send(rig.at, bytes.as_bytes());
        assert_eq!(response.header("connection"), Some("close"));
        assert_eq!(response.refusal().0, status, "{:?}", bytes.get(..40));
    }
}

const HEAD_BYTES: usize = 32 << 10;

/// A request whose head has so many bytes.
fn of_head(bytes: usize) -> String {
    let head = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: ";
    format!("{head}{}\r\n\r\n", "x".repeat(bytes - head.len() - 4))
}

#[test]
fn a_head_may_have_what_is_said() {
    let rig = start(&[Act::Stop]);
    assert_eq!(send(rig.at, of_head(HEAD_BYTES).as_bytes()).status, 200);
}

/// Who speaks HTTP/2 without asking understands an answer in its frames, and no other.
#[test]
fn http_2_is_told_in_its_own_frames_that_http_1_1_is_spoken() {
    let rig = start(&[Act::Stop]);
    let mut socket = said(rig.at, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let mut frame = || {
        let mut head = [0; 9];
        socket.read_exact(&mut head).expect("a frame");
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        socket.read_exact(&mut payload).expect("its payload");
        assert_eq!((flags, stream), (0, [0; 4]));
        (kind, payload)
    };
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    assert_eq!(frame(), (SETTINGS, Vec::new()));
    let (kind, reason) = frame();
    let (numbers, document) = reason.split_at(8);
    // No stream was taken, and the code is HTTP_1_1_REQUIRED.
    assert_eq!((kind, numbers), (GOAWAY, &[0, 0, 0, 0, 0, 0, 0, 13][..]));
    let error: serde_json::Value = serde_json::from_slice(document).expect("JSON");
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("HTTP/1.1"), "{message}");
    assert_eq!(socket.read(&mut [0]).expect("an end"), 0);
    let page = get(rig.at, "/metrics", "").text();
    assert!(page.contains("{endpoint=\"other\",status=\"505\"} 1"), "{page}");
}

#[test]
fn it_is_so_too_after_a_request_that_was_answered() {
    let rig = start(&[Act::Stop]);
    let good = "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let socket = said(rig.at, format!("{good}{good}nonsense\r\n\r\n").as_bytes());
    for _ in 0..2 {
        let mut answer = head(BufReader::with_capacity(1, socket.try_clone().expect("a handle")));
        assert_eq!((answer.status, answer.text().contains("version")), (200, true));
    }
    let mut rest = String::new();
    (&socket).read_to_string(&mut rest).expect("text");
    assert!(rest.starts_with("HTTP/1.1 400 ") && rest.contains("x-request-id: req_"), "{rest}");
    assert_eq!(rest.matches("HTTP/1.1 4").count(), 1, "{rest}");
}

#[test]
fn a_name_of_a_model_that_is_no_text_is_none() {
    let rig = start(&[Act::Stop]);
    let (status, code, _) = get(rig.at, "/v1/models/%ff", "").refusal();
    assert_eq!((status, code.as_str()), (404, "model_not_found"));
}

#[test]
fn a_request_has_one_host_and_that_is_ours() {
    let rig = start(&[Act::Stop]);
    let ask = |line: &str, hosts: &str| {
        let request = format!("{line}\r\n{hosts}Connection: close\r\n\r\n");
        let response = send(rig.at, request.as_bytes());
        if response.status == 200 { 200 } else { response.refusal().0 }
    };
    let usual = "GET /health HTTP/1.1";
    for (hosts, status) in [
        ("Host: localhost.\r\n", 200),
        ("Host: LocalHost:80\r\n", 200),
        ("", 400),
        ("Host: \r\n", 400),
        ("Host: localhost\r\nHost: localhost\r\n", 400),
        ("Host: localhost/evil\r\n", 400),
        ("Host: [::1]evil\r\n", 400),
        ("Host: localh\u{f6}st\r\n", 400),
        ("Host: evil.example\r\n", 403),
    ] {
        assert_eq!(ask(usual, hosts), status, "{hosts:?}");
    }
    assert_eq!(ask("GET /health HTTP/1.0", ""), 200);
    for (target, status) in [("localhost", 200), ("evil.example", 403), ("x@localhost", 400)] {
        let line = format!("GET http://{target}/health HTTP/1.1");
        assert_eq!(ask(&line, "Host: localhost\r\n"), status, "{target}");
    }
    assert_eq!(ask("GET http://localhost/health HTTP/1.1", "Host: evil.example\r\n"), 403);
}
