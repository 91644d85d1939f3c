//! The commands, obeyed by a small terminal.

use super::*;

/// Rows of cells, and a cursor. Obeys what [`Screen`] writes, and text.
struct Glass {
    width: usize,
    rows: Vec<Vec<char>>,
    cursor: (usize, usize),
    saved: (usize, usize),
}

impl Glass {
    fn new(width: usize, height: usize) -> Glass {
        Glass { width, rows: vec![vec![' '; width]; height], cursor: (0, 0), saved: (0, 0) }
    }

    fn down(&mut self) {
        if self.cursor.0 + 1 < self.rows.len() {
            self.cursor.0 += 1;
        } else {
            self.rows.remove(0);
            self.rows.push(vec![' '; self.width]);
        }
    }

    fn obey(&mut self, mut text: &str) {
        while let Some(c) = text.chars().next() {
            let command = ["\x1b[2K", "\x1bD", "\x1bM", "\x1b7", "\x1b8"];
            let found = command.into_iter().find(|command| text.starts_with(command));
            text = &text[found.map_or(c.len_utf8(), str::len)..];
            match found {
                Some("\x1b[2K") => self.rows[self.cursor.0].fill(' '),
                Some("\x1bD") => self.down(),
                Some("\x1bM") => self.cursor.0 -= 1,
                Some("\x1b7") => self.saved = self.cursor,
                Some(_) => self.cursor = self.saved,
                None => self.type_one(c),
            }
        }
    }

    /// A terminal turns a line feed into both movements.
    fn type_one(&mut self, c: char) {
        match c {
            '\r' => self.cursor.1 = 0,
            '\n' => {
                self.down();
                self.cursor.1 = 0;
            }
            c => {
                assert!(c != '\x1b', "a command that nobody wrote");
                if self.cursor.1 == self.width {
                    self.down();
                    self.cursor.1 = 0;
                }
                self.rows[self.cursor.0][self.cursor.1] = c;
                self.cursor.1 += 1;
            }
        }
    }

    fn text(&self) -> Vec<String> {
        let row = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned();
        self.rows.iter().map(row).collect()
    }
}

/// A terminal of ten cells and four rows, with text in it.
struct Scene {
    glass: Glass,
    screen: Screen,
    column: Column,
}

impl Scene {
    fn with(text: &str) -> Scene {
        let screen = Screen { out: Out::Recorded(String::new(), 10), ..Screen::default() };
        let mut scene = Scene { glass: Glass::new(10, 4), screen, column: Column::default() };
        scene.write(text);
        scene
    }

    fn write(&mut self, text: &str) {
        self.glass.obey(text);
        self.column.take(text);
        self.screen.text_ends(self.column);
    }

    fn act(&mut self, act: impl FnOnce(&mut Screen)) {
        act(&mut self.screen);
        let Out::Recorded(written, _) = &mut self.screen.out else { panic!("recorded") };
        self.glass.obey(&std::mem::take(written));
    }
}

/// Whatever was shown between, the text reads as if nothing had been.
#[test]
fn the_line_leaves_no_trace() {
    let fillers =
        ["", "ab", "0123456789", "0123456789ab", "a\n", "漢字漢", "a\nb\nc\nd\ne", "a\nb\nc\nd\n"];
    for before in fillers {
        let mut plain = Scene::with(before);
        plain.write("xy\nz");
        let mut shown = Scene::with(before);
        for words in ["layer 1", "layer 2 of many, many"] {
            shown.act(|screen| screen.show(words));
            let rows = shown.glass.text();
            assert!(rows.iter().any(|row| words.starts_with(row) && row.len() > 5), "{rows:?}");
        }
        shown.act(Screen::clear);
        // Of a token that shows nothing, the next line is in the same place.
        shown.write("");
        shown.act(|screen| screen.show("layer 3"));
        shown.act(Screen::clear);
        shown.act(Screen::clear);
        shown.write("xy\nz");
        // What the line needed room for has moved up; the text itself is the same.
        let ends = |scene: &Scene| {
            let text = scene.glass.text();
            let last = text.iter().rposition(|row| !row.is_empty()).unwrap_or(0);
            text[last.saturating_sub(1)..=last].to_vec()
        };
        assert_eq!(ends(&shown), ends(&plain), "{before:?}");
    }
}

#[test]
fn a_note_has_a_row_of_its_own() {
    for (before, wanted) in [("", ["note", "xy", "", ""]), ("ab", ["ab", "note", "xy", ""])] {
        let mut scene = Scene::with(before);
        scene.act(|screen| screen.show("layer 1"));
        scene.act(|screen| screen.note("note"));
        scene.write("xy");
        assert_eq!(scene.glass.text(), wanted);
    }
}
