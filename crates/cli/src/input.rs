//! Text from standard input and from files, refused when it is not UTF-8 or longer than there is use for.
//!
//! **Promise.** A [`Source`] is read in pieces of [`PIECE_BYTES`], and no further than its bound: whoever can
//! do without the whole text never holds it.

use std::fs::File;
use std::io::{BufRead, Cursor, ErrorKind, Read, stdin};
use std::path::Path;
use std::str;

use deltafin_budget::Size;

use crate::failure::Failure;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// How much of a text there is use for.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    /// Bytes.
    pub(crate) bytes: u64,
    /// What follows "is longer than so many bytes": why, and what helps.
    pub(crate) remedy: String,
}

impl Bound {
    /// For what is held as a whole by a command that promises nothing about memory. What has no end, as
    /// a device or a pipe without line ends, must not be read until memory is gone.
    pub(crate) fn of_any_text() -> Bound {
        Bound { bytes: 64 << 20, remedy: ": give it in smaller parts".to_owned() }
    }

    /// A text that is here already, if it is no longer.
    pub(crate) fn admit(&self, text: String, name: &str) -> Result<String, Failure> {
        if text.len() as u64 > self.bytes { Err(self.refuse(name)) } else { Ok(text) }
    }

    fn refuse(&self, name: &str) -> Failure {
        let Bound { bytes, remedy } = self;
        Failure::new(format!("{name} is longer than {}{remedy}", Size(*bytes)))
    }
}

/// Where text comes from: opened, for a file that is not there should not cost a wait, and not yet read.
pub(crate) struct Source {
    from: Box<dyn Read>,
    name: String,
    less_line_end: bool,
}

impl Source {
    /// Standard input.
    pub(crate) fn stdin() -> Source {
        Source::new(stdin(), "standard input")
    }

    /// A file, or standard input where the name is `-`.
    pub(crate) fn file_or_stdin(path: &Path) -> Result<Source, Failure> {
        if path.as_os_str() == "-" { Ok(Source::stdin()) } else { Source::file(path) }
    }

    /// A file.
    pub(crate) fn file(path: &Path) -> Result<Source, Failure> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|e| cannot_read(&name, &e))?;
        Ok(Source::new(file, name))
    }

    /// A prompt: the argument itself, or standard input where it is `-`. The line end that `echo` adds
    /// there is not part of it.
    pub(crate) fn prompt(typed: &str) -> Source {
        match typed {
            "-" => Source { less_line_end: true, ..Source::stdin() },
            _ => Source::new(Cursor::new(typed.to_owned()), "the prompt"),
        }
    }

    fn new(from: impl Read + 'static, name: impl Into<String>) -> Source {
        Source { from: Box::new(from), name: name.into(), less_line_end: false }
    }

    /// Whose text it is, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Gives the text to `each`, piece by piece; returns how many bytes it had.
    ///
    /// # Errors
    /// Where it cannot be read, is longer than the bound or no UTF-8, or with the failure of `each`.
    pub(crate) fn read(
        self,
        bound: &Bound,
        mut each: impl FnMut(&str) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let mut end = LineEnd { held: "", bytes: 0 };
        let Source { mut from, name, less_line_end } = self;
        pieces(&mut from, &name, bound, &mut |piece| match less_line_end {
            true => end.give(piece, &mut each),
            false => end.pass(piece, &mut each),
        })?;
        end.finish(&mut each)
    }

    /// The whole text.
    ///
    /// # Errors
    /// As [`Source::read`].
    pub(crate) fn text(self, bound: &Bound) -> Result<String, Failure> {
        let mut text = String::new();
        self.read(bound, |piece| {
            text.push_str(piece);
            Ok(())
        })?;
        Ok(text)
    }
}

/// Takes the pieces of a text.
type Each<'e> = dyn FnMut(&str) -> Result<(), Failure> + 'e;

/// Keeps back what may be the last line end of a text.
struct LineEnd {
    held: &'static str,
    /// Bytes that were passed on.
    bytes: u64,
}

impl LineEnd {
    fn give(&mut self, piece: &str, each: &mut Each<'_>) -> Result<(), Failure> {
        let joined = match (self.held, piece) {
            ("\r", "\n") => "\r\n",
            (held, piece) => {
                self.pass(held, each)?;
                piece
            }
        };
        let ends = ["\r\n", "\n", "\r"];
        self.held = ends.into_iter().find(|end| joined.ends_with(end)).unwrap_or_default();
        self.pass(&joined[..joined.len() - self.held.len()], each)
    }

    fn pass(&mut self, text: &str, each: &mut Each<'_>) -> Result<(), Failure> {
        self.bytes += text.len() as u64;
        if text.is_empty() { Ok(()) } else { each(text) }
    }

    /// A carriage return alone ends no line.
    fn finish(mut self, each: &mut Each<'_>) -> Result<u64, Failure> {
        if self.held == "\r" {
            self.pass("\r", each)?;
        }
        Ok(self.bytes)
    }
}

/// Lines of a source, counted.
pub(crate) struct Lines<R> {
    source: R,
    bound: Bound,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// Begins before the first line; none is longer than the bound.
    pub(crate) fn of(source: R, bound: Bound) -> Lines<R> {
        Lines { source, bound, number: 0 }
    }

    /// The next line as it is, without its line feed; nothing when there are no more. One that is
    /// too long to be meant ends the reading.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let (mut line, most) = (Vec::new(), self.bound.bytes);
        let read = self.source.by_ref().take(most + 1).read_until(b'\n', &mut line);
        read.map_err(|e| cannot_read("standard input", &e))?;
        if line.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if line.pop_if(|last| *last == b'\n').is_none() && line.len() as u64 > most {
            return Err(self.bound.refuse(&self.name()));
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
    let not_utf8 = |e: std::string::FromUtf8Error| no_text(source, e.utf8_error().valid_up_to());
    String::from_utf8(bytes).map_err(not_utf8)
}

/// Reads to the end. A character that a read cuts waits for its rest.
fn pieces(
    from: &mut impl Read,
    name: &str,
    bound: &Bound,
    each: &mut Each<'_>,
) -> Result<(), Failure> {
    let (mut buffer, mut waiting, mut before) = (vec![0; PIECE_BYTES], 0, 0u64);
    loop {
        let got = match from.read(&mut buffer[waiting..]) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            got => got.map_err(|e| cannot_read(name, &e))?,
        };
        let here = &buffer[..waiting + got];
        if before + here.len() as u64 > bound.bytes {
            return Err(bound.refuse(name));
        }
        let valid = match str::from_utf8(here) {
            Ok(_) => here.len(),
            Err(e) if e.error_len().is_none() && got > 0 => e.valid_up_to(),
            Err(e) => return Err(no_text(name, before as usize + e.valid_up_to())),
        };
        let text = str::from_utf8(&here[..valid]).unwrap_or_default();
        if !text.is_empty() {
            each(text)?;
        }
        if got == 0 {
            return Ok(());
        }
        before += valid as u64;
        buffer.copy_within(valid..waiting + got, 0);
        waiting = waiting + got - valid;
    }
}

fn no_text(name: &str, at: usize) -> Failure {
    Failure::new(format!("{name} is not UTF-8 text: byte {at} begins no character"))
}

fn cannot_read(name: &str, error: &std::io::Error) -> Failure {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => "; let this user read it",
        _ => "",
    };
    Failure::new(format!("cannot read {name}: {error}{remedy}"))
}

#[cfg(test)]
mod tests;
