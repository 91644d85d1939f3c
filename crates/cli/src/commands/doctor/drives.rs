//! Drives: whether files can be written where they have to be, what there is room for, how fast they are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use deltafin_engine::ModelSpec;

use super::finding::{Code, Finding, Level};
use super::model::Subject;
use super::speed;
use crate::stats::bytes;
use crate::user_folder::user_folder;

/// Below this a list of drives does not name one: nothing of a model's size fits.
const LISTED_BYTES: u64 = 10 << 30;

/// Looks at them; `measures` says whether speed is measured, which takes a second or two.
pub(super) fn look(subject: &Subject, measures: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let place = subject.dir.clone().or_else(|| folder("XDG_DATA_HOME", ".local/share"));
    if let Some(place) = &place {
        if subject.wants_files() {
            findings.push(writable("folder", place, "--model DIR names another for setup"));
        } else if subject.wants_experts() {
            findings.push(keeping(place, subject));
        }
        findings.extend(room(place, subject));
    }
    if let Some(state) = folder("XDG_STATE_HOME", ".local/state") {
        let fix = "what runs learn of experts is lost: set XDG_STATE_HOME to a folder of yours";
        let mut found = writable("state", &state, fix);
        found.level = found.level.min(Level::Warning);
        findings.push(found);
    }
    findings.extend(others());
    if measures {
        findings.extend(speed::look(subject.checkpoint(), place.as_deref()));
    }
    findings
}

fn folder(variable: &str, below: &str) -> Option<PathBuf> {
    user_folder(variable, below).map(|folder| folder.join("deltafin"))
}

/// The folder itself, or the nearest one above that is there.
pub(super) fn nearest(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| path.symlink_metadata().is_ok())
}

/// Writes a file there, and removes it.
fn writable(subject: &'static str, place: &Path, fix: &str) -> Finding {
    let written = || -> io::Result<()> {
        let folder = nearest(place).unwrap_or(Path::new("/"));
        match fs::metadata(folder)?.is_dir() {
            true => tempfile::tempfile_in(folder).map(|_| ()),
            false => Err(io::Error::other(format!("{} is no folder", folder.display()))),
        }
    };
    match written() {
        Ok(()) => Finding::ok(subject, format!("{} can be written to", place.display())),
        Err(error) => {
            let found = format!("{} cannot be written to: {error}", place.display());
            Finding::trouble(Level::Fault, Code::UnwritableFolder, subject, found, fix)
        }
    }
}

/// Whether experts that come can be kept; where they cannot, they come each time they are needed.
fn keeping(place: &Path, subject: &Subject) -> Finding {
    let distant = subject.checkpoint().and_then(|checkpoint| checkpoint.store.distant());
    let fix = "experts that come are not kept: let this user write to the folder and what is in it";
    match distant.and_then(|distant| distant.unkept()) {
        None => writable("folder", place, fix),
        Some(why) => {
            let found = format!("{} cannot be written to: {why}", place.display());
            Finding::trouble(Level::Warning, Code::UnwritableFolder, "folder", found, fix)
        }
    }
}

/// Whether what is still to come has room.
fn room(place: &Path, subject: &Subject) -> Option<Finding> {
    let folder = nearest(place)?;
    let room = rustix::fs::statvfs(folder).ok()?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    let (needed, what) = match (subject.missing, subject.wants_files()) {
        (Some(missing), true) => (missing, "what is still to come"),
        // How much is to come is not known yet; setup looks when it knows.
        (None, true) if subject.dir.is_some() => (0, ""),
        (None, true) => (ModelSpec::k3().total_bytes(), "Kimi K3"),
        (_, false) => (0, ""),
    };
    if needed > free {
        let found = format!("{} free, {what} takes {}", bytes(free), bytes(needed));
        let fix = "make room, or name a folder on another drive with --model DIR";
        let level = if subject.dir.is_some() { Level::Fault } else { Level::Note };
        return Some(Finding::trouble(level, Code::FullDrive, "room", found, fix));
    }
    Some(Finding::ok("room", format!("{} free at {}", bytes(free), folder.display())))
}

/// What else is mounted that has room.
fn others() -> Vec<Finding> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut seen = Vec::new();
    let mut findings = Vec::new();
    for (device, point) in mounts.lines().filter_map(mount) {
        let Ok(room) = rustix::fs::statvfs(point.as_str()) else { continue };
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        if free >= LISTED_BYTES && !seen.contains(&device) {
            findings.push(Finding::ok("drive", format!("{point}: {} free", bytes(free))));
            seen.push(device);
        }
    }
    findings
}

/// Device and place of a line of `mountinfo`, if it is of a drive.
fn mount(line: &str) -> Option<(String, String)> {
    let (before, after) = line.split_once(" - ")?;
    let source = after.split(' ').nth(1).filter(|source| source.starts_with("/dev/"))?;
    Some((source.to_owned(), before.split(' ').nth(4)?.replace("\\040", " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_takes_no_file_is_found() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(writable("folder", &dir.path().join("a/b"), "").level, Level::Ok);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        fs::write(dir.path().join("a"), "").unwrap();
        let found = writable("folder", &dir.path().join("a/b"), "elsewhere");
        assert_eq!((found.level, found.code), (Level::Fault, Some("DF-DRIVE-01")));
        assert!(found.found.contains("is no folder"), "{found:?}");
    }

    #[test]
    fn only_drives_are_listed() {
        let drive = "36 25 8:2 / /mnt/my\\040disk rw shared:1 - ext4 /dev/sda2 rw";
        assert_eq!(mount(drive), Some(("/dev/sda2".to_owned(), "/mnt/my disk".to_owned())));
        assert_eq!(mount("22 25 0:20 / /sys rw shared:7 - sysfs sysfs rw"), None);
        assert_eq!(mount("nonsense"), None);
    }
}
