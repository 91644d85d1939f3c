//! A drive that fills up. Needs the right to mount a small file system; where that is missing it says so.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deltafin_fetch::{Event, FetchError, Order, Spine, Wanted, install};
use deltafin_testkit::hub::Missteps;

use crate::streamed::{set_up, stream};
use crate::support::{
    CALM, HASTY, assert_nothing_wrong, assert_whole, hub, order, quiet, run, source, whole_hub,
};

/// A file system in memory, until dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(bytes: u64) -> Option<Small> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then_some(Small(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn a_drive_that_fills_up_is_named_and_what_came_is_kept() {
    let hub = hub(Missteps::none());
    let Some(drive) = Small::mount(hub.bytes() + (1 << 20)) else {
        eprintln!("not tested: a file system cannot be mounted here");
        return;
    };
    let dir = drive.path().join("model");
    let filler = drive.path().join("filler");
    let (endpoint, source, is_full) = (hub.endpoint(), source(), AtomicBool::new(false));
    let filling = filler.clone();
    let watch = move |event: Event<'_>| {
        if matches!(event, Event::Received { .. }) && !is_full.swap(true, Ordering::SeqCst) {
            let mut file = File::create(&filling).unwrap();
            while file.write_all(&[0; 4096]).is_ok() {}
        }
    };
    let order = Order { jobs: 1, ..order(&source, &dir, &endpoint) };
    let error = install(&order, Arc::new(watch), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, FetchError::Full { .. }), "{error}");
    assert_nothing_wrong(&dir);
    // Still full: refused before a byte.
    let (before, error) = (hub.served().bytes(), run(&hub, &dir, CALM).unwrap_err());
    let is_refused = matches!(error, FetchError::Room { .. } | FetchError::Full { .. });
    assert!(is_refused && hub.served().bytes() == before, "{error}");
    fs::remove_file(&filler).unwrap();
    run(&hub, &dir, CALM).unwrap();
    assert_whole(&dir);
}

#[test]
fn a_model_that_runs_stays_as_it_is_where_there_is_no_room_for_more() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    let [finished, begun, note] = ["stream.json", "install.json.part", "spine"]
        .map(|name| dir.path().join(".deltafin").join(name));
    let record = fs::read_to_string(&finished).unwrap();
    // With one shard more, so long that no drive has room for it.
    let mut long: serde_json::Value = serde_json::from_str(&record).unwrap();
    let more = serde_json::json!({"name": "more.safetensors", "bytes": 1u64 << 60});
    long["files"].as_array_mut().unwrap().push(more);
    let long = serde_json::to_string(&long).unwrap();
    fs::write(&finished, &long).unwrap();
    let (source, endpoint) = (source(), hub.endpoint());
    let int8 = Spine::Int8 { keeps_released: false };
    for spine in [Spine::Released, int8] {
        let order = Order {
            wanted: Wanted::All,
            spine,
            patience: HASTY,
            ..order(&source, dir.path(), &endpoint)
        };
        let refused = install(&order, quiet(), &AtomicBool::new(false)).unwrap_err();
        let is_room = matches!(refused, FetchError::Room { .. });
        assert!(is_room || spine == int8, "{refused}");
        assert!(fs::read_to_string(&finished).is_ok_and(|text| text == long), "{spine:?}");
        assert!(!begun.exists() && !note.exists(), "{spine:?}");
    }
    fs::write(&finished, record).unwrap();
    stream(&hub, dir.path(), CALM);
}
