//! Foreign text as it is safe to show.

use std::borrow::Cow;

/// Text as it is safe to show: control characters of a model's reply appear as pictures instead
/// of commanding the terminal. Line feeds and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let picture = |c: char| match u32::from(c) {
        code @ 0..=0x1F if is_control(c) => char::from_u32(0x2400 + code).unwrap_or('\u{2426}'),
        0x7F => '\u{2421}',
        0x80..=0x9F => '\u{2426}',
        _ => c,
    };
    Cow::Owned(text.chars().map(picture).collect())
}

/// As [`visible`], on one line: a name with a line feed in it must not pass for two lines.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    match visible(text) {
        safe if safe.contains('\n') => Cow::Owned(safe.replace('\n', "\u{240A}")),
        safe => safe,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_pictures() {
        assert_eq!(visible("a\tb\n漢"), "a\tb\n漢");
        assert_eq!(one_line("a\nb\x1bc"), "a␊b␛c");
        assert_eq!(visible("\x1b[2J\r\x7f\u{9b}x"), "␛[2J␍␡␦x");
    }
}
