//! As much HTTP as a fake needs: requests without bodies, answers that need not be well formed.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Nobody sends a longer head.
const HEAD_BYTES_MAX: u64 = 1 << 16;

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    /// `GET` or `HEAD`.
    pub(super) method: String,
    /// The path, as sent.
    pub(super) path: String,
    /// What follows the question mark.
    pub(super) query: String,
    headers: Vec<(String, String)>,
}

impl Request {
    /// The next request of a connection; nothing when it is over.
    pub(super) fn read(from: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
        let mut head = from.by_ref().take(HEAD_BYTES_MAX);
        let mut first = String::new();
        if head.read_line(&mut first)? == 0 {
            return Ok(None);
        }
        let mut words = first.split_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(None) };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Request {
            method: method.to_owned(),
            path: decoded(path),
            query: query.to_owned(),
            headers: Vec::new(),
        };
        loop {
            let mut line = String::new();
            if head.read_line(&mut line)? == 0 || line.trim().is_empty() {
                return Ok(Some(request));
            }
            if let Some((name, value)) = line.split_once(':') {
                request.headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
    }

    /// The value of a header, by its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The first and the last byte that are asked for.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }

    /// The value of a key of the query.
    pub(super) fn asked(&self, key: &str) -> Option<&str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

/// A path with its percent signs undone.
fn decoded(path: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), path.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| byte == b'%');
        let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(decoded.unwrap_or(byte));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer<'b> {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: &'b [u8],
    /// What is sent of the body; what follows stays away.
    pub(super) sent: usize,
}

impl<'b> Answer<'b> {
    /// A status and a body, all of it sent.
    pub(super) fn new(status: u16, body: &'b [u8]) -> Answer<'b> {
        Answer { status, headers: Vec::new(), body, sent: body.len() }
    }

    /// With one more header.
    pub(super) fn with(mut self, name: &'static str, value: impl ToString) -> Answer<'b> {
        self.headers.push((name, value.to_string()));
        self
    }

    /// Sends it; gives how many bytes of body went out.
    pub(super) fn send(&self, to: &mut TcpStream, method: &str) -> io::Result<u64> {
        let mut head = format!("HTTP/1.1 {} Word\r\n", self.status);
        head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        to.write_all(head.as_bytes())?;
        if method == "HEAD" {
            return Ok(0);
        }
        let (mut sent, body) = (0, &self.body[..self.sent]);
        for block in body.chunks(1 << 18) {
            to.write_all(block)?;
            sent += block.len() as u64;
        }
        Ok(sent)
    }
}

/// Keeps a connection open, and silent, until the other side has enough.
pub(super) fn hold(connection: &mut TcpStream) {
    let _ = connection.set_read_timeout(Some(Duration::from_secs(60)));
    let _ = connection.read(&mut [0]);
}
