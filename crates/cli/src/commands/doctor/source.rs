//! The way to the source: whether it answers, and whether the clocks agree.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deltafin_fetch::{self as fetch, FetchError, Lookout, Patience, Sighting, Source};

use super::finding::{Code, Finding, Level};
use super::model::Subject;
use crate::failure::Failure;
use crate::stats::{bytes, seconds};

/// One try, and how long it may take for an answer.
const PATIENCE: Patience = Patience {
    stall: Duration::from_secs(3),
    first: Duration::ZERO,
    most: Duration::ZERO,
    attempts: 1,
    give_up: Duration::ZERO,
    hopeless: 1,
};
/// All tries together: a mirror is asked for each file.
const MOST: Duration = Duration::from_secs(30);
/// Signatures and links of object stores are refused at some minutes' difference.
const CLOCKS_APART: i64 = 300;
/// 1 January 2026; this program is younger.
const PROGRAM_BEGAN: u64 = 1_767_225_600;

/// Asks the source of the model, or of the released one where there is none.
pub(super) fn look(
    subject: &Subject,
    endpoint: Option<&str>,
    stop: &AtomicBool,
) -> Result<Vec<Finding>, Failure> {
    let source = match &subject.source {
        None | Some(Source::Folder(_)) => return Ok(Vec::new()),
        Some(source) => source,
    };
    let dir = subject.dir.as_deref();
    let lookout = Lookout { source, endpoint, dir, patience: PATIENCE, most: MOST };
    match fetch::sight(lookout, stop) {
        Ok(sighting) => Ok(seen(&sighting)),
        Err(FetchError::Interrupted) => Err(Failure::Interrupted),
        Err(error) => Ok(vec![unseen(&error, subject)]),
    }
}

fn seen(sighting: &Sighting) -> Vec<Finding> {
    let Sighting { source, files, bytes: size, seconds: took, clock_ahead_seconds } = sighting;
    let (size, took) = (bytes(*size), seconds(*took));
    let mut findings =
        vec![Finding::ok("source", format!("{source}: {files} files, {size}, answered in {took}"))];
    if let Some(ahead) = clock_ahead_seconds.filter(|ahead| ahead.abs() > CLOCKS_APART) {
        let way = if ahead > 0 { "before" } else { "behind" };
        let found = format!("{} s {way} the source's", ahead.abs());
        findings.push(wrong_clock(Level::Warning, found));
    }
    findings
}

/// A fault where something is to come from there, be it while the model runs.
fn unseen(error: &FetchError, subject: &Subject) -> Finding {
    let is_needed = subject.wants_files() || subject.wants_experts();
    let level = if is_needed { Level::Fault } else { Level::Note };
    let found = match subject.wants_experts() {
        true => format!("{error}; experts that are not here come from it"),
        false => error.to_string(),
    };
    let fix =
        "check the network, HTTPS_PROXY and SSL_CERT_FILE, or take another source (setup --source)";
    Finding::trouble(level, Code::UnreachableSource, "source", found, fix)
}

/// Whether the clock can be right at all.
pub(super) fn clock() -> Vec<Finding> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    at(now).into_iter().collect()
}

fn at(now: u64) -> Option<Finding> {
    let found = "it shows a time before this program was written; certificates are not valid yet";
    (now < PROGRAM_BEGAN).then(|| wrong_clock(Level::Fault, found.to_owned()))
}

fn wrong_clock(level: Level, found: String) -> Finding {
    let fix = "set the clock, best by the network (timedatectl set-ntp true)";
    Finding::trouble(level, Code::WrongClock, "clock", found, fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(clock_ahead_seconds: Option<i64>) -> Sighting {
        let source = "hf:a/b@c".to_owned();
        Sighting { source, files: 3, bytes: 9, seconds: 0.1, clock_ahead_seconds }
    }

    #[test]
    fn clocks_that_disagree_are_named() {
        assert_eq!(seen(&sighting(Some(3))).len(), 1);
        assert_eq!(seen(&sighting(None)).len(), 1);
        let found = seen(&sighting(Some(-4000)));
        assert_eq!(found[1].code, Some("DF-CLOCK-01"));
        assert!(found[1].found.contains("4000 s behind"), "{found:?}");
        assert_eq!(at(0).unwrap().level, Level::Fault);
        assert_eq!(at(PROGRAM_BEGAN), None);
    }
}
