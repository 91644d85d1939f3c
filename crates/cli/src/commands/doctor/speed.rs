//! How fast the drive gives experts, and whether it is read in the way that is fastest.

use std::path::Path;
use std::time::Duration;

use deltafin_budget::Limits;
use deltafin_engine::ModelSpec;
use deltafin_measure::{DriveError, DriveSpeed, Effort};
use deltafin_store::Checkpoint;

use super::drives::nearest;
use super::finding::{Code, Finding, Level};
use crate::commands::{measuring, plan};
use crate::probe;
use crate::stats::bytes;

/// Time for reads.
const TIME: Duration = Duration::from_millis(700);
/// Slower than this, a token of K3 takes half a minute.
const SLOW_GBPS: f64 = 0.8;
/// Shorter reads, as small models have them, say nothing of what a drive gives to large ones.
const TELLING_BYTES: u64 = 1 << 20;
/// The file that is written where there is no checkpoint has at most an eighth of this.
const LEAST_FREE_BYTES: u64 = 8 << 30;

/// Measures the checkpoint's drive; without one, the drive of the folder that it would be in.
pub(super) fn look(checkpoint: Option<&Checkpoint>, place: Option<&Path>) -> Vec<Finding> {
    let limits = Limits::read();
    let effort = Effort { time: TIME, room: measuring::room(&limits) };
    let measured = match (checkpoint, place.and_then(nearest)) {
        (Some(checkpoint), _) => plan::speed_of(checkpoint, effort),
        (None, Some(folder)) if has_room(folder) => written(folder, effort).map(Some),
        _ => return Vec::new(),
    };
    told(measured, &limits)
}

/// What was measured, or why it was not.
fn told(measured: Result<Option<DriveSpeed>, DriveError>, limits: &Limits) -> Vec<Finding> {
    match measured {
        Ok(Some(speed)) => vec![pace(&speed), mode(&speed)],
        Ok(None) => Vec::new(),
        Err(DriveError::TooLittle(refused)) => {
            let (found, fix) = measuring::lacking(limits, refused);
            vec![Finding::trouble(Level::Fault, Code::TooLittleMemory, "speed", found, fix)]
        }
        Err(error) => {
            let fix =
                "see the system's log for this drive; 'deltafin verify --deep' reads everything";
            let (level, code) = (Level::Fault, Code::UnreadableDrive);
            vec![Finding::trouble(level, code, "speed", error.to_string(), fix)]
        }
    }
}

fn has_room(folder: &Path) -> bool {
    rustix::fs::statvfs(folder)
        .is_ok_and(|room| room.f_bavail.saturating_mul(room.f_frsize) >= LEAST_FREE_BYTES)
}

/// Writes a file, reads it, removes it.
fn written(folder: &Path, effort: Effort) -> Result<DriveSpeed, DriveError> {
    probe::sweep(folder);
    let file = folder.join(format!(".deltafin-doctor-{}", std::process::id()));
    deltafin_measure::drive_speed_at(&file, ModelSpec::k3().expert_bytes(), effort)
}

fn pace(speed: &DriveSpeed) -> Finding {
    let read = speed.bytes / (speed.reads as u64).max(1);
    let mut found = format!("{:.2} GB/s in reads as long as experts, {}", speed.gbps, bytes(read));
    for doubt in &speed.doubts {
        found.push_str(&format!("; {doubt}"));
    }
    if speed.gbps < SLOW_GBPS && read >= TELLING_BYTES {
        let fix =
            "a token of K3 needs gigabytes: an NVMe drive, or more memory, makes the difference";
        return Finding::trouble(Level::Warning, Code::SlowDrive, "speed", found, fix);
    }
    Finding::ok("speed", found)
}

fn mode(speed: &DriveSpeed) -> Finding {
    match &speed.notice {
        None => Finding::ok("reads", speed.how.clone()),
        Some(notice) => Finding::trouble(
            Level::Note,
            Code::IndirectReads,
            "reads",
            format!("{}: {notice}", speed.how),
            "a local drive with ext4 or XFS, and a kernel that allows io_uring, are read fastest",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltafin_measure::TooLittle;

    fn speed(gbps: f64, notice: Option<&str>) -> DriveSpeed {
        let (how, notice) = ("buffered reads".to_owned(), notice.map(str::to_owned));
        DriveSpeed {
            gbps,
            between_gbps: None,
            bytes: 40 << 20,
            reads: 4,
            how,
            notice,
            doubts: Vec::new(),
        }
    }

    #[test]
    fn slow_drives_and_slow_ways_are_named() {
        assert_eq!(pace(&speed(3.0, None)).level, Level::Ok);
        assert_eq!(pace(&speed(0.1, None)).code, Some("DF-DRIVE-03"));
        let short = DriveSpeed { bytes: 4000, ..speed(0.1, None) };
        assert_eq!(pace(&short).level, Level::Ok, "{short:?}");
        assert_eq!(mode(&speed(3.0, None)).level, Level::Ok);
        let found = mode(&speed(3.0, Some("no io_uring reads (refused)")));
        assert_eq!(found.code, Some("DF-DRIVE-04"));
        assert!(found.found.contains("refused"), "{found:?}");
    }
    #[test]
    fn a_drive_that_there_is_no_memory_for_is_not_called_unreadable() {
        let limits = Limits { data: Some(20 << 20), ..Limits::default() };
        let refused = TooLittle { least: 34 << 20, most: 4 << 20 };
        let found = told(Err(refused.into()), &limits);
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!((found.level, found.code), (Level::Fault, Some("DF-MEM-01")));
        assert!(
            found.found.contains("takes 50.00 MiB of memory, and there is 20.00 MiB"),
            "{found:?}"
        );
        let found = told(Err(DriveError::Nothing), &limits);
        assert_eq!(found[0].code, Some("DF-DRIVE-05"));
    }
}
