//! How wide the text is that stands in the last line of a terminal.

use unicode_width::UnicodeWidthChar as _;

/// What a tab leads to the next multiple of.
const TAB: usize = 8;

/// Cells since the last line feed. Where they are more than the terminal is wide, the text goes on in further rows.
/// Two are equal where nothing was written between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Column {
    cells: usize,
    /// Characters in all.
    written: usize,
}

impl Column {
    /// Counts text that is written, without the commands around it.
    pub(crate) fn take(&mut self, text: &str) {
        for c in text.chars() {
            self.written += 1;
            self.cells = match c {
                '\n' => 0,
                '\t' => (self.cells / TAB + 1) * TAB,
                c => self.cells + c.width().unwrap_or(0),
            };
        }
    }

    /// The cells.
    pub(crate) fn cells(self) -> usize {
        self.cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_and_combining_characters_count_as_they_show() {
        for (text, cells) in
            [("", 0), ("abc", 3), ("a\nbc", 2), ("漢字", 4), ("e\u{301}x", 2), ("ab\tc", 9)]
        {
            let mut column = Column::default();
            column.take(text);
            assert_eq!(column.cells(), cells, "{text:?}");
        }
    }
}
