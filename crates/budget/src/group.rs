//! Control groups, of either version: what each of a process's groups, and each group around them,
//! leaves to it.

use crate::Size;
use std::fs;
use std::path::{Path, PathBuf};

/// A group whose limit counts for this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its folder, as the process sees it.
    pub folder: PathBuf,
    /// The least of its limits, in bytes.
    pub limit: u64,
    /// Bytes in use that neither are this process's nor can be given up.
    pub others: u64,
}

impl Group {
    /// What it leaves to this process.
    pub fn room(&self) -> u64 {
        self.limit.saturating_sub(self.others)
    }
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Group { folder, limit, others } = self;
        write!(f, "control group {}: limit {}", folder.display(), Size(*limit))?;
        if *others > 0 { write!(f, ", {} of it in use by others", Size(*others)) } else { Ok(()) }
    }
}

/// A version of control groups: where limits and use stand.
struct Version {
    /// Files with a limit each.
    limits: &'static [&'static str],
    /// Lines of `memory.stat` that count memory which cannot be given up.
    held: &'static [&'static str],
}

/// `memory.high` slows a group down to a crawl before `memory.max` ends it.
const SECOND: Version = Version {
    limits: &["memory.max", "memory.high"],
    held: &["anon", "shmem", "slab_unreclaimable", "kernel_stack", "pagetables"],
};
/// Its `total_` lines count the groups below as well.
const FIRST: Version =
    Version { limits: &["memory.limit_in_bytes"], held: &["total_rss", "total_shmem"] };

/// The limits of all groups around this process; `ours` is what it has resident and cannot give up.
pub(crate) fn read(root: &Path, ours: u64) -> Vec<Group> {
    let mounts = mounts(root);
    let mut groups = Vec::new();
    for folder in folders(root, &mounts, Hierarchy::Second) {
        groups.extend(group(root, &folder, &SECOND, ours));
    }
    for folder in folders(root, &mounts, Hierarchy::First) {
        groups.extend(group(root, &folder, &FIRST, ours));
    }
    groups
}

/// The folder of this process's own group of version 2.
pub(crate) fn own(root: &Path) -> Option<PathBuf> {
    folders(root, &mounts(root), Hierarchy::Second).into_iter().next()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hierarchy {
    First,
    Second,
}

/// Where a hierarchy is mounted, and which of its groups is seen there.
struct Mount {
    hierarchy: Hierarchy,
    /// The group that appears as the mount's top.
    top: PathBuf,
    point: PathBuf,
}

fn mounts(root: &Path) -> Vec<Mount> {
    let text = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    text.lines().filter_map(mount).collect()
}

/// A line is `id parent major:minor root point options [optional...] - type source options`.
fn mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (top, point) = (place.next()?, place.next()?);
    let mut kind = kind.split(' ');
    let hierarchy = match (kind.next()?, kind.nth(1).unwrap_or_default()) {
        ("cgroup2", _) => Hierarchy::Second,
        ("cgroup", options) if options.split(',').any(|o| o == "memory") => Hierarchy::First,
        _ => return None,
    };
    Some(Mount { hierarchy, top: top.into(), point: point.into() })
}

/// The folders of this process's group and of all groups around it, innermost first. What is seen of
/// a host's path inside a container begins at the mount.
fn folders(root: &Path, mounts: &[Mount], hierarchy: Hierarchy) -> Vec<PathBuf> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let Some(path) = text.lines().find_map(|line| own_path(line, hierarchy)) else {
        return Vec::new();
    };
    let Some(mount) = mounts.iter().find(|mount| mount.hierarchy == hierarchy) else {
        return Vec::new();
    };
    let below = Path::new(path).strip_prefix(&mount.top).unwrap_or(Path::new(""));
    let leads_out = below.components().any(|part| part == std::path::Component::ParentDir);
    let below = if leads_out { Path::new("") } else { below };
    below.ancestors().map(|part| mount.point.join(part)).collect()
}

/// The path of a line `number:controllers:path`, where it is the one of this hierarchy.
fn own_path(line: &str, hierarchy: Hierarchy) -> Option<&str> {
    let (number, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let is_it = match hierarchy {
        Hierarchy::Second => number == "0" && controllers.is_empty(),
        Hierarchy::First => controllers.split(',').any(|c| c == "memory"),
    };
    is_it.then_some(path)
}

/// The group in `folder`, if it has a limit. A group that no longer exists has none.
fn group(root: &Path, folder: &Path, version: &Version, ours: u64) -> Option<Group> {
    let here = inside(root, folder);
    let number = |name: &&str| -> Option<u64> {
        fs::read_to_string(here.join(name)).ok()?.trim().parse().ok()
    };
    let limit = version.limits.iter().filter_map(number).min().filter(|limit| *limit < NO_LIMIT)?;
    let stat = fs::read_to_string(here.join("memory.stat")).unwrap_or_default();
    let held = |line: &str| -> Option<u64> {
        let (name, bytes) = line.split_once(' ')?;
        version.held.contains(&name).then(|| bytes.trim().parse().ok())?
    };
    let held: u64 = stat.lines().filter_map(held).fold(0, u64::saturating_add);
    Some(Group { folder: folder.to_owned(), limit, others: held.saturating_sub(ours) })
}

/// Version 1 writes the largest multiple of the page size instead of a word.
const NO_LIMIT: u64 = 1 << 60;

/// `path` below another root.
pub(crate) fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
