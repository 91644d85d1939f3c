//! What the line says.

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
        "prompt: tokens {first}-{last} of {rows_total}, layer {} of {layers}{}",
        layer + 1,
        so_far(read, waited, done / rows_total.max(1) as f64)
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
    let share = layer as f64 / layers.max(1) as f64;
    format!("token {number}: layer {} of {layers}{}", layer + 1, so_far(read, waited, share))
}

/// Bytes, their rate, the time they took and, after a share of the work, what the rest will take.
fn so_far(read: (u64, Duration), waited: Duration, share: f64) -> String {
    let seconds = waited.as_secs_f64();
    let reads = match read {
        (0, _) => String::new(),
        (read, time) => {
            let rate = bytes((read as f64 / time.as_secs_f64().max(1e-3)) as u64);
            format!(", {} read, {rate}/s", bytes(read))
        }
    };
    let left = match share {
        share if share >= LEAST_SHARE => {
            format!(", about {} left", span(seconds * (1.0 - share).max(0.0) / share))
        }
        _ => String::new(),
    };
    format!("{reads}, {}{left}", span(seconds))
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
            "prompt: tokens 513-1024 of 2048, layer 32 of 93, 90.00 GiB read, 1.50 GiB/s, 60 s, \
             about 2 min left"
        );
        let begun = Progress { rows_done: 0, layer: 0, ..at };
        let words = prompt(begun, (0, Duration::ZERO), Duration::from_millis(600));
        assert_eq!(words, "prompt: tokens 1-512 of 2048, layer 1 of 93, 1 s");
    }

    #[test]
    fn a_token_says_the_same() {
        assert_eq!(
            token(7, 31, 93, (3 << 30, Duration::from_secs(30)), Duration::from_secs(30)),
            "token 7: layer 32 of 93, 3.00 GiB read, 102.40 MiB/s, 30 s, about 60 s left"
        );
        assert_eq!(
            token(7, 0, 93, (0, Duration::ZERO), Duration::from_secs(2)),
            "token 7: layer 1 of 93, 2 s"
        );
    }

    #[test]
    fn spans_read_well() {
        let said = [0.4, 119.2, 120.0, 601.0, 7200.0, 36_000.0].map(span);
        assert_eq!(said, ["0 s", "119 s", "2 min", "11 min", "2 h 0 min", "10 h 0 min"]);
    }
}
