//! Folders that have all but experts.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use deltafin_fetch::{
    Event, FetchError, Installed, Order, Wanted, install, is_finished, is_streamed, list,
};
use deltafin_testkit::hub::{Hub, Missteps};

use crate::support::{IMPATIENT, assert_whole, files, hub, install_until, quiet, run, source};

/// Sets a folder up so that experts come when they are needed.
pub(crate) fn stream(hub: &Hub, dir: &Path) -> Result<Installed, FetchError> {
    let (source, endpoint) = (source(), hub.endpoint());
    let wanted = Wanted::Spine;
    let order = order(&source, &endpoint, dir, wanted);
    install(&order, Arc::new(|_: Event<'_>| {}), &AtomicBool::new(false))
}

fn order<'o>(
    source: &'o deltafin_fetch::Source,
    endpoint: &'o str,
    dir: &'o Path,
    wanted: Wanted,
) -> Order<'o> {
    Order { wanted, ..crate::support::order(source, dir, endpoint) }
}

#[test]
fn experts_are_holes_and_all_else_is_here() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    let (source, endpoint) = (source(), hub.endpoint());
    let order = order(&source, &endpoint, dir.path(), Wanted::Spine);
    let outlook = list(&order, Arc::new(|_: Event<'_>| {}), &AtomicBool::new(false)).unwrap();
    let missing: u64 = outlook.files.iter().map(|prospect| prospect.missing).sum();
    let looked_at = hub.served().bytes();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let installed = stream(&hub, dir.path()).unwrap();
    assert_eq!(installed.extent, Wanted::Spine);
    assert_eq!(installed.received, missing, "what was said to come is what came");
    assert_eq!(hub.served().bytes() - looked_at, missing);
    assert!(missing < hub.bytes(), "{missing} of {}", hub.bytes());
    assert!(is_streamed(dir.path()) && is_finished(dir.path()));
    for (name, bytes) in files() {
        let part = dir.path().join(format!("{name}.part"));
        if let Ok(holes) = fs::read(&part) {
            assert_eq!(holes.len(), bytes.len(), "{name}");
            let differs = holes.iter().zip(&bytes).any(|(here, wanted)| here != wanted);
            assert!(differs, "{name} should have holes");
            let wrong = holes.iter().zip(&bytes).any(|(h, wanted)| h != wanted && *h != 0);
            assert!(!wrong, "{name} has bytes that the source has not");
            assert!(fs::metadata(&part).unwrap().blocks() * 512 < bytes.len() as u64, "{name}");
        } else {
            assert_eq!(fs::read(dir.path().join(&name)).unwrap(), bytes, "{name}");
        }
    }
    // Again: nothing is left to be done, and nothing is asked for.
    let before = hub.served().bytes();
    assert_eq!(stream(&hub, dir.path()).unwrap().received, 0);
    assert_eq!(hub.served().bytes(), before);
}

#[test]
fn the_rest_follows_in_place_and_nothing_comes_twice() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    let first = stream(&hub, dir.path()).unwrap().received;
    let rest = run(&hub, dir.path(), IMPATIENT).unwrap();
    assert_eq!(rest.extent, Wanted::All);
    assert_eq!((first + rest.received, hub.served().bytes()), (hub.bytes(), hub.bytes()));
    assert!(!is_streamed(dir.path()));
    assert_whole(dir.path());
    // What is whole stays so.
    assert_eq!(stream(&hub, dir.path()).unwrap().extent, Wanted::All);
    assert_whole(dir.path());
}

#[test]
fn without_a_word_a_folder_goes_on_as_it_was_begun() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    stream(&hub, dir.path()).unwrap();
    let (source, endpoint, stop) = (source(), hub.endpoint(), AtomicBool::new(false));
    let fitting = order(&source, &endpoint, dir.path(), Wanted::Fitting);
    let installed = install(&fitting, Arc::new(|_: Event<'_>| {}), &stop).unwrap();
    assert_eq!((installed.extent, installed.received), (Wanted::Spine, 0));
    let new = tempfile::tempdir().unwrap();
    let fitting = order(&source, &endpoint, new.path(), Wanted::Fitting);
    let installed = install(&fitting, Arc::new(|_: Event<'_>| {}), &stop).unwrap();
    assert_eq!(installed.extent, Wanted::All);
}

#[test]
fn a_drive_that_is_too_small_gets_all_but_the_experts() {
    // What no drive has room for; its header is that of a shorter file and can be read no further.
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    hub.announce("odd näme #1.txt", 1 << 60);
    let (source, endpoint, stop) = (source(), hub.endpoint(), AtomicBool::new(false));
    let fitting = order(&source, &endpoint, dir.path(), Wanted::Fitting);
    let said = Arc::new(AtomicBool::new(false));
    let seen = said.clone();
    let watch = move |event: Event<'_>| {
        if let Event::Streams { needed, free } = event {
            assert!(needed > free && needed >= 1 << 60);
            seen.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    };
    let outlook = list(&fitting, Arc::new(watch), &stop).unwrap();
    assert_eq!(outlook.extent, Wanted::Spine);
    assert!(said.load(std::sync::atomic::Ordering::SeqCst));
}

#[test]
fn layers_of_a_folder_that_is_ready_leave_it_ready() {
    for kind in [Wanted::All, Wanted::Spine] {
        let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
        let (source, endpoint) = (source(), hub.endpoint());
        let install = |wanted: Wanted| {
            let order = order(&source, &endpoint, dir.path(), wanted);
            install(&order, quiet(), &AtomicBool::new(false)).unwrap()
        };
        install(kind.clone());
        let installed = install(Wanted::Layers(1..=2));
        assert_eq!((installed.extent, installed.received), (kind.clone(), 0));
        let streams = kind == Wanted::Spine;
        assert!(is_finished(dir.path()) && is_streamed(dir.path()) == streams);
    }
}

#[test]
fn layers_of_a_folder_that_is_to_be_streamed_leave_it_that() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    let (source, endpoint) = (source(), hub.endpoint());
    let begun = order(&source, &endpoint, dir.path(), Wanted::Spine);
    install_until(&begun, 1).unwrap_err();
    assert!(!is_finished(dir.path()));
    let layers = order(&source, &endpoint, dir.path(), Wanted::Layers(1..=2));
    let installed = install(&layers, quiet(), &AtomicBool::new(false)).unwrap();
    assert!(installed.extent == Wanted::Spine && is_streamed(dir.path()));
}

#[test]
fn what_lies_beside_counts_where_what_fits_is_what_comes() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    let (source, endpoint) = (source(), hub.endpoint());
    let fitting = order(&source, &endpoint, dir.path(), Wanted::Fitting);
    let extent = |order: &Order<'_>| list(order, quiet(), &AtomicBool::new(false)).unwrap().extent;
    assert_eq!(extent(&fitting), Wanted::All);
    assert_eq!(extent(&Order { beside: 1 << 60, ..fitting }), Wanted::Spine);
}
