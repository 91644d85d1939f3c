//! Where the line stands, and the commands that put it there and take it away again.

use std::io::{Write, stderr};

use crate::column::Column;
use crate::terminal::{ERASE_LINE, put, visible};

/// What a terminal is taken for that does not say how wide it is.
const USUAL_WIDTH: usize = 80;
/// Down a row and up again: where the text stands in the last row, everything moves up and there is one below.
const MAKE_ROOM: &str = "\x1bD\x1bM";
/// Remembers where the cursor is, and goes to the row below.
const GO_BELOW: &str = "\x1b7\x1bD";
/// Goes back to what was remembered.
const GO_BACK: &str = "\x1b8";

/// How the line stands to the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the row of the cursor, which is empty but for it.
    Here,
    /// In the row below the cursor, which stands behind text.
    Below,
}

/// A terminal in which text ends somewhere, and perhaps a line that is none of it.
#[derive(Debug)]
pub(super) struct Screen {
    column: Column,
    /// The column from which the cursor was moved to the row below, if it still is there.
    left: Option<Column>,
    shown: Option<Place>,
    out: Out,
}

/// Where commands go.
#[derive(Debug)]
enum Out {
    Terminal,
    #[cfg(test)]
    Recorded(String, usize),
}

impl Default for Screen {
    fn default() -> Screen {
        Screen { column: Column::default(), left: None, shown: None, out: Out::Terminal }
    }
}

impl Screen {
    /// Text was written and ends here. Nothing else may be shown meanwhile.
    pub(super) fn text_ends(&mut self, column: Column) {
        self.column = column;
    }

    /// Shows the line, or others words in it.
    pub(super) fn show(&mut self, words: &str) {
        let width = self.out.width();
        let words = cut(words, width.saturating_sub(1));
        let (place, before) = match self.shown {
            Some(place) => (place, ""),
            None => self.begin(width),
        };
        self.shown = Some(place);
        match place {
            Place::Here => self.out.write(&format!("{before}{ERASE_LINE}{words}")),
            Place::Below => {
                self.out.write(&format!("{before}{GO_BELOW}{ERASE_LINE}{words}{GO_BACK}"));
            }
        }
    }

    /// Where the line will stand, and what has to be written first.
    fn begin(&mut self, width: usize) -> (Place, &'static str) {
        match self.column.cells() {
            _ if self.left == Some(self.column) => (Place::Here, ""),
            0 => (Place::Here, ""),
            // The text fills its row. Terminals differ in what they make of a cursor behind the last cell, but
            // the next character will come in the row below, and there the cursor can just as well be.
            cells if cells.is_multiple_of(width) => {
                self.left = Some(self.column);
                (Place::Here, "\r\n")
            }
            _ => (Place::Below, MAKE_ROOM),
        }
    }

    /// Takes the line away; the cursor is where the text goes on.
    pub(super) fn clear(&mut self) {
        match self.shown.take() {
            Some(Place::Here) => self.out.write(ERASE_LINE),
            Some(Place::Below) => self.out.write(&format!("{GO_BELOW}{ERASE_LINE}{GO_BACK}")),
            None => {}
        }
    }

    /// Writes a line in a row of its own. Text goes on below it.
    pub(super) fn note(&mut self, text: &str) {
        self.clear();
        let before = if self.column.cells() > 0 { "\r\n" } else { "" };
        self.column = Column::default();
        self.out.write(&format!("{before}{}\n", visible(text)));
    }
}

impl Out {
    /// It is beside the point of the command, so that it cannot be written is no reason to stop.
    fn write(&mut self, text: &str) {
        match self {
            Out::Terminal => {
                let mut err = stderr().lock();
                let _ = put(&mut err as &mut dyn Write, text);
            }
            #[cfg(test)]
            Out::Recorded(all, _) => all.push_str(text),
        }
    }

    fn width(&self) -> usize {
        match self {
            Out::Terminal => match rustix::termios::tcgetwinsize(stderr()) {
                Ok(size) if size.ws_col > 0 => size.ws_col.into(),
                _ => USUAL_WIDTH,
            },
            #[cfg(test)]
            Out::Recorded(_, width) => *width,
        }
    }
}

/// As much of the words as fits: a line that runs over could not be taken away again. They are plain ASCII.
fn cut(words: &str, most: usize) -> &str {
    words.char_indices().nth(most).map_or(words, |(end, _)| &words[..end])
}

#[cfg(test)]
mod tests;
