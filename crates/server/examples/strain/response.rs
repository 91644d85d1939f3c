//! As much of HTTP as shows where a response ends.

use std::io::{self, ErrorKind, Read};

/// Some bytes, also where the process was stopped and woken meanwhile: a read with a limit of time is not taken
/// up again by the system then.
pub(crate) fn read_some(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Whether these bytes are one whole response with a body.
pub(crate) fn is_complete(bytes: &[u8]) -> bool {
    let Some(end) = find(bytes, b"\r\n\r\n") else { return false };
    let body = &bytes[end + 4..];
    match content_length(&bytes[..end]) {
        Some(length) => body.len() >= length,
        None => body.ends_with(b"\r\n0\r\n\r\n") || body == b"0\r\n\r\n",
    }
}

/// The status of the response that these bytes begin with.
pub(crate) fn status(bytes: &[u8]) -> Option<u16> {
    let line = bytes.strip_prefix(b"HTTP/1.")?.get(..5)?;
    std::str::from_utf8(line).ok()?.split_once(' ')?.1.parse().ok()
}

/// Where `wanted` begins for the first time.
pub(crate) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn content_length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).ok()?;
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next()?.1.trim().parse().ok()
}
