//! One connection of somebody who means harm, or knows no better.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use super::{body, head};
use crate::chance::Chance;
use crate::response::{find, is_complete, read_some, status};

/// Requests one after the other on a connection.
const KEPT_MAX: usize = 40;
/// Requests sent at once.
const AT_ONCE_MAX: usize = 8;
/// The server's own limits are shorter: who hears nothing for so long was forgotten.
const PATIENCE: Duration = Duration::from_secs(20);
/// Faults of the server's own. No text of a request can look like this in an answer.
const FAULTS: [&[u8]; 2] = [b"\"code\":\"internal_error\"", b"\"code\":\"engine_error\""];

/// One connection.
#[derive(Debug)]
pub(crate) struct Peer {
    socket: TcpStream,
    chance: Chance,
}

/// Whether `/health` says so.
pub(crate) fn is_well(at: SocketAddr) -> bool {
    let mut peer = Peer::new(at, Chance::new(0));
    peer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    status(&peer.rest()) == Some(200)
}

impl Peer {
    pub(crate) fn new(at: SocketAddr, chance: Chance) -> Peer {
        let socket = TcpStream::connect(at).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        Peer { socket, chance }
    }

    /// Says what its seed makes it say; how many requests that was.
    pub(crate) fn speak(mut self) -> u64 {
        match self.chance.below(100) {
            0..60 => self.one_after_the_other(),
            60..97 => self.all_at_once(),
            97..99 => self.slowly(),
            _ => self.and_leaves(),
        }
    }

    /// Framed as it should be; what is inside is not. Every one must be answered.
    fn one_after_the_other(&mut self) -> u64 {
        let count = 1 + self.chance.below(KEPT_MAX);
        for sent in 1..=count {
            let (path, body) = body::body(&mut self.chance);
            let head = head::right(path, body.len(), &mut self.chance);
            let request = [head, body].concat();
            self.write(&request);
            let answer = self.answer(&request);
            if find(&answer, b"connection: close").is_some() {
                return sent as u64;
            }
        }
        count as u64
    }

    /// In one go, framed in any way, and then no more. The connection must come to an end.
    fn all_at_once(&mut self) -> u64 {
        let count = 1 + self.chance.below(AT_ONCE_MAX);
        let mut bytes = Vec::new();
        for _ in 0..count {
            bytes.extend(self.request());
        }
        for _ in 0..self.chance.below(4) {
            let at = self.chance.below(bytes.len());
            bytes[at] = self.chance.number() as u8;
        }
        let cut = self.chance.below(bytes.len());
        for part in [&bytes[..cut], &bytes[cut..]] {
            self.write(part);
        }
        if self.chance.below(20) == 0 {
            // Answers may come before it is known that nothing else will.
            sleep(Duration::from_millis(10));
        }
        let _ = self.socket.shutdown(Shutdown::Write);
        check(&self.rest());
        count as u64
    }

    /// Byte by byte, with pauses that are longer than the server has patience for.
    fn slowly(&mut self) -> u64 {
        let bytes = self.request();
        let pauses = 1 + self.chance.below(20);
        for part in bytes.chunks(bytes.len().div_ceil(pauses)) {
            self.write(part);
            sleep(Duration::from_millis(self.chance.below(30) as u64));
        }
        if self.chance.below(4) == 0 {
            sleep(Duration::from_millis(400));
        }
        let _ = self.socket.shutdown(Shutdown::Write);
        check(&self.rest());
        1
    }

    /// In the middle, without a word.
    fn and_leaves(&mut self) -> u64 {
        let (path, body) = body::body(&mut self.chance);
        let head = head::right(path, body.len() + self.chance.below(2), &mut self.chance);
        self.write(&[head, body].concat());
        sleep(Duration::from_micros(self.chance.below(3000) as u64));
        1
    }

    fn request(&mut self) -> Vec<u8> {
        let chance = &mut self.chance;
        let (path, body) = body::body(chance);
        match chance.below(4) {
            0 => [head::right(path, body.len(), chance), body].concat(),
            1 => [head::right(path, chance.below(body.len() * 2 + 1), chance), body].concat(),
            2 => {
                let key = head::KEY;
                let head = format!(
                    "POST {path} HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\nTransfer-Encoding: chunked\r\n\r\n"
                );
                [head.into_bytes(), head::chunks(&body, chance)].concat()
            }
            _ => [head::wrong(path, chance), body].concat(),
        }
    }

    /// The server may have ended the connection already; then its answer says why.
    fn write(&mut self, bytes: &[u8]) {
        match self.socket.write_all(bytes) {
            Ok(()) => {}
            Err(error) if is_end(error.kind()) => {}
            Err(error) => panic!("nothing is taken: {error}"),
        }
    }

    /// One answer, after whose last byte alone the server may end the connection.
    fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 16 << 10]);
        loop {
            // Asked for, and no answer yet.
            if bytes.starts_with(b"HTTP/1.1 100 ")
                && let Some(end) = find(&bytes, b"\r\n\r\n")
            {
                bytes.drain(..end + 4);
            }
            if is_complete(&bytes) {
                check(&bytes);
                return bytes;
            }
            match read_some(&mut self.socket, &mut buffer) {
                Ok(0) => panic!("no whole answer to {}: {}", shown(request), shown(&bytes)),
                Ok(read) => bytes.extend_from_slice(&buffer[..read]),
                // A body that is too large is not read to its end, which resets the connection.
                Err(error) if is_end(error.kind()) => return b"connection: close".to_vec(),
                Err(error) => {
                    panic!("no answer to {}: {error}", shown(request))
                }
            }
        }
    }

    /// Everything up to the end of the connection, which must come.
    fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.socket.read_to_end(&mut bytes) {
            Ok(_) => bytes,
            Err(error) if is_end(error.kind()) => bytes,
            Err(error) => panic!("no end: {error}, after {}", shown(&bytes)),
        }
    }
}

fn is_end(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::NotConnected
    )
}

/// What comes is an answer, and none that blames the server.
fn check(bytes: &[u8]) {
    assert!(bytes.is_empty() || status(bytes).is_some(), "no status: {}", shown(bytes));
    for fault in FAULTS {
        assert!(find(bytes, fault).is_none(), "a fault: {}", shown(bytes));
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned()
}
