use super::*;
use std::fs;
use tempfile::TempDir;

const CALM: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=500\n";

/// A machine whose files can be changed, and a clock.
struct Machine {
    root: TempDir,
    now: Instant,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { root: TempDir::new().unwrap(), now: Instant::now() };
        machine.free(50);
        machine.write("proc/pressure/memory", CALM);
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// So many of a hundred parts of memory are free.
    fn free(&self, percent: u64) {
        let text = format!("MemTotal: 1000000 kB\nMemFree: 1 kB\nMemAvailable: {percent}0000 kB\n");
        self.write("proc/meminfo", &text);
    }

    fn waited(&self, path: &str, some: u64, full: u64) {
        self.write(path, &format!("some avg10=9.00 total={some}\nfull avg10=0.00 total={full}\n"));
    }

    fn watch(&self) -> Pressure {
        Pressure::watch_at(self.root.path())
    }

    /// The level after some seconds.
    fn after(&mut self, seconds: u64, pressure: &mut Pressure) -> Level {
        self.now += Duration::from_secs(seconds);
        pressure.poll_at(self.now)
    }
}

#[test]
fn little_that_is_free_is_pressure() {
    let mut machine = Machine::new();
    let mut pressure = machine.watch();
    assert_eq!(machine.after(9, &mut pressure), Level::Calm);
    machine.free(5);
    assert_eq!(machine.after(9, &mut pressure), Level::Tight);
    machine.free(2);
    assert_eq!(machine.after(9, &mut pressure), Level::Critical);
    machine.free(50);
    assert_eq!(machine.after(9, &mut pressure), Level::Calm);
}

#[test]
fn between_two_looks_nothing_is_new() {
    let mut machine = Machine::new();
    machine.free(2);
    let mut pressure = machine.watch();
    assert_eq!(machine.after(0, &mut pressure), Level::Critical);
    assert_eq!(machine.after(0, &mut pressure), Level::Calm);
    assert_eq!(machine.after(9, &mut pressure), Level::Critical);
}

#[test]
fn waiting_counts_by_its_share_of_the_time_between_looks() {
    let mut machine = Machine::new();
    let mut pressure = machine.watch();
    // What was waited before we came is not ours to answer.
    machine.waited("proc/pressure/memory", 50_000_000, 40_000_000);
    assert_eq!(machine.after(10, &mut pressure), Level::Calm);
    machine.waited("proc/pressure/memory", 50_900_000, 40_000_000);
    assert_eq!(machine.after(10, &mut pressure), Level::Calm);
    machine.waited("proc/pressure/memory", 52_000_000, 40_900_000);
    assert_eq!(machine.after(10, &mut pressure), Level::Tight);
    machine.waited("proc/pressure/memory", 54_000_000, 42_000_000);
    assert_eq!(machine.after(10, &mut pressure), Level::Critical);
    assert_eq!(machine.after(10, &mut pressure), Level::Calm);
}

#[test]
fn our_own_group_counts_before_the_machine() {
    let mut machine = Machine::new();
    let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
    machine.write("proc/self/mountinfo", mounts);
    machine.write("proc/self/cgroup", "0::/g\n");
    let events = |high, oom| format!("low 0\nhigh {high}\nmax 0\noom {oom}\noom_kill 0\n");
    machine.write("sys/fs/cgroup/g/memory.events", &events(3, 0));
    machine.waited("sys/fs/cgroup/g/memory.pressure", 0, 0);
    let mut pressure = machine.watch();
    assert_eq!(machine.after(10, &mut pressure), Level::Calm);
    machine.waited("proc/pressure/memory", 90_000_000, 90_000_000);
    assert_eq!(machine.after(10, &mut pressure), Level::Calm);
    machine.write("sys/fs/cgroup/g/memory.events", &events(4, 0));
    assert_eq!(machine.after(10, &mut pressure), Level::Tight);
    machine.write("sys/fs/cgroup/g/memory.events", &events(4, 1));
    assert_eq!(machine.after(10, &mut pressure), Level::Critical);
    machine.waited("sys/fs/cgroup/g/memory.pressure", 2_000_000, 0);
    assert_eq!(machine.after(10, &mut pressure), Level::Tight);
}

#[test]
fn a_machine_that_tells_nothing_is_calm() {
    let root = TempDir::new().unwrap();
    let mut pressure = Pressure::watch_at(root.path());
    assert_eq!(pressure.poll(), Level::Calm);
}

#[test]
fn damaged_files_tell_nothing() {
    let mut machine = Machine::new();
    machine.write("proc/meminfo", "MemTotal: x\nMemAvailable:\n");
    machine.write("proc/pressure/memory", "some\nfull total=\n\n");
    let mut pressure = machine.watch();
    assert_eq!(machine.after(9, &mut pressure), Level::Calm);
    machine.write("proc/meminfo", "");
    machine.write("proc/pressure/memory", "some total=-1 total=9");
    assert_eq!(machine.after(9, &mut pressure), Level::Calm);
}

#[test]
fn a_cache_gives_way_by_steps_and_never_grows() {
    for cache in [0, 1, 7, 8, 1000] {
        assert_eq!(Level::Calm.give_way(cache), cache);
        let (tight, critical) = (Level::Tight.give_way(cache), Level::Critical.give_way(cache));
        assert!(critical <= tight && tight <= cache);
        assert!(cache == 0 || tight < cache, "a step is a step: {cache}");
    }
    let steps = (0..60).scan(1000, |cache, _| {
        *cache = Level::Tight.give_way(*cache);
        Some(*cache)
    });
    assert_eq!(steps.last(), Some(0));
}
