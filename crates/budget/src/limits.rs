//! How much memory there is for this process.
//!
//! The least of: what the machine has, what is free on it, what each control group around the process
//! leaves, and the process's own limits. What this process already has resident is part of its budget,
//! so it counts as free.

use crate::group::{self, Group};
use crate::{Level, Part, PlanError, Size, whole_mib};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// What the system says about its memory; nothing where it does not say. Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The machine's memory.
    pub physical: Option<u64>,
    /// Memory that could be had without swapping, this process's own included.
    pub free: Option<u64>,
    /// The control groups around this process that have a limit.
    pub groups: Vec<Group>,
    /// What the limit of the process's address space leaves.
    pub address: Option<u64>,
    /// What the limit of the process's private memory leaves.
    pub data: Option<u64>,
}

/// What bounds a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The machine has no more.
    Physical,
    /// The rest of the machine is in use.
    Free,
    /// A control group, named by its folder.
    Group(PathBuf),
    /// The limit of address space (`ulimit -v`).
    Address,
    /// The limit of private memory (`ulimit -d`).
    Data,
    /// The system says nothing, and this is assumed.
    Assumed,
}

/// The least of the limits, and which one it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usable {
    /// Bytes this process may have resident.
    pub bytes: u64,
    /// What sets them.
    pub bound: Bound,
}

/// A budget larger than what there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--memory {} is more than there is: {}, {bound}; give at most --memory {}M, or auto",
    Size(*asked), Size(*bytes), bytes >> 20
)]
pub struct TooLarge {
    /// The budget that was asked for.
    pub asked: u64,
    /// What there is.
    pub bytes: u64,
    /// What sets that.
    pub bound: Bound,
}

/// No plan for a budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// More than there is.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// Less than is needed.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// More is needed than there is, whatever the budget.
    #[error(
        "the smallest plan takes {}, of it {} for {}, and there is {}, {bound}; {}raise that limit",
        Size(*smallest), Size(part.bytes), part.purpose.words(), Size(*bytes),
        lower(*smallest, *part, *bytes)
    )]
    Lacking {
        /// The smallest budget that is enough.
        smallest: u64,
        /// The part of it that is worth asking less of.
        part: Part,
        /// What there is.
        bytes: u64,
        /// What sets that.
        bound: Bound,
    },
}

/// The remedy that asking less of a part is, where it is one.
fn lower(smallest: u64, part: Part, bytes: u64) -> String {
    match smallest.saturating_sub(part.bytes) < bytes {
        true => format!("lower {}, or ", part.purpose.flag()),
        false => String::new(),
    }
}

/// Without a word from the system, this much is taken to be there.
const ASSUMED: u64 = 4 << 30;

impl Limits {
    /// Reads this machine's.
    pub fn read() -> Limits {
        Limits::read_from(Path::new("/"))
    }

    /// Reads those that the system's files below `root` tell.
    pub fn read_from(root: &Path) -> Limits {
        let own = Own::read(root);
        let kb = |field| field_bytes(root, "proc/meminfo", field);
        let mut limits = Limits {
            physical: kb("MemTotal:"),
            free: kb("MemAvailable:").map(|free| free.saturating_add(own.held)),
            groups: group::read(root, own.held),
            ..process_limits(&own)
        };
        if cfg!(target_os = "macos") {
            limits.physical = mac::physical();
            limits.free = mac::free();
        }
        limits
    }

    /// The least of them all.
    pub fn usable(&self) -> Usable {
        self.least(true)
    }

    /// The least of those that do not change while others come and go.
    pub fn ceiling(&self) -> Usable {
        self.least(false)
    }

    /// What `auto` means: the least of them all, less [`reserve`].
    pub fn auto(&self) -> u64 {
        let usable = self.usable().bytes;
        usable - reserve(usable)
    }

    /// Whether a budget somebody asked for can be had at all. That the rest of the machine is in use
    /// now is no reason to refuse it.
    ///
    /// # Errors
    /// When it is above the machine's memory or a limit.
    pub fn admit(&self, asked: u64) -> Result<(), TooLarge> {
        let Usable { bytes, bound } = self.ceiling();
        if bound != Bound::Assumed && asked > bytes {
            return Err(TooLarge { asked, bytes, bound });
        }
        Ok(())
    }

