//! Text from standard input and from files, refused when it is not UTF-8 or has no end in sight.

use std::fs::File;
use std::io::{BufRead, Read, stdin};
use std::path::Path;

use crate::failure::Failure;

/// Ten times what a context of 2^20 positions takes as text or as a list of ids. What has no end, as a
/// device or a pipe without line ends, must not be read until memory is gone.
const BYTES_MAX: u64 = 64 << 20;

/// All of standard input.
pub(crate) fn stdin_text() -> Result<String, Failure> {
    text(stdin().lock(), "standard input")
}

/// All of a file.
pub(crate) fn file_text(path: &Path) -> Result<String, Failure> {
    let name = path.display().to_string();
    text(File::open(path).map_err(|e| cannot_read(&name, &e))?, &name)
}

/// The argument itself, or all of standard input where it is `-`.
pub(crate) fn text_or_stdin(typed: &str) -> Result<String, Failure> {
    if typed == "-" { stdin_text() } else { Ok(typed.to_owned()) }
}

/// Lines of a source, counted.
pub(crate) struct Lines<R> {
    source: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// Begins before the first line.
    pub(crate) fn of(source: R) -> Lines<R> {
        Lines { source, number: 0 }
    }

    /// The next line as it is, without its line feed; nothing when there are no more. One that is
    /// too long to be meant ends the reading.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let mut line = Vec::new();
        let read = self.source.by_ref().take(BYTES_MAX + 1).read_until(b'\n', &mut line);
        read.map_err(|e| cannot_read("standard input", &e))?;
        if line.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if line.pop_if(|last| *last == b'\n').is_none() && line.len() as u64 > BYTES_MAX {
            return Err(too_long(&self.name()));
        }
        Ok(Some(line))
    }

    /// The line that came last, for messages.
    pub(crate) fn name(&self) -> String {
        format!("line {} of standard input", self.number)
    }
}

/// Bytes as text; `source` is whose bytes they are.
pub(crate) fn utf8(bytes: Vec<u8>, source: &str) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Failure::new(format!("{source} is not UTF-8 text: byte {at} begins no character"))
    })
}

fn text(source: impl Read, name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = source.take(BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|e| cannot_read(name, &e))?;
    match bytes.len() as u64 > BYTES_MAX {
        true => Err(too_long(name)),
        false => utf8(bytes, name),
    }
}

fn too_long(name: &str) -> Failure {
    let most = BYTES_MAX >> 20;
    Failure::new(format!("{name} is longer than {most} MiB: give it in smaller parts"))
}

fn cannot_read(name: &str, error: &std::io::Error) -> Failure {
    let remedy = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "; let this user read it",
        _ => "",
    };
    Failure::new(format!("cannot read {name}: {error}{remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_they_end_and_are_counted() {
        let mut lines = Lines::of(&b"a\n\nb\r\nlast"[..]);
        for wanted in [&b"a"[..], b"", b"b\r", b"last"] {
            assert_eq!(lines.next().unwrap().as_deref(), Some(wanted));
        }
        assert_eq!(lines.name(), "line 4 of standard input");
        assert!(lines.next().unwrap().is_none());
    }

    #[test]
    fn what_has_no_end_is_refused() {
        let endless = || std::io::BufReader::new(std::io::repeat(b'y'));
        let said = |failure: Failure| failure.line().unwrap_or_default();
        let line = said(Lines::of(endless()).next().unwrap_err());
        assert!(line.contains("line 1 of") && line.contains("64 MiB"), "{line}");
        let line = said(text(endless(), "/dev/zero").unwrap_err());
        assert!(line.contains("/dev/zero is longer than 64 MiB"), "{line}");
    }
}
