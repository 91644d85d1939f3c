//! How even a measurement was: its slowest and its fastest stretch.

use crate::Doubt;

/// Stretches of equal length that a measurement is looked at in.
const STRETCHES: usize = 5;
/// Fewer seconds, or fewer reads in a stretch, say nothing about what else goes on.
const LEAST_SECONDS: f64 = 0.5;
const LEAST_READS: usize = 8;
/// A drive that nobody else uses was within a tenth or two of itself.
const NOTABLE: f64 = 1.5;

/// The slowest and the fastest stretch in 10^9 bytes per second, given when each read was there, in
/// seconds from the start, and its bytes. Nothing where there is too little to tell.
pub(crate) fn of(landings: &[(f64, u64)]) -> Option<[f64; 2]> {
    let (end, _) = *landings.last()?;
    if end < LEAST_SECONDS || landings.len() < STRETCHES * LEAST_READS {
        return None;
    }
    let mut bytes = [0; STRETCHES];
    for (at, read) in landings {
        let stretch = (at / end * STRETCHES as f64) as usize;
        bytes[stretch.min(STRETCHES - 1)] += read;
    }
    let rates = bytes.map(|bytes| bytes as f64 / (end / STRETCHES as f64) / 1e9);
    Some([rates.into_iter().fold(f64::INFINITY, f64::min), rates.into_iter().fold(0.0, f64::max)])
}

/// That something else was at work, where the difference says so.
pub(crate) fn doubt(between_gbps: [f64; 2]) -> Option<Doubt> {
    let [least, most] = between_gbps;
    (most > NOTABLE * least).then_some(Doubt::Disturbed { between_gbps })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn landings(gbps: impl Fn(f64) -> f64) -> Vec<(f64, u64)> {
        let mut at = 0.0;
        let read = |_| {
            at += 0.01 / gbps(at);
            (at, 10_000_000)
        };
        (0..200).map(read).collect()
    }

    #[test]
    fn an_even_measurement_is_not_doubted() {
        let [least, most] = of(&landings(|_| 2.0)).expect("long enough");
        assert!((1.9..=2.0).contains(&least) && (2.0..2.1).contains(&most), "{least} {most}");
        assert_eq!(doubt([least, most]), None);
    }

    #[test]
    fn one_that_slowed_down_says_between_what() {
        let found = of(&landings(|at| if at < 0.4 { 2.6 } else { 1.2 })).expect("long enough");
        let said = doubt(found).expect("a doubt").to_string();
        assert!(said.contains("; something else uses the drive"), "{said}");
        assert!((1.1..1.3).contains(&found[0]) && (2.4..2.7).contains(&found[1]), "{found:?}");
    }

    #[test]
    fn what_is_short_says_nothing() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&landings(|_| 2.0)[..30]), None);
        assert_eq!(of(&landings(|_| 20.0)), None);
    }
}
