//! The split pattern: text into the pieces that are merged one by one.
//!
//! The pattern has eight alternatives. Six are a regular expression that runs in linear time.
//! The last two, `\s+(?!\S)` and `\s+`, need a look-ahead; what the six leave unmatched is
//! always a run of whitespace, so a rule on that gap replaces them. Promises: the pieces cover
//! the text in order and none is empty.

use std::sync::LazyLock;

use regex::Regex;

/// Alternatives 1 to 6, in order of preference: Han runs; words that end in lower case; words
/// that begin in upper case; up to three digits; symbols; line breaks.
const ALTERNATIVES: [&str; 6] = [
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
];

static SPLIT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&ALTERNATIVES.join("|")).expect("the split pattern is a constant that compiles")
});

/// Calls `each` with every piece of the text.
pub(crate) fn for_each_piece<'a>(text: &'a str, mut each: impl FnMut(&'a str)) {
    let mut end = 0;
    for found in SPLIT.find_iter(text) {
        let gap = &text[end..found.start()];
        if found.as_str().starts_with(char::is_whitespace) {
            emit(gap, &mut each);
        } else {
            emit_all_but_last(gap, &mut each);
        }
        each(found.as_str());
        end = found.end();
    }
    emit(&text[end..], &mut each);
}

fn emit<'a>(piece: &'a str, each: &mut impl FnMut(&'a str)) {
    if !piece.is_empty() {
        each(piece);
    }
}

/// The look-ahead's effect: before something that is not whitespace, the last character of
/// the run stands alone.
fn emit_all_but_last<'a>(gap: &'a str, each: &mut impl FnMut(&'a str)) {
    let last = gap.char_indices().next_back().map_or(0, |(at, _)| at);
    emit(&gap[..last], each);
    emit(&gap[last..], each);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        for_each_piece(text, |piece| found.push(piece));
        found
    }

    /// The whole pattern, look-ahead included, in a backtracking engine.
    static ORACLE: LazyLock<fancy_regex::Regex> = LazyLock::new(|| {
        let whole = ALTERNATIVES.join("|") + r"|\s+(?!\S)|\s+";
        fancy_regex::Regex::new(&whole).unwrap()
    });

    fn check(text: &str) {
        let oracle: Vec<&str> = ORACLE.find_iter(text).map(|m| m.unwrap().as_str()).collect();
        assert_eq!(pieces(text), oracle, "{text:?}");
        assert_eq!(oracle.concat(), text);
    }

    #[test]
    fn edge_cases_agree_with_the_oracle() {
        for text in [
            "",
            " ",
            "a  b",
            "a \n b",
            "  \u{a0}x",
            "\u{1c}\u{1d} x",
            "it'ſ IT'S don't",
            "々〇〡⺀𠮷a",
            "カナ漢字かな",
            "1234567 ½Ⅷ",
            "x\u{2028}\u{85}\u{3000} y",
            "!\r\n\r\n  \n z",
        ] {
            check(text);
        }
    }

    /// Characters that sit on the borders between the alternatives.
    fn border_char() -> impl Strategy<Value = char> {
        let list: Vec<char> =
            " \t\r\n\u{a0}\u{85}\u{2028}\u{3000}\u{1c}'sStTlLdſaBéÉǅʰ漢々〇〡かカ가١½Ⅷ1!?-_\u{301}\u{200d}😀🏽\u{378}\u{feff}\0"
                .chars()
                .collect();
        proptest::sample::select(list)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..Default::default() })]

        #[test]
        fn borders_agree_with_the_oracle(chars in proptest::collection::vec(border_char(), 0..40)) {
            check(&chars.into_iter().collect::<String>());
        }

        #[test]
        fn any_text_agrees_with_the_oracle(chars in proptest::collection::vec(any::<char>(), 0..24)) {
            check(&chars.into_iter().collect::<String>());
        }
    }
}
