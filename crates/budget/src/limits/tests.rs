use super::*;
use crate::Purpose;
use std::fs;
use tempfile::TempDir;

const GIB: u64 = 1 << 30;
const MOUNTS: &str = "\
22 1 0:20 / /proc rw - proc proc rw
30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
31 23 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
32 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct
";

/// A folder of system files.
struct Machine(TempDir);

impl Machine {
    /// 32 GiB, 24 of them free; this process holds 1 GiB.
    fn new() -> Machine {
        Machine(TempDir::new().unwrap())
            .with("proc/meminfo", "MemTotal: 33554432 kB\nMemAvailable:  24117248 kB\n")
            .with("proc/self/status", "VmSize: 4194304 kB\nRssAnon:\t 1048576 kB\nRssShmem: 0 kB\n")
            .with("proc/self/mountinfo", MOUNTS)
    }

    fn with(self, path: &str, text: &str) -> Machine {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn limits(&self) -> Limits {
        // The limits of the process that runs the tests are no part of the folder.
        Limits { address: None, data: None, ..Limits::read_from(self.0.path()) }
    }
}

#[test]
fn without_groups_what_is_free_and_what_we_hold_is_ours() {
    let limits = Machine::new().limits();
    assert_eq!(limits.usable(), Usable { bytes: 24 * GIB, bound: Bound::Free });
    assert_eq!(limits.ceiling(), Usable { bytes: 32 * GIB, bound: Bound::Physical });
    assert_eq!(limits.auto(), 24 * GIB - 24 * GIB / 10);
}

#[test]
fn every_group_around_the_process_counts() {
    let unified = "sys/fs/cgroup/unified";
    let machine = Machine::new()
        .with("proc/self/cgroup", "4:cpu,cpuacct:/x\n0::/outer/inner/leaf\n")
        .with(&format!("{unified}/outer/memory.max"), "8589934592\n")
        .with(&format!("{unified}/outer/memory.high"), "max\n")
        .with(&format!("{unified}/outer/memory.stat"), "anon 3221225472\nfile 5368709120\n")
        .with(&format!("{unified}/outer/inner/memory.max"), "max\n")
        .with(&format!("{unified}/outer/inner/leaf/memory.max"), "17179869184\n");
    let limits = machine.limits();
    // 3 GiB are held in the outer group, one of them by us. Pages of files can be given up.
    let outer = PathBuf::from("/sys/fs/cgroup/unified/outer");
    assert_eq!(limits.usable(), Usable { bytes: 6 * GIB, bound: Bound::Group(outer) });
    assert_eq!(limits.groups.len(), 2);
}

#[test]
fn the_softer_limit_of_a_group_counts() {
    let folder = "sys/fs/cgroup/unified/g";
    let machine = Machine::new()
        .with("proc/self/cgroup", "0::/g\n")
        .with(&format!("{folder}/memory.max"), "max\n")
        .with(&format!("{folder}/memory.high"), "4294967296\n");
    assert_eq!(machine.limits().usable().bytes, 4 * GIB);
}

#[test]
fn groups_of_the_first_version_are_read_too() {
    let folder = "sys/fs/cgroup/memory/jobs";
    let machine = Machine::new()
        .with("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/jobs/one\n0::/\n")
        .with("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
        .with(&format!("{folder}/memory.limit_in_bytes"), "6442450944\n")
        .with(&format!("{folder}/memory.stat"), "rss 1\ntotal_rss 2147483648\ntotal_cache 9\n")
        .with(&format!("{folder}/one/memory.limit_in_bytes"), "9223372036854771712\n");
    let limits = machine.limits();
    assert_eq!(limits.usable().bytes, 5 * GIB);
    assert_eq!(limits.groups.len(), 1);
    assert_eq!(
        limits.groups[0].to_string(),
        "control group /sys/fs/cgroup/memory/jobs: limit 6.00 GiB, 1.00 GiB of it in use by others"
    );
}

/// Inside a container the mount begins at the container's own group, whose path is the host's.
#[test]
fn a_container_sees_its_group_at_the_mount() {
    for (top, path) in [("/docker/abc", "/docker/abc"), ("/", "/docker/abc"), ("/", "/../abc")] {
        let mounts = format!("30 23 0:26 {top} /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
        let machine = Machine::new()
            .with("proc/self/mountinfo", &mounts)
            .with("proc/self/cgroup", &format!("0::{path}\n"))
            .with("sys/fs/cgroup/memory.max", "2147483648\n");
        assert_eq!(machine.limits().usable().bytes, 2 * GIB, "{top} {path}");
    }
}

#[test]
fn damaged_files_are_as_good_as_none() {
    let machine = Machine::new()
        .with("proc/meminfo", "MemTotal: many kB\nMemAvailable:\n")
        .with("proc/self/mountinfo", "30 23\n - \n a b c d e - cgroup2\n")
        .with("proc/self/cgroup", "0\n:::\n0::relative\n");
    assert_eq!(machine.limits().usable(), Usable { bytes: 4 * GIB, bound: Bound::Assumed });
}

#[test]
fn the_reserve_is_a_tenth_and_never_most_of_it() {
    assert_eq!(reserve(64 * GIB), 64 * GIB / 10);
    assert_eq!(reserve(8 * GIB), GIB);
    assert_eq!(reserve(2 * GIB), GIB / 2);
    assert_eq!(reserve(0), 0);
}

#[test]
fn a_budget_above_the_machine_is_refused_and_above_what_is_free_is_not() {
    let limits = Machine::new().limits();
    assert_eq!(limits.admit(32 * GIB), Ok(()));
    let refused = limits.admit(33 * GIB).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "--memory 33.00 GiB is more than there is: 32.00 GiB, the machine's memory; \
         give at most --memory 32768M, or auto"
    );
    assert_eq!(Limits::default().admit(u64::MAX), Ok(()));
}

#[test]
fn a_refusal_names_no_budget_that_cannot_be_had() {
    let part = Part { bytes: GIB, purpose: Purpose::Context };
    let refused = |smallest| PlanError::TooSmall { budget: 1, smallest, part };
    let explain = |limits: &Limits, smallest| limits.explain(refused(smallest)).to_string();
    let limits = Machine::new().limits();
    assert_eq!(explain(&limits, 32 * GIB), refused(32 * GIB).to_string());
    assert_eq!(
        explain(&limits, 32 * GIB + 1),
        "the smallest plan takes 32.00 GiB, of it 1.00 GiB for the state of the context, and there is \
         32.00 GiB, the machine's memory; lower --context, or raise that limit"
    );
    let far = explain(&limits, 34 * GIB);
    assert!(far.ends_with("the machine's memory; raise that limit"), "{far}");
    assert_eq!(explain(&Limits::default(), u64::MAX), refused(u64::MAX).to_string());
}

#[cfg(target_os = "linux")]
#[test]
fn this_machine_says_something() {
    let limits = Limits::read();
    assert!(limits.physical.is_some() && limits.free.is_some());
    assert!(limits.auto() < limits.usable().bytes);
    assert!(limits.usable().bytes <= limits.ceiling().bytes);
    assert!(peak_resident_bytes().unwrap() > 0);
}
