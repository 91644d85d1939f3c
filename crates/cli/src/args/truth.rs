//! Yes and no, as variables in place of flags say them.

const YES: [&str; 6] = ["1", "y", "yes", "t", "true", "on"];
const NO: [&str; 6] = ["0", "n", "no", "f", "false", "off"];

/// Whether a word means yes or no, whatever the case of its letters; which words count, where it is neither.
pub(super) fn truth(typed: &str) -> Result<bool, String> {
    let lower = typed.to_ascii_lowercase();
    match (YES.contains(&&*lower), NO.contains(&&*lower)) {
        (false, false) => {
            Err("expected 1, true, yes or on, or else 0, false, no or off".to_owned())
        }
        (is_yes, _) => Ok(is_yes),
    }
}

#[cfg(test)]
mod tests {
    use super::truth;

    #[test]
    fn words_for_yes_and_no_count_and_others_are_told_which_do() {
        for (yes, no) in super::YES.iter().zip(&super::NO) {
            assert_eq!((truth(yes), truth(&no.to_uppercase())), (Ok(true), Ok(false)));
        }
        for odd in ["", "maybe", "2", "yes "] {
            assert!(truth(odd).unwrap_err().contains("yes or on"), "{odd}");
        }
    }
}
