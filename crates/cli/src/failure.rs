//! Why a command ends early. Here, and only here, errors become strings.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io;

use crate::terminal::one_line;

/// The end of a command that did not finish as asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something is wrong: one line names the thing and the remedy.
    Fault(String),
    /// The command has said what it found; the exit code says that it was not good.
    Reported,
    /// Whoever read the output has gone; nobody is left to tell.
    ClosedPipe,
    /// An interrupt ended the work; what was said so far is out.
    Interrupted,
}

impl Failure {
    /// A fault in words.
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure::Fault(message.into())
    }

    /// An error value with what it concerns, in words.
    pub(crate) fn about(subject: impl fmt::Display, error: &dyn Error) -> Failure {
        Failure::Fault(format!("{subject}: {}", chain(error)))
    }

    /// A failed write to standard output or standard error.
    pub(crate) fn writing(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::Fault(format!("cannot write the output: {error}")),
        }
    }

    /// The exit code of the process: 130 is what shells expect after an interrupt, and a reader
    /// that has seen enough is no fault.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Fault(_) | Failure::Reported => 1,
            Failure::ClosedPipe => 0,
            Failure::Interrupted => 130,
        }
    }

    /// The line for standard error, if there is something to say.
    pub(crate) fn line(&self) -> Option<String> {
        match self {
            // Names of files and tensors are foreign text and must not command the terminal.
            Failure::Fault(message) => Some(format!("deltafin: {}", one_line(message.trim()))),
            Failure::Reported | Failure::ClosedPipe | Failure::Interrupted => None,
        }
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Fault(chain(&error))
    }
}

/// An error and its causes, without saying twice what a message already contains.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.contains(&text) {
            let _ = write!(message, ": {text}");
        }
        cause = error.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_without_commands_to_the_terminal() {
        let line = Failure::new("no \x1b[31mshard\n  here").line();
        assert_eq!(line.as_deref(), Some("deltafin: no ␛[31mshard␊  here"));
    }
}
