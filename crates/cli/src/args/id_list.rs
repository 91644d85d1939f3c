//! A list of token ids that comes in pieces.
//!
//! Decimal ids separated by commas or white space. A JSON array of them is accepted too, because
//! that is how `tokenize` prints ids. A comma may end a line or the list; two with nothing between
//! them are refused, for an id may have been lost there.
//!
//! **Promise.** Only so many ids are kept, and no word that is too long to be one: a list of any length
//! costs no more memory.

/// The longest word that may be an id, and the longest part of one that is shown.
const WORD_CHARS: usize = 40;

/// A list being read.
pub(super) struct IdList {
    most: usize,
    ids: Vec<u32>,
    count: usize,
    word: String,
    word_chars: usize,
    brackets: Brackets,
    /// Whether there was anything yet; and an id since the last comma.
    begun: bool,
    since_comma: bool,
}

/// Of a JSON array.
#[derive(PartialEq)]
enum Brackets {
    None,
    Open,
    Closed,
}

impl IdList {
    /// Begins a list of which at most `most` ids are kept.
    pub(super) fn of(most: usize) -> IdList {
        IdList {
            most,
            ids: Vec::new(),
            count: 0,
            word: String::new(),
            word_chars: 0,
            brackets: Brackets::None,
            begun: false,
            since_comma: false,
        }
    }

    /// The list goes on.
    pub(super) fn push(&mut self, text: &str) -> Result<(), String> {
        text.chars().try_for_each(|c| self.char(c))
    }

    /// The ids that were kept, and how many there are.
    pub(super) fn finish(mut self) -> Result<(Vec<u32>, usize), String> {
        self.end_word()?;
        match self.brackets {
            Brackets::Open => Err("the list begins with '[' and no ']' ends it".to_owned()),
            Brackets::None | Brackets::Closed => Ok((self.ids, self.count)),
        }
    }

    fn char(&mut self, c: char) -> Result<(), String> {
        if c.is_whitespace() {
            return self.end_word();
        }
        let is_first = !std::mem::replace(&mut self.begun, true);
        match c {
            '\u{feff}' if is_first => {
                Err("it begins with a byte order mark: save it as UTF-8 without one".to_owned())
            }
            '[' if is_first => {
                self.brackets = Brackets::Open;
                Ok(())
            }
            _ if self.brackets == Brackets::Closed => {
                Err("the list goes on after its ']'".to_owned())
            }
            ']' if self.brackets == Brackets::Open => {
                self.brackets = Brackets::Closed;
                self.end_word()
            }
            ',' => self.comma(),
            _ => self.letter(c),
        }
    }

    fn comma(&mut self) -> Result<(), String> {
        self.end_word()?;
        match std::mem::take(&mut self.since_comma) {
            true => Ok(()),
            false => {
                let nth = self.count + 1;
                Err(format!(
                    "number {nth} of the list is missing: there is nothing before its comma"
                ))
            }
        }
    }

    fn letter(&mut self, c: char) -> Result<(), String> {
        if self.word_chars == WORD_CHARS {
            return Err(self.no_id());
        }
        self.word.push(c);
        self.word_chars += 1;
        Ok(())
    }

    fn end_word(&mut self) -> Result<(), String> {
        if self.word.is_empty() {
            return Ok(());
        }
        let digits = self.word.bytes().all(|byte| byte.is_ascii_digit());
        let id = self.word.parse().ok().filter(|_| digits).ok_or_else(|| self.no_id())?;
        if self.ids.len() < self.most {
            self.ids.push(id);
        }
        self.count += 1;
        self.since_comma = true;
        self.word.clear();
        self.word_chars = 0;
        Ok(())
    }

    fn no_id(&self) -> String {
        let (word, nth) = (&self.word, self.count + 1);
        format!(
            "'{word}' (number {nth} of the list) is not a token id: ids are decimal numbers below \
             2^32, separated by commas or white space"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kept_is_counted_and_looked_at() {
        let read = |most, pieces: &[&str]| {
            let mut list = IdList::of(most);
            pieces.iter().try_for_each(|piece| list.push(piece))?;
            list.finish()
        };
        assert_eq!(read(2, &["1,", "2", "3,4 ", "5"]), Ok((vec![1, 23], 4)));
        assert_eq!(read(0, &["[7", "]"]), Ok((vec![], 1)));
        assert!(read(1, &["1,2,3,", "x"]).is_err_and(|e| e.contains("'x' (number 4")));
        assert!(read(1, &["1,2,", ",3"]).is_err_and(|e| e.contains("number 3")));
    }

    #[test]
    fn a_word_that_never_ends_is_not_held() {
        let mut list = IdList::of(1);
        let told = (0..100).try_for_each(|_| list.push("000")).unwrap_err();
        assert!(told.contains(&format!("'{}'", "0".repeat(WORD_CHARS))), "{told}");
    }
}
