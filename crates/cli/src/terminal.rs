//! What a terminal is shown and a file is not: dimmed text, a progress line, visible controls.

mod lines;
mod progress;
mod visible;

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write, stderr, stdin, stdout};

pub(crate) use self::lines::{finish, never_wait, note, note_over, say, say_in_json, say_parts};
pub(crate) use self::progress::{PATIENCE, ProgressLine};
pub(crate) use self::visible::{one_line, visible};
use crate::failure::Failure;

/// To the front of the line, and nothing on it.
pub(crate) const ERASE_LINE: &str = "\r\x1b[2K";
/// Which of the standard streams are terminals, and whether styles are welcome there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terminal {
    /// Standard input is typed by a person.
    pub(crate) stdin: bool,
    /// Standard output is read by a person.
    pub(crate) stdout: bool,
    /// Standard error is read by a person.
    pub(crate) stderr: bool,
    /// It takes commands: one that is dumb shows them as they are.
    pub(crate) obeys: bool,
    styled: bool,
}

impl Terminal {
    /// That of this process. `NO_COLOR` and `TERM=dumb` turn styles off, as everywhere.
    pub(crate) fn detect() -> Terminal {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Terminal {
            stdin: stdin().is_terminal(),
            stdout: stdout().is_terminal(),
            stderr: stderr().is_terminal(),
            obeys: !is_dumb,
            styled: !is_dumb && !is_set("NO_COLOR"),
        }
    }

    /// What takes back the line that standard error stands in, if that is a line to overwrite.
    pub(crate) fn erasing(&self) -> &'static str {
        if self.stderr && self.obeys { ERASE_LINE } else { "" }
    }

    /// A piece of text as dimmed. The style ends with the piece, so whenever this process is
    /// stopped the terminal is as it was.
    pub(crate) fn dimmed<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.styled && !text.is_empty() {
            Cow::Owned(format!("\x1b[2m{text}\x1b[0m"))
        } else {
            Cow::Borrowed(text)
        }
    }
}

/// Writes and flushes: whoever reads is to see every token when it comes.
pub(crate) fn put(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|e| Failure::writing(&e))
}

/// Writes to standard output at once.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    put(&mut stdout().lock(), text)
}

/// Writes a line to standard output, without adding a line end to one that has it. A terminal is
/// shown control characters as pictures, a file gets them as they are.
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    match stdout().is_terminal() {
        true => print(&visible(text))?,
        false => print(text)?,
    }
    if text.ends_with('\n') { Ok(()) } else { print("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dimmed_piece_ends_its_own_style() {
        let terminal = Terminal { styled: true, ..Terminal::default() };
        assert_eq!(terminal.dimmed("hm"), "\x1b[2mhm\x1b[0m");
        assert_eq!(terminal.dimmed(""), "");
        assert_eq!(Terminal::default().dimmed("hm"), "hm");
    }
}
