//! What transfers of all kinds show: a bar, lines for programs, words about a source that gives nothing.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::terminal::one_line;

const BAR: &str = "{bytes} of {total_bytes} [{wide_bar}] {bytes_per_sec}, {eta} left  {msg}";

/// A bar without a length yet, which nobody sees unless it is watched.
pub(super) fn bar(is_watched: bool) -> ProgressBar {
    let target =
        if is_watched { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template(BAR) {
        bar.set_style(style);
    }
    bar
}

/// A line for programs: an object with the name of the event and more.
pub(super) fn event(name: &str, mut more: Value) -> String {
    more["event"] = name.into();
    more.to_string()
}

/// That a source gives nothing, for people and for programs.
pub(super) fn waiting(name: &str, why: &str, wait: Duration) -> (String, Value) {
    let seconds = wait.as_secs_f64();
    let words = format!("{}: {}; asked again in {seconds:.1} s", one_line(name), one_line(why));
    (words, json!({"name": name, "why": why, "seconds": seconds}))
}
