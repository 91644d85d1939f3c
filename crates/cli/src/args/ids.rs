//! Lists of token ids: typed in place, or kept in a file.

use std::path::PathBuf;

use super::id_list::IdList;
use crate::failure::Failure;
use crate::input::{Bound, Source};

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
    /// The ids, or what they are going to be read from, opened.
    pub(crate) fn open(&self) -> Result<IdsSource, Failure> {
        Ok(match self {
            IdsArg::Listed(ids) => IdsSource::Listed(ids.clone()),
            IdsArg::Stdin => IdsSource::Unread(Source::stdin()),
            IdsArg::File(path) => IdsSource::Unread(Source::file(path)?),
        })
    }
}

/// Ids that are there, or that are still to be read.
pub(crate) enum IdsSource {
    /// The ids.
    Listed(Vec<u32>),
    /// Where they are.
    Unread(Source),
}

impl IdsSource {
    /// The first `most` ids, and how many there are. One there has to be: an empty file is most likely
    /// another's failure.
    pub(crate) fn read(self, most: usize, bound: &Bound) -> Result<(Vec<u32>, usize), Failure> {
        let source = match self {
            IdsSource::Listed(ids) => {
                let count = ids.len();
                return Ok((ids, count));
            }
            IdsSource::Unread(source) => source,
        };
        let name = source.name().to_owned();
        let about = |reason: String| Failure::new(format!("{name}: {reason}"));
        let mut list = IdList::of(most);
        source.read(bound, |piece| list.push(piece).map_err(about))?;
        match list.finish().map_err(about)? {
            (_, 0) => Err(Failure::new(format!("{name} is empty: give at least one id"))),
            read => Ok(read),
        }
    }
}

/// All ids of a list, see [`IdList`].
pub(crate) fn parse_list(text: &str) -> Result<Vec<u32>, String> {
    let mut list = IdList::of(usize::MAX);
    list.push(text)?;
    list.finish().map(|(ids, _)| ids)
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
        for text in [
            "1 [2]",
            "[1] 2",
            "[[1]]",
            "[1,2]]",
            "1,x",
            "1,-2",
            "1,+2",
            "1,2.0",
            "4294967296",
            "[1",
            "1]",
        ] {
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
