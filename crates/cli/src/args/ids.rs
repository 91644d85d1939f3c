//! Lists of token ids: typed in place, or kept in a file.

use std::path::PathBuf;

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
            IdsArg::Stdin => some_ids(&input::stdin_text()?, "standard input"),
            IdsArg::File(path) => some_ids(&input::file_text(path)?, &path.display().to_string()),
        }
    }
}

/// The ids of a file, of which there has to be one: an empty file is most likely another's failure.
fn some_ids(text: &str, name: &str) -> Result<Vec<u32>, Failure> {
    match parse_list(text) {
        Ok(ids) if ids.is_empty() => {
            Err(Failure::new(format!("{name} is empty: give at least one id")))
        }
        Ok(ids) => Ok(ids),
        Err(e) => Err(Failure::new(format!("{name}: {e}"))),
    }
}

/// Decimal ids separated by commas or white space. A JSON array of them is accepted too, because
/// that is how `tokenize` prints ids. A comma may end a line or the list; two with nothing between
/// them are refused, for an id may have been lost there.
pub(crate) fn parse_list(text: &str) -> Result<Vec<u32>, String> {
    if text.starts_with('\u{feff}') {
        return Err("it begins with a byte order mark: save it as UTF-8 without one".to_owned());
    }
    let trimmed = text.trim();
    let inner = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let list = inner.unwrap_or(trimmed).trim();
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let mut ids = Vec::new();
    for piece in list.strip_suffix(',').unwrap_or(list).split(',') {
        let before = ids.len();
        for word in piece.split_whitespace() {
            ids.push(parse_id(ids.len(), word)?);
        }
        if ids.len() == before {
            let nth = before + 1;
            return Err(format!(
                "number {nth} of the list is missing: there is nothing before its comma"
            ));
        }
    }
    Ok(ids)
}

/// Refuses ids that a model with `vocab` of them does not have.
pub(crate) fn check(ids: &[u32], vocab: usize) -> Result<(), Failure> {
    let Some(at) = ids.iter().position(|&id| id as usize >= vocab) else {
        return Ok(());
    };
    let (id, nth, last) = (ids[at], at + 1, vocab.saturating_sub(1));
    Err(Failure::new(format!(
        "token id {id} (number {nth} of the list) is outside the vocabulary: this model's ids are 0 \
         to {last}, `deltafin tokenize` makes them from text"
    )))
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
        for text in
            ["1,2,3", "1 2 3", "1, 2,\n3\n", "[1,2,3]", " [1, 2, 3]\n", "1,2\n,3,", "1,2,3,"]
        {
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

    /// It cannot be seen in a message.
    #[test]
    fn a_byte_order_mark_is_named() {
        assert!(parse_list("\u{feff}1,2").is_err_and(|e| e.contains("byte order mark")));
    }

    #[test]
    fn a_comma_needs_an_id_before_it() {
        for (text, nth) in
            [("1,2,,3", 3), (",1", 1), ("1, ,2", 2), ("1,2,,", 3), ("[,]", 1), (",", 1)]
        {
            let error = parse_list(text).unwrap_err();
            assert!(error.contains(&format!("number {nth} ")), "{text}: {error}");
        }
    }

    #[test]
    fn ids_the_model_does_not_have_are_refused_with_the_range() {
        assert!(check(&[0, 511], 512).is_ok());
        let error = check(&[0, 512, 600], 512).unwrap_err();
        let line = error.line().unwrap_or_default();
        assert!(line.contains("512 (number 2") && line.contains("0 to 511"), "{line}");
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
