//! What lies about in this user's own folders: what runs learned of experts, conversations of the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{Found, Kind};
use crate::args::Gc;
use crate::learned;
use crate::user_folder::user_folder;

/// A file in the making that nobody wrote to for so long was left behind.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// Looks there.
pub(super) fn look(asked: &Gc) -> Vec<Found> {
    let cache =
        || Some(user_folder("XDG_CACHE_HOME", ".cache")?.join("deltafin").join("snapshots"));
    let snapshots = asked.snapshots.clone().or_else(cache);
    let folders = [(learned::folder(), "heat", "partial"), (snapshots, "snapshot", "part")];
    let mut found: Vec<_> = folders
        .into_iter()
        .filter_map(|(folder, whole, partial)| Some((folder?, whole, partial)))
        .flat_map(|(folder, whole, partial)| stale(&folder, whole, partial, asked.old))
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Of the files with these endings, those that were not changed for long.
fn stale(folder: &Path, whole: &str, partial: &str, old: Duration) -> Vec<Found> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let look = |path: PathBuf| {
        let ending = path.extension()?.to_str()?;
        let (kind, most) = match ending {
            _ if ending == whole => (Kind::Old, old),
            _ if ending.ends_with(partial) => (Kind::Orphaned, LEFT_BEHIND),
            _ => return None,
        };
        let meta = path.symlink_metadata().ok().filter(|meta| meta.is_file())?;
        let unused = SystemTime::now().duration_since(meta.modified().ok()?).unwrap_or_default();
        (unused >= most).then(|| Found::new(kind, path))
    };
    entries.filter_map(|entry| look(entry.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_not_used_for_long_is_stale() {
        let dir = tempfile::tempdir().unwrap();
        for (name, days) in [
            ("a.heat", 100),
            ("b.heat", 10),
            ("c.7.partial", 1),
            ("d.7.partial", 0),
            ("e.txt", 900),
        ] {
            let file = fs::File::create(dir.path().join(name)).unwrap();
            let then = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
            file.set_modified(then).unwrap();
        }
        let mut found = stale(dir.path(), "heat", "partial", Duration::from_secs(90 * 24 * 3600));
        found.sort_by(|a, b| a.path.cmp(&b.path));
        let found: Vec<_> = found.iter().map(|f| (f.kind, f.path.file_name().unwrap())).collect();
        assert_eq!(
            found,
            [(Kind::Old, "a.heat".as_ref()), (Kind::Orphaned, "c.7.partial".as_ref())]
        );
    }
}
