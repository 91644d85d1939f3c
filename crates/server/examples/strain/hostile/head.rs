//! Request lines, headers and framing: right, nearly right, and wrong.

use crate::chance::Chance;

/// The key and the origin that are let in.
pub(crate) const KEY: &str = "key";
pub(crate) const ORIGIN: &str = "http://allowed.example";

const METHODS: &[&str] = &[
    "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH", "TRACE", "CONNECT", "G\u{e9}T", "",
    "get", "PRI",
];
const PATHS: &[&str] = &[
    "/",
    "/health",
    "/healthz/",
    "/v1/models",
    "/v1/models/strain",
    "/models/%73train",
    "/models/%00%ff%",
    "/metrics",
    "/version",
    "/v1/v1/models",
    "//health",
    "/../health",
    "/v1/%2e%2e/health",
    "/health?x=1#y",
    "*",
    "",
    "http://localhost/health",
    "http://evil.example/health",
    "localhost:80",
    "/\u{2028}",
    "/a b",
    "/%",
    "/v1/chat/completions",
];
const HOSTS: &[&str] = &[
    "localhost",
    "127.0.0.1:8080",
    "[::1]",
    "LOCALHOST.",
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.nip.io",
    "",
    "[",
    "[::1",
    "::1",
    "localhost:99999",
    "local\thost",
    "user@localhost",
    "0.0.0.0",
    "2130706433",
];
const LINES: &[&str] = &[
    "Connection: close",
    "Connection: keep-alive, upgrade",
    "Upgrade: h2c",
    "Upgrade: websocket",
    "Expect: 100-continue",
    "Expect: 200-maybe",
    "Origin: http://allowed.example",
    "Origin: http://evil.example",
    "Origin: null",
    "Origin: \u{fffd}",
    "Access-Control-Request-Method: POST",
    "Access-Control-Request-Headers: a, b",
    "Authorization: Bearer key",
    "Authorization: Bearer wrong",
    "Authorization: bearer  key ",
    "Authorization: Basic a2V5",
    "Authorization:",
    "x-api-key: key",
    "x-api-key: k",
    "x-request-id: mine",
    "x-request-id: \u{1}",
    "x-request-id: a b",
    "X-Stainless-Retry-Count: 3",
    "Content-Type: application/json; charset=utf-16",
    "Content-Encoding: gzip",
    "TE: trailers",
    "Accept: */*",
    "Content-Length: 0",
    "Content-Length: -1",
    "Content-Length: 18446744073709551616",
    "Content-Length: 5, 5",
    "Content-Length: 99999999999",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked, gzip",
    "Transfer-Encoding: x",
    " folded: yes",
    "no colon",
    ": no name",
    "n\u{e4}me: x",
    "Name : x",
    "a\0b: c",
    "Host: localhost",
];

/// A head that is let in, for a body of this length: with harmless lines.
pub(crate) fn right(path: &str, length: usize, chance: &mut Chance) -> Vec<u8> {
    let harmless =
        ["Accept: */*", "x-request-id: mine", "Expect: 100-continue", "Content-Type: text/plain"];
    let line = harmless[chance.below(harmless.len())];
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nx-api-key: {KEY}\r\n{line}\r\nContent-Length: {length}\r\n\r\n"
    )
    .into_bytes()
}

/// A head of any kind, up to its blank line, which may be missing.
pub(crate) fn wrong(path: &str, chance: &mut Chance) -> Vec<u8> {
    let post = chance.below(2) == 0;
    let method = if post { "POST" } else { METHODS[chance.below(METHODS.len())] };
    let path = if post { path } else { PATHS[chance.below(PATHS.len())] };
    let version =
        ["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9", ""][chance.below(7)];
    let mut head = format!("{method} {path} {version}\r\n");
    if chance.below(10) > 0 {
        let host =
            if chance.below(2) == 0 { "localhost" } else { HOSTS[chance.below(HOSTS.len())] };
        head += &format!("Host: {host}\r\n");
    }
    for _ in 0..chance.below(6) {
        head += LINES[chance.below(LINES.len())];
        head += ["\r\n", "\r\n", "\r\n", "\n", "\r"][chance.below(5)];
    }
    match chance.below(60) {
        0 => head += &"x: y\r\n".repeat(chance.below(300)),
        1 => head += &format!("long: {}\r\n", "z".repeat(chance.below(100_000))),
        2 => head += &format!("cookie: {}\r\n", "\u{ff}".repeat(chance.below(100))),
        _ => {}
    }
    if chance.below(20) > 0 {
        head += "\r\n";
    }
    head.into_bytes()
}

/// A body in chunks, some of which are not what they say.
pub(crate) fn chunks(body: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut framed = Vec::new();
    for piece in body.chunks(1 + chance.below(body.len().clamp(1, 5000))) {
        let length = match chance.below(40) {
            0 => piece.len() + 1,
            1 => piece.len().saturating_sub(1),
            _ => piece.len(),
        };
        let size = match chance.below(40) {
            0 => format!("{length:x};name=\"value\""),
            1 => format!("{length:0>40x}"),
            2 => "-1".to_owned(),
            3 => "ffffffffffffffffff".to_owned(),
            4 => format!("0x{length:x}"),
            5 => format!(" {length:X} "),
            _ => format!("{length:x}"),
        };
        framed.extend_from_slice(size.as_bytes());
        framed.extend_from_slice(b"\r\n");
        framed.extend_from_slice(piece);
        framed.extend_from_slice(b"\r\n");
    }
    let end: &[u8] =
        [&b"0\r\n\r\n"[..], b"0\r\nTrailer: x\r\n\r\n", b"0\r\n", b"", b"0\n\n"][chance.below(5)];
    framed.extend_from_slice(end);
    framed
}
