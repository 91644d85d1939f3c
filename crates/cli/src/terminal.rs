//! What a terminal is shown and a file is not: dimmed text, a progress line, visible controls.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write, stderr, stdin, stdout};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::log::Log;

/// Which of the standard streams are terminals, and whether styles are welcome there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terminal {
    /// Standard input is typed by a person.
    pub(crate) stdin: bool,
    /// Standard output is read by a person.
    pub(crate) stdout: bool,
    /// Standard error is read by a person.
    pub(crate) stderr: bool,
    /// It takes commands: one that is dumb shows them as they are.
    pub(crate) obeys: bool,
    styled: bool,
}

impl Terminal {
    /// That of this process. `NO_COLOR` and `TERM=dumb` turn styles off, as everywhere.
    pub(crate) fn detect() -> Terminal {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Terminal {
            stdin: stdin().is_terminal(),
            stdout: stdout().is_terminal(),
            stderr: stderr().is_terminal(),
            obeys: !is_dumb,
            styled: !is_dumb && !is_set("NO_COLOR"),
        }
    }

    /// What takes back the line that standard error stands in, if that is a line to overwrite.
    pub(crate) fn erasing(&self) -> &'static str {
        if self.stderr && self.obeys { ERASE_LINE } else { "" }
    }

    /// A piece of text as dimmed. The style ends with the piece, so whenever this process is
    /// stopped the terminal is as it was.
    pub(crate) fn dimmed<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.styled && !text.is_empty() {
            Cow::Owned(format!("\x1b[2m{text}\x1b[0m"))
        } else {
            Cow::Borrowed(text)
        }
    }
}

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

/// Writes and flushes: whoever reads is to see every token when it comes.
pub(crate) fn put(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|e| Failure::writing(&e))
}

/// Writes to standard output at once.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    put(&mut stdout().lock(), text)
}

/// Writes a line to standard output, without adding a line end to one that has it. A terminal is
/// shown control characters as pictures, a file gets them as they are.
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    match stdout().is_terminal() {
        true => print(&visible(text))?,
        false => print(text)?,
    }
    if text.ends_with('\n') { Ok(()) } else { print("\n") }
}

/// Writes a line to standard error. It is beside the point of the command, so that it cannot be
/// written is no reason to stop.
pub(crate) fn note(text: &str) {
    hand_on(format!("{}\n", visible(text)));
}

/// As [`note`], in place of the line that `erase` takes back.
pub(crate) fn note_over(erase: &str, text: &str) {
    let _ = put(&mut stderr().lock(), &format!("{erase}{}\n", visible(text)));
}

/// Where lines go that nobody may wait for.
static LOG: OnceLock<Log> = OnceLock::new();
/// What the end of the program waits for those who take its last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// From here on, lines on standard error never hold up whoever writes them: what nobody takes is left out.
pub(crate) fn never_wait() -> Result<(), Failure> {
    let log = Log::to_stderr(|lost| {
        let words = format!("{lost} lines of the log are missing here: nobody took them in time");
        line_of("lost", &words, &Map::from_iter([("lines".to_owned(), json!(lost))]))
    });
    let _ = LOG.set(log.map_err(|e| Failure::about("cannot keep a log", &e))?);
    Ok(())
}

/// The last lines are out, or nobody has taken them for a while.
pub(crate) fn finish() {
    if let Some(log) = LOG.get() {
        log.finish_within(LAST_LINES);
    }
}

fn hand_on(line: String) {
    match LOG.get() {
        Some(log) => log.add(line),
        None => {
            let _ = put(&mut stderr().lock(), &line);
        }
    }
}

/// Whether lines of this program's own are objects of JSON. A log has one form for all who write to it.
static JSON: AtomicBool = AtomicBool::new(false);

/// Lines of this program's own are for machines from here on.
pub(crate) fn say_in_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// Writes a line of this program's own to standard error; names in it may be foreign text.
pub(crate) fn say(text: &str) {
    say_parts("note", text, &Map::new());
}

/// The same of something that has a name and parts, which only machines are told.
pub(crate) fn say_parts(event: &str, words: &str, parts: &Map<String, Value>) {
    hand_on(line_of(event, words, parts));
}

fn line_of(event: &str, words: &str, parts: &Map<String, Value>) -> String {
    if !JSON.load(Ordering::Relaxed) {
        return format!("deltafin: {}\n", one_line(words));
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut line = Map::new();
    line.insert("time".to_owned(), json!(since.as_millis() as f64 / 1e3));
    line.insert("event".to_owned(), json!(event));
    line.insert("message".to_owned(), json!(words));
    line.extend(parts.iter().map(|(name, value)| (name.clone(), value.clone())));
    format!("{}\n", Value::Object(line))
}

/// To the front of the line, and nothing on it.
pub(crate) const ERASE_LINE: &str = "\r\x1b[2K";
/// Silence shorter than this needs no explanation.
pub(crate) const PATIENCE: Duration = Duration::from_millis(400);
/// Between two updates of the line.
const INTERVAL: Duration = Duration::from_millis(100);

/// One line on standard error that overwrites itself, on a terminal that can.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    enabled: bool,
    shown: bool,
    next: Instant,
}

impl ProgressLine {
    /// A line that appears when the silence gets long.
    pub(crate) fn new(terminal: Terminal) -> ProgressLine {
        let next = Instant::now() + PATIENCE;
        ProgressLine { enabled: !terminal.erasing().is_empty(), shown: false, next }
    }

    /// A line that is there from the start, for work that does not report.
    pub(crate) fn standing(terminal: Terminal, words: &str) -> ProgressLine {
        let mut line = ProgressLine { next: Instant::now(), ..ProgressLine::new(terminal) };
        line.update(|| words.to_owned());
        line
    }

    /// Shows new words, unless the last ones are too fresh.
    pub(crate) fn update(&mut self, words: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.enabled && now >= self.next {
            self.next = now + INTERVAL;
            self.shown = true;
            let _ = put(&mut stderr().lock(), &format!("{ERASE_LINE}{}", one_line(&words())));
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&mut self) {
        if self.shown {
            self.shown = false;
            let _ = put(&mut stderr().lock(), ERASE_LINE);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dimmed_piece_ends_its_own_style() {
        let terminal = Terminal { styled: true, ..Terminal::default() };
        assert_eq!(terminal.dimmed("hm"), "\x1b[2mhm\x1b[0m");
        assert_eq!(terminal.dimmed(""), "");
        assert_eq!(Terminal::default().dimmed("hm"), "hm");
    }

    #[test]
    fn controls_are_pictures() {
        assert_eq!(visible("a\tb\n漢"), "a\tb\n漢");
        assert_eq!(one_line("a\nb\x1bc"), "a␊b␛c");
        assert_eq!(visible("\x1b[2J\r\x7f\u{9b}x"), "␛[2J␍␡␦x");
    }
}
