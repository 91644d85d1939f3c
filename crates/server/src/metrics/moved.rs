//! What the engine has moved, as counters.

use std::fmt::Write as _;
use std::time::Duration;

use super::{head, value};
use crate::backend::{DriveUse, Moved, NetworkUse};

/// Everything a backend counts.
pub(super) fn write(moved: &Moved, out: &mut String) {
    let read_bytes = moved.drives.iter().map(|drive| drive.read_bytes).sum();
    for (name, help, count) in [
        ("deltafin_read_bytes_total", "Bytes read from drives", read_bytes),
        ("deltafin_expert_hits_total", "Experts found in memory", moved.expert_hits),
        ("deltafin_expert_late_total", "Experts that a guess was reading", moved.expert_late),
        ("deltafin_expert_misses_total", "Experts that had to be read", moved.expert_misses),
    ] {
        value(name, "counter", help, count, out);
    }
    moved.network.iter().for_each(|network| write_network(network, out));
    write_waits(moved, out);
    write_drives(&moved.drives, out);
}

fn write_network(network: &NetworkUse, out: &mut String) {
    for (name, help, count) in [
        ("deltafin_network_experts_total", "Experts fetched over the network", network.experts),
        ("deltafin_network_bytes_total", "Bytes of these", network.bytes),
        ("deltafin_network_requests_total", "Requests sent for these", network.requests),
        ("deltafin_network_waits_total", "Pauses after requests in vain", network.waits),
    ] {
        value(name, "counter", help, count, out);
    }
}

fn write_waits(moved: &Moved, out: &mut String) {
    let name = "deltafin_wait_seconds_total";
    head(name, "counter", "Time that the model stood still for weights", out);
    for (what, wait) in [("spine", moved.spine_wait), ("experts", moved.expert_wait)] {
        let _ = writeln!(out, "{name}{{for=\"{what}\"}} {}", seconds(wait));
    }
}

/// In names of their own: a sum over all labels of one would count every byte twice.
fn write_drives(drives: &[DriveUse], out: &mut String) {
    let (bytes, busy) = ("deltafin_drive_read_bytes_total", "deltafin_drive_busy_seconds_total");
    head(bytes, "counter", "Bytes read, by drive", out);
    for (at, DriveUse { name, read_bytes, .. }) in drives.iter().enumerate() {
        let _ = writeln!(out, "{bytes}{{{}}} {read_bytes}", labels(at, name));
    }
    head(busy, "counter", "Time with a read in flight, by drive", out);
    for (at, drive) in drives.iter().enumerate() {
        let _ = writeln!(out, "{busy}{{{}}} {}", labels(at, &drive.name), seconds(drive.busy));
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// Folders may share a name in different containers: numbers keep them apart.
fn labels(at: usize, name: &str) -> String {
    let name = name.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    format!("drive=\"{at}\",folder=\"{name}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_their_labels() {
        assert_eq!(labels(1, "a\"} 1\n\\"), r#"drive="1",folder="a\"} 1\n\\""#);
    }

    #[test]
    fn each_drive_has_its_lines_and_the_total_is_their_sum() {
        let drive = |name: &str, read_bytes| DriveUse {
            name: name.to_owned(),
            read_bytes,
            busy: Duration::from_millis(1500),
        };
        let moved = Moved {
            drives: vec![drive("/a", 3), drive("/b", 4)],
            expert_wait: Duration::from_millis(250),
            ..Moved::default()
        };
        let mut page = String::new();
        write(&moved, &mut page);
        assert!(!page.contains("network"), "{page}");
        let network = NetworkUse { experts: 2, bytes: 9, requests: 5, waits: 1 };
        write(&Moved { network: Some(network), ..Moved::default() }, &mut page);
        for line in [
            "deltafin_network_experts_total 2",
            "deltafin_network_bytes_total 9",
            "deltafin_network_requests_total 5",
            "deltafin_network_waits_total 1",
            "deltafin_read_bytes_total 7",
            "deltafin_drive_read_bytes_total{drive=\"0\",folder=\"/a\"} 3",
            "deltafin_drive_read_bytes_total{drive=\"1\",folder=\"/b\"} 4",
            "deltafin_drive_busy_seconds_total{drive=\"1\",folder=\"/b\"} 1.5",
            "deltafin_wait_seconds_total{for=\"experts\"} 0.25",
            "deltafin_wait_seconds_total{for=\"spine\"} 0",
        ] {
            assert!(page.lines().any(|one| one == line), "{line}: {page}");
        }
    }
}
