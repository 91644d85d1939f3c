//! What the line says: what matters most comes first, and all of it fits into eighty cells.

use std::time::Duration;

use deltafin_engine::Progress;

use crate::stats::bytes;

/// A share this small says little about the rest.
const LEAST_SHARE: f64 = 0.01;

/// Of a prompt. What is left is reckoned from what is done: passes are alike.
pub(super) fn prompt(at: Progress, read: (u64, Duration), waited: Duration) -> String {
    let Progress { rows_done, rows_running, rows_total, layer, layers } = at;
    let (first, last) = (rows_done + 1, rows_done + rows_running);
    let done = rows_done as f64 + rows_running as f64 * layer as f64 / layers.max(1) as f64;
    format!(
        "prompt: {first}-{last} of {rows_total}, layer {}/{layers}, {}{}",
        layer + 1,
        match left(waited, done / rows_total.max(1) as f64) {
            Some(left) => left,
            None => span(waited.as_secs_f64()),
        },
        reads(read)
    )
}

/// Of a token.
pub(super) fn token(
    number: usize,
    layer: usize,
    layers: usize,
    read: (u64, Duration),
    waited: Duration,
) -> String {
    let left = left(waited, layer as f64 / layers.max(1) as f64);
    let left = left.map_or_else(String::new, |left| format!(", {left}"));
    let so_far = span(waited.as_secs_f64());
    format!("token {number}: layer {}/{layers}, {so_far}{left}{}", layer + 1, reads(read))
}

/// Bytes and their rate, if there were any.
fn reads((read, time): (u64, Duration)) -> String {
    if read == 0 {
        return String::new();
    }
    let rate = bytes((read as f64 / time.as_secs_f64().max(1e-3)) as u64);
    format!(", {}, {rate}/s", bytes(read))
}

/// What the rest will take, once a share of the work is done.
fn left(waited: Duration, share: f64) -> Option<String> {
    let rest = (1.0 - share).max(0.0) / share;
    (share >= LEAST_SHARE).then(|| format!("{} left", span(waited.as_secs_f64() * rest)))
}

/// A length of time as somebody who waits reads it.
fn span(seconds: f64) -> String {
    match seconds.round() as u64 {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_says_how_far_it_is_and_what_is_left() {
        let at =
            Progress { rows_done: 512, rows_running: 512, rows_total: 2048, layer: 31, layers: 93 };
        assert_eq!(
            prompt(at, (90 << 30, Duration::from_secs(60)), Duration::from_secs(60)),
            "prompt: 513-1024 of 2048, layer 32/93, 2 min left, 90.00 GiB, 1.50 GiB/s"
        );
        let begun = Progress { rows_done: 0, layer: 0, ..at };
        let words = prompt(begun, (0, Duration::ZERO), Duration::from_millis(600));
        assert_eq!(words, "prompt: 1-512 of 2048, layer 1/93, 1 s");
    }

    #[test]
    fn a_token_says_the_same() {
        assert_eq!(
            token(7, 31, 93, (3 << 30, Duration::from_secs(30)), Duration::from_secs(30)),
            "token 7: layer 32/93, 30 s, 60 s left, 3.00 GiB, 102.40 MiB/s"
        );
        assert_eq!(
            token(7, 0, 93, (0, Duration::ZERO), Duration::from_secs(2)),
            "token 7: layer 1/93, 2 s"
        );
    }

    #[test]
    fn the_longest_line_fits() {
        let at = Progress {
            rows_done: 30_208,
            rows_running: 512,
            rows_total: 32_768,
            layer: 92,
            layers: 93,
        };
        let words = prompt(at, (999 << 30, Duration::from_secs(999)), Duration::from_secs(70_000));
        assert!(words.len() < 80, "{words}");
    }

    #[test]
    fn spans_read_well() {
        let said = [0.4, 119.2, 120.0, 601.0, 7200.0, 36_000.0].map(span);
        assert_eq!(said, ["0 s", "119 s", "2 min", "11 min", "2 h 0 min", "10 h 0 min"]);
    }
}
