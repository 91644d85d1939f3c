//! What measuring may take of this machine's memory: half of what there is, so that neither this machine nor others on
//! it run short, and more only where it takes more at the least.

use deltafin_budget::{Bound, Limits, Size, Usable, whole_mib};
use deltafin_measure::{DriveError, Room, TooLittle};

use crate::failure::Failure;

/// The program itself, with what the system keeps for it.
const PROGRAM: u64 = 16 << 20;

/// Memory that measuring may take within these limits.
pub(super) fn room(limits: &Limits) -> Room {
    let there = limits.usable().bytes;
    Room { wanted: there / 2, most: there.saturating_sub(PROGRAM) }
}

/// Why that was not enough, in the light of what this machine has, and what helps.
pub(super) fn lacking(limits: &Limits, refused: TooLittle) -> (String, &'static str) {
    let Usable { bytes, bound } = limits.usable();
    let remedy = match bound {
        Bound::Physical | Bound::Free | Bound::Assumed => "end other programs",
        Bound::Group(_) | Bound::Address | Bound::Data => "raise that limit",
    };
    let least = Size(whole_mib(refused.least.saturating_add(PROGRAM)));
    (format!("measuring takes {least} of memory, and there is {}, {bound}", Size(bytes)), remedy)
}

/// As [`lacking`], as the end of a command.
pub(super) fn too_little(limits: &Limits, refused: TooLittle) -> Failure {
    let (found, remedy) = lacking(limits, refused);
    Failure::new(format!("{found}; {remedy}"))
}

/// As [`too_little`], where that is why the drive was not measured.
pub(super) fn drive_failed(limits: &Limits, error: DriveError) -> Failure {
    match error {
        DriveError::TooLittle(refused) => too_little(limits, refused),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltafin_measure::Options;

    fn group(bytes: u64) -> Limits {
        let folder = "/sys/fs/cgroup/small".into();
        let groups = vec![deltafin_budget::Group { folder, limit: bytes, others: 0 }];
        Limits { physical: Some(64 << 30), groups, ..Limits::default() }
    }

    fn memory(limits: &Limits) -> Result<u64, TooLittle> {
        let options =
            Options { threads: vec![1], rows: vec![1], room: room(limits), ..Options::default() };
        options.memory()
    }

    #[test]
    fn measuring_takes_half_of_what_there_is() {
        let bytes = memory(&group(256 << 20)).unwrap();
        assert!((100 << 20..=128 << 20).contains(&bytes), "{bytes}");
        assert!(memory(&group(64 << 30)).unwrap() > 256 << 20);
    }

    /// A limit as high as the one that is named is enough, and one byte less is not.
    #[test]
    fn a_limit_that_is_too_low_is_named_with_what_is_enough() {
        let said = |bytes| {
            let limits = group(bytes);
            let refused = memory(&limits).unwrap_err();
            too_little(&limits, refused).line().unwrap()
        };
        let line = said(24 << 20);
        assert!(
            line.contains("there is 24.00 MiB, the limit of control group /sys/fs/cgroup/small"),
            "{line}"
        );
        assert!(line.ends_with("raise that limit"), "{line}");
        let named = line.split("takes ").nth(1).and_then(|rest| rest.split('.').next());
        let named: u64 = named.unwrap().parse().unwrap();
        assert!(memory(&group(named << 20)).is_ok());
        assert!(said((named - 1) << 20).contains(&format!("takes {named}.00 MiB")));
    }

    #[test]
    fn what_others_use_is_told_from_a_limit() {
        let limits = Limits { free: Some(20 << 20), ..group(1 << 30) };
        let line =
            too_little(&limits, TooLittle { least: 40 << 20, most: 4 << 20 }).line().unwrap();
        assert!(
            line.contains("free on the machine") && line.ends_with("end other programs"),
            "{line}"
        );
    }
}
