//! Lists of token ids: typed in place, or kept in a file.

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::input;

/// What was typed where ids are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IdsArg {
    /// The ids themselves.
    Listed(Vec<u32>),
    /// A file that holds them.
    File(PathBuf),
    /// Standard input holds them.
    Stdin,
}

/// Digits, commas, brackets and white space are ids; `-` is standard input; anything else names a
/// file, unless it begins like a list and there is no such file.
pub(crate) fn parse_arg(typed: &str) -> Result<IdsArg, String> {
    if typed == "-" {
        return Ok(IdsArg::Stdin);
    }
    let is_list = |c: char| c.is_ascii_digit() || c.is_whitespace() || matches!(c, ',' | '[' | ']');
    if typed.chars().all(is_list) {
        return parse_list(typed).map(IdsArg::Listed);
    }
    let path = PathBuf::from(typed);
    let like_list = typed.starts_with(|c: char| c.is_ascii_digit() || "-+[".contains(c));
    if like_list && !path.exists() {
        return parse_list(typed).map(IdsArg::Listed);
    }
    Ok(IdsArg::File(path))
}

impl IdsArg {
    /// The ids, read from where they are.
    pub(crate) fn read(&self) -> Result<Vec<u32>, Failure> {
        match self {
            IdsArg::Listed(ids) => Ok(ids.clone()),
            IdsArg::Stdin => parse_list(&input::stdin_text()?)
                .map_err(|e| Failure::new(format!("standard input: {e}"))),
            IdsArg::File(path) => read_file(path),
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<u32>, Failure> {
    let text = input::file_text(path)?;
    parse_list(&text).map_err(|e| Failure::new(format!("{}: {e}", path.display())))
}

/// Decimal ids separated by commas or white space. A JSON array of them is accepted too, because
/// that is how `tokenize` prints ids.
pub(crate) fn parse_list(text: &str) -> Result<Vec<u32>, String> {
    let trimmed = text.trim();
    let inner = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let words = inner
        .unwrap_or(trimmed)
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|word| !word.is_empty());
    words.enumerate().map(|(index, word)| parse_id(index, word)).collect()
}

fn parse_id(index: usize, word: &str) -> Result<u32, String> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| digits).ok_or_else(|| {
        let shown: String = word.chars().take(40).collect();
        let nth = index + 1;
        format!("'{shown}' (number {nth} of the list) is not a token id: ids are decimal numbers below 2^32, separated by commas or white space")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_white_space_and_brackets_separate() {
        for text in ["1,2,3", "1 2 3", "1, 2,\n3\n", "[1,2,3]", " [1, 2, 3]\n", "1,,2,3,"] {
            assert_eq!(parse_list(text), Ok(vec![1, 2, 3]), "{text}");
        }
        assert_eq!(parse_list(" \n"), Ok(Vec::new()));
        assert_eq!(parse_list("[]"), Ok(Vec::new()));
    }

    #[test]
    fn other_words_are_named() {
        for text in ["1,x", "1,-2", "1,+2", "1,2.0", "4294967296", "[1", "1]"] {
            assert!(parse_list(text).is_err(), "{text}");
        }
        assert!(parse_list("7,x").is_err_and(|e| e.contains("'x' (number 2")));
    }

    #[test]
    fn a_list_is_told_from_a_file() {
        assert_eq!(parse_arg("1,2"), Ok(IdsArg::Listed(vec![1, 2])));
        assert_eq!(parse_arg("[1, 2]"), Ok(IdsArg::Listed(vec![1, 2])));
        assert!(parse_arg("[1").is_err());
        assert!(parse_arg("1,-2").is_err_and(|e| e.contains("'-2' (number 2")));
        assert!(parse_arg("1.5").is_err());
        assert_eq!(parse_arg("ids.txt"), Ok(IdsArg::File("ids.txt".into())));
        assert_eq!(parse_arg("./12"), Ok(IdsArg::File("./12".into())));
        assert_eq!(parse_arg("-"), Ok(IdsArg::Stdin));
    }
}
