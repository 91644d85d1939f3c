//! Lines that a person edits, or lines that a script writes.

use std::io::{BufReader, Stdin, stdin, stdout};

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::failure::Failure;
use crate::input::{self, Bound};
use crate::terminal::Terminal;

const PROMPT: &str = "> ";
/// Pasted text comes without marks around it. The editor asks for them while it waits for a line.
const PLAIN_PASTE: &str = "\x1b[?2004l";

/// Where lines come from.
pub(super) enum Lines {
    /// A terminal, with editing and a history for as long as the program runs.
    Edited(Box<DefaultEditor>, Bound),
    /// Anything else.
    Plain(input::Lines<BufReader<Stdin>>),
}

impl Lines {
    /// Edited lines where a person types and sees what is typed.
    ///
    /// A line that is longer than the bound ends the reading, or spoils only itself where a person can
    /// try again.
    pub(super) fn open(terminal: Terminal, bound: Bound) -> Result<Lines, Failure> {
        if terminal.stdin && terminal.stdout {
            // The editor changes how the terminal works while it waits for a line.
            restore_terminal_when_ended(terminal);
            let editor = DefaultEditor::new();
            let about = |e| Failure::about("cannot use the terminal", &e);
            return Ok(Lines::Edited(Box::new(editor.map_err(about)?), bound));
        }
        Ok(Lines::Plain(input::Lines::of(BufReader::new(stdin()), bound)))
    }

    /// Whether someone is there to try again.
    pub(super) fn is_interactive(&self) -> bool {
        matches!(self, Lines::Edited(..))
    }

    /// Waits for the next line, without its end; nothing when there are no more. One that is no
    /// text spoils only itself.
    pub(super) fn next(&mut self) -> Result<Option<Result<String, Failure>>, Failure> {
        match self {
            Lines::Edited(editor, bound) => Ok(edited(editor, bound)?),
            Lines::Plain(lines) => {
                let line = lines.next()?;
                Ok(line.map(|line| plain(line, &lines.name())))
            }
        }
    }
}

/// Leaves the terminal as it is now when the process is asked to end.
fn restore_terminal_when_ended(terminal: Terminal) {
    use nix::sys::termios::{SetArg, tcgetattr, tcsetattr};
    use signal_hook::consts::{SIGHUP, SIGTERM};
    use signal_hook::iterator::Signals;

    let (Ok(before), Ok(mut signals)) = (tcgetattr(stdin()), Signals::new([SIGTERM, SIGHUP]))
    else {
        return;
    };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, &before);
            if terminal.obeys {
                // Not through the lock on standard output: whoever holds it may never let go.
                let _ = rustix::io::write(stdout(), PLAIN_PASTE.as_bytes());
            }
            // What shells expect of a process ended by a signal.
            std::process::exit(128 + signal);
        }
    });
}

/// A line; or why it is none, for what was pasted may be too long to be kept twice.
type Edited = Result<String, Failure>;

fn edited(editor: &mut DefaultEditor, bound: &Bound) -> Result<Option<Edited>, Failure> {
    loop {
        match editor.readline(PROMPT) {
            Ok(line) => {
                let line = bound.admit(line, "the line");
                if let Ok(line) = &line {
                    // A history that is full or refuses repetitions is no reason to stop.
                    let _ = editor.add_history_entry(line);
                }
                return Ok(Some(line));
            }
            // An interrupt while typing gives up the line, not the program.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(None),
            Err(e) => return Err(Failure::about("cannot read a line", &e)),
        }
    }
}

fn plain(line: Vec<u8>, name: &str) -> Result<String, Failure> {
    let mut line = input::utf8(line, name)?;
    line.truncate(line.trim_end_matches('\r').len());
    Ok(line)
}
