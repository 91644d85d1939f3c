use super::*;

/// Gives a few bytes at a time.
struct Slowly(Cursor<Vec<u8>>, usize);

impl Read for Slowly {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = self.1.min(buffer.len());
        self.0.read(&mut buffer[..most])
    }
}

fn slowly(bytes: &[u8], step: usize) -> Source {
    Source::new(Slowly(Cursor::new(bytes.to_vec()), step), "it")
}

fn said(failure: Failure) -> String {
    failure.line().unwrap_or_default()
}

#[test]
fn lines_end_where_they_end_and_are_counted() {
    let mut lines = Lines::of(&b"a\n\nb\r\nlast"[..], Bound::of_any_text());
    for wanted in [&b"a"[..], b"", b"b\r", b"last"] {
        assert_eq!(lines.next().unwrap().as_deref(), Some(wanted));
    }
    assert_eq!(lines.name(), "line 4 of standard input");
    assert!(lines.next().unwrap().is_none());
}

#[test]
fn what_has_no_end_is_refused() {
    let endless = || std::io::BufReader::new(std::io::repeat(b'y'));
    let bound = Bound { bytes: 3 << 20, remedy: ": less".to_owned() };
    let line = said(Lines::of(endless(), bound.clone()).next().unwrap_err());
    assert!(line.contains("line 1 of") && line.ends_with("longer than 3.00 MiB: less"), "{line}");
    let mut most = 0;
    let read = Source::new(endless(), "/dev/zero").read(&bound, |piece| {
        most = most.max(piece.len());
        Ok(())
    });
    let line = said(read.unwrap_err());
    assert!(line.contains("/dev/zero is longer than 3.00 MiB: less"), "{line}");
    assert_eq!(most, PIECE_BYTES);
}

#[test]
fn a_text_as_long_as_its_bound_is_read() {
    let bound = Bound { bytes: 4, remedy: String::new() };
    assert_eq!(slowly(b"four", 3).text(&bound).unwrap(), "four");
    assert!(slowly(b"fives", 3).text(&bound).is_err());
}

#[test]
fn characters_are_whole_however_they_come() {
    let text = "a\u{e9}\u{6f22}\u{1f600}z";
    for step in 1..text.len() {
        let read = slowly(text.as_bytes(), step).text(&Bound::of_any_text());
        assert_eq!(read.unwrap(), text, "{step} at a time");
        let broken = [text.as_bytes(), b"\xff"].concat();
        let line = said(slowly(&broken, step).text(&Bound::of_any_text()).unwrap_err());
        assert!(line.contains("byte 11 begins no character"), "{step} at a time: {line}");
        let cut = &text.as_bytes()[..text.len() - 2];
        let line = said(slowly(cut, step).text(&Bound::of_any_text()).unwrap_err());
        assert!(line.contains("byte 6 begins no character"), "{step} at a time: {line}");
    }
}

#[test]
fn one_line_end_is_no_part_of_a_prompt() {
    for (typed, wanted) in [
        ("a", "a"),
        ("a\n", "a"),
        ("a\r\n", "a"),
        ("a\n\n", "a\n"),
        ("a\r", "a\r"),
        ("a\r\r\n", "a\r"),
        ("\n\rb\nc", "\n\rb\nc"),
        ("\n", ""),
        ("", ""),
    ] {
        for step in 1..4 {
            let source = Source { less_line_end: true, ..slowly(typed.as_bytes(), step) };
            let mut read = String::new();
            let bytes = source.read(&Bound::of_any_text(), |piece| {
                read.push_str(piece);
                Ok(())
            });
            assert_eq!((read.as_str(), bytes.unwrap()), (wanted, wanted.len() as u64), "{typed:?}");
        }
    }
}
