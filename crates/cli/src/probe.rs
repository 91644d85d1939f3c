//! Files that are written to measure a drive, and removed when that is over; or later, where it was killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Begin their names; the number of their process follows.
const PROBES: [&str; 3] = [".deltafin-plan-", ".deltafin-doctor-", ".deltafin-hole-"];
/// Longer than any measurement. On a drive that machines share, a process may be one of another machine.
const OVER: Duration = Duration::from_secs(600);

/// Those in a folder whose processes are gone.
pub(crate) fn left(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_left = |name: &str| {
        let pid = PROBES.iter().find_map(|probe| name.strip_prefix(probe));
        pid.is_some_and(|pid| pid.parse().is_ok_and(|pid| !is_alive(pid)))
    };
    let left = entries.filter(|entry| is_left(&entry.file_name().to_string_lossy()));
    left.map(|entry| entry.path()).collect()
}

/// Removes those of them that nobody wrote to for a while. What cannot be removed is in nobody's way but for its room.
pub(crate) fn sweep(dir: &Path) {
    let is_over = |path: &PathBuf| {
        let changed = fs::symlink_metadata(path).and_then(|meta| meta.modified());
        changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > OVER))
    };
    for path in left(dir).iter().filter(|path| is_over(path)) {
        let _ = fs::remove_file(path);
    }
}

fn is_alive(pid: i32) -> bool {
    use nix::errno::Errno;
    use nix::sys::signal::kill;
    use nix::unistd::Pid;
    pid > 0 && kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Command;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_a_killed_measurement_left_goes_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let (gone, here) = (ended.id(), std::process::id());
        let long_ago = SystemTime::now() - 2 * OVER;
        let name = |what: &str, pid: u32| format!(".deltafin-{what}-{pid}");
        for (name, is_old) in [
            (name("plan", gone), true),
            (name("doctor", gone), false),
            (name("plan", here), true),
            (name("else", gone), true),
        ] {
            let file = File::create(dir.path().join(name)).unwrap();
            if is_old {
                file.set_modified(long_ago).unwrap();
            }
        }
        assert_eq!(left(dir.path()).len(), 2);
        sweep(dir.path());
        let is_there = |name: String| dir.path().join(name).exists();
        assert!(!is_there(name("plan", gone)) && is_there(name("doctor", gone)));
        assert!(is_there(name("plan", here)) && is_there(name("else", gone)));
    }
}