    /// The same refusal, unless the budget that it names is more than can be had here.
    pub fn explain(&self, refused: PlanError) -> BudgetError {
        let (PlanError::TooSmall { smallest, part, .. }, ceiling) = (&refused, self.ceiling());
        let Usable { bytes, bound } = ceiling;
        // As the refusal would have it typed.
        let named = whole_mib(*smallest);
        match bound != Bound::Assumed && named > bytes {
            true => BudgetError::Lacking { smallest: *smallest, part: *part, bytes, bound },
            false => refused.into(),
        }
    }

    fn least(&self, with_free: bool) -> Usable {
        let groups = self.groups.iter().map(|g| (Some(g.room()), Bound::Group(g.folder.clone())));
        let free = self.free.filter(|_| with_free);
        [(self.physical, Bound::Physical), (free, Bound::Free)]
            .into_iter()
            .chain(groups)
            .chain([(self.address, Bound::Address), (self.data, Bound::Data)])
            .filter_map(|(bytes, bound)| Some(Usable { bytes: bytes?, bound }))
            .min_by_key(|usable| usable.bytes)
            .unwrap_or(Usable { bytes: ASSUMED, bound: Bound::Assumed })
    }
}

/// What `auto` leaves to the system and to others: a tenth, at least 1 GiB, but never more than a
/// quarter of a small limit.
pub fn reserve(usable: u64) -> u64 {
    (usable / 10).max(1 << 30).min(usable / 4)
}

/// The most memory this process ever had resident, in bytes; `None` where the system does not say.
pub fn peak_resident_bytes() -> Option<u64> {
    field_bytes(Path::new("/"), "proc/self/status", "VmHWM:")
}

/// What this process has already, in bytes.
struct Own {
    /// Resident memory that cannot be given up: files' pages can.
    held: u64,
    /// Address space, and the private part of it.
    address: u64,
    data: u64,
}

impl Own {
    fn read(root: &Path) -> Own {
        let field = |name| field_bytes(root, "proc/self/status", name).unwrap_or(0);
        let held = field("RssAnon:").saturating_add(field("RssShmem:"));
        Own { held, address: field("VmSize:"), data: field("VmData:") }
    }
}

/// What the process's own limits leave. They bound what is mapped: what is mapped already and not
/// resident is lost to us.
fn process_limits(own: &Own) -> Limits {
    use rustix::process::{Resource, getrlimit};
    let left = |resource, mapped: u64| {
        let limit = getrlimit(resource).current?;
        Some(limit.saturating_sub(mapped.saturating_sub(own.held)))
    };
    Limits {
        address: left(Resource::As, own.address),
        data: left(Resource::Data, own.data),
        ..Limits::default()
    }
}

/// A field of a Linux status file that is given in kB.
fn field_bytes(root: &Path, path: &str, field: &str) -> Option<u64> {
    let text = fs::read_to_string(root.join(path)).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(field))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The kernel's level on macOS: 1 is normal, 2 a warning, 4 critical.
pub(crate) fn mac_pressure() -> Level {
    match mac::named("kern.memorystatus_vm_pressure_level") {
        Some(4..) => Level::Critical,
        Some(2..) => Level::Tight,
        _ => Level::Calm,
    }
}

/// macOS tells through named values of its kernel, which its own program prints.
mod mac {
    use std::process::Command;

    pub(super) fn physical() -> Option<u64> {
        named("hw.memsize")
    }

    /// Pages that hold nothing or only copies of files.
    pub(super) fn free() -> Option<u64> {
        let pages = ["vm.page_free_count", "vm.page_pageable_external_count"];
        let pages = pages.into_iter().filter_map(named).fold(0u64, u64::saturating_add);
        pages.checked_mul(named("hw.pagesize")?).filter(|bytes| *bytes > 0)
    }

    pub(super) fn named(name: &str) -> Option<u64> {
        let output = Command::new("/usr/sbin/sysctl").args(["-n", name]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Physical => f.write_str("the machine's memory"),
            Bound::Free => f.write_str("what is free on the machine"),
            Bound::Group(folder) => write!(f, "the limit of control group {}", folder.display()),
            Bound::Address => f.write_str("the limit of address space (ulimit -v)"),
            Bound::Data => f.write_str("the limit of private memory (ulimit -d)"),
            Bound::Assumed => f.write_str("assumed, as the system does not say"),
        }
    }
}

#[cfg(test)]
mod tests;
