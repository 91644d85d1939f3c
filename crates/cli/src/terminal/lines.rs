//! Lines of this program's own on standard error: notes for people, or objects for machines.
//!
//! Promises: a line that cannot be written ends no command, and after [`never_wait`] none holds up whoever writes it.

use std::io::stderr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::{one_line, put, visible};
use crate::failure::Failure;
use crate::log::Log;

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
