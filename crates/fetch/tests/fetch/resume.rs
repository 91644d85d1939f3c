//! Going on where an installation was stopped.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deltafin_fetch::{Event, FetchError, Order, install};
use deltafin_testkit::hub::{Draw, Missteps};

use crate::support::{CALM, assert_whole, files, hub, install_until, order, quiet, run, source};

const SHARD: &str = "model-00002-of-000012.safetensors";

/// Installs until so many bytes have come, then stops.
fn run_until(
    hub: &deltafin_testkit::hub::Hub,
    dir: &std::path::Path,
    bytes: u64,
) -> Result<(), FetchError> {
    let (endpoint, source) = (hub.endpoint(), source());
    let order = order(&source, dir, &endpoint);
    install_until(&Order { bytes_per_second: Some(8 << 20), ..order }, bytes).map(drop)
}

#[test]
fn stopped_anywhere_it_goes_on_and_fetches_only_what_was_in_flight_again() {
    let hub = hub(Missteps::none());
    let mut draw = Draw(7);
    for _ in 0..8 {
        let dir = tempfile::tempdir().unwrap();
        let before = hub.served().bytes();
        let mut stops = 0;
        while let Err(error) = run_until(&hub, dir.path(), 1 + draw.below(hub.bytes() / 3)) {
            assert!(matches!(error, FetchError::Interrupted), "{error}");
            stops += 1;
        }
        assert_whole(dir.path());
        let twice = hub.served().bytes() - before - hub.bytes();
        let ranges = hub.served().ranges;
        let largest = ranges.values().flatten().map(|range| range.1).max().unwrap();
        // Four requests at once.
        assert!(twice <= stops * 4 * largest, "{twice} bytes came twice after {stops} stops");
    }
}

#[test]
fn bytes_that_the_drive_forgot_are_fetched_again_and_no_others() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    run(&hub, dir.path(), CALM).unwrap();
    let before = hub.served().ranges[SHARD].len();
    // As if the power had gone before the file was proven: it is a part, and some of it is lost.
    let (shard, part) = (dir.path().join(SHARD), dir.path().join(format!("{SHARD}.part")));
    let mut bytes = fs::read(&shard).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&part, bytes).unwrap();
    fs::remove_file(&shard).unwrap();
    let map = dir.path().join(format!(".deltafin/{SHARD}.map"));
    let text = fs::read_to_string(&map).unwrap();
    fs::write(&map, text.strip_suffix("proven\n").unwrap()).unwrap();
    let installed = run(&hub, dir.path(), CALM).unwrap();
    assert_whole(dir.path());
    let ranges = &hub.served().ranges[SHARD];
    assert_eq!(ranges.len(), before + 1);
    let (first, bytes) = ranges[before];
    assert_eq!(installed.received, bytes);
    assert!((first..first + bytes).contains(&(middle as u64)));
}

#[test]
fn files_that_are_here_already_are_proven_and_not_fetched() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    for (name, bytes) in files() {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    // One of them is not what it should be, and keeps its length.
    let shard = dir.path().join(SHARD);
    let mut bytes = fs::read(&shard).unwrap();
    bytes[9999] ^= 1;
    fs::write(&shard, &bytes).unwrap();
    let installed = run(&hub, dir.path(), CALM).unwrap();
    assert_whole(dir.path());
    assert_eq!(installed.received, bytes.len() as u64);
}

#[test]
fn a_second_installation_at_the_same_time_is_refused() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    let (endpoint, source) = (hub.endpoint(), source());
    let refused = Arc::new(AtomicBool::new(false));
    let (seen, path, at) = (refused.clone(), dir.path().to_owned(), endpoint.clone());
    let watch = move |event: Event<'_>| {
        if let Event::Plan { .. } = event {
            let source = crate::support::source();
            let order = order(&source, &path, &at);
            let second = std::thread::scope(|scope| {
                let run = || install(&order, quiet(), &AtomicBool::new(false));
                scope.spawn(run).join().unwrap()
            });
            let busy = matches!(second, Err(FetchError::Busy { holder: Some(_), .. }));
            seen.store(busy, Ordering::SeqCst);
        }
    };
    let order = order(&source, dir.path(), &endpoint);
    install(&order, Arc::new(watch), &AtomicBool::new(false)).unwrap();
    assert!(refused.load(Ordering::SeqCst));
    assert_whole(dir.path());
}
