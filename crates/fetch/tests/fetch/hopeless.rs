//! What no patience helps against.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use deltafin_fetch::{
    Event, FetchError, Installed, Lookout, Order, Patience, Sighting, install, list, sight,
};
use deltafin_testkit::hub::{Misstep, Missteps};

use crate::support::{
    IMPATIENT, assert_nothing_wrong, hub, install_until, order, quiet, run, source,
};

const SHARD: &str = "model-00002-of-000012.safetensors";

/// An hour for whatever may pass.
const PATIENT: Patience =
    Patience { attempts: 60, give_up: Duration::from_secs(3600), hopeless: 5, ..IMPATIENT };

/// Installs from an endpoint; says how it ended, and how often something was waited for.
fn from(endpoint: &str) -> (Result<Installed, FetchError>, u64) {
    let (source, dir) = (source(), tempfile::tempdir().unwrap());
    let order = Order { patience: PATIENT, ..order(&source, dir.path(), endpoint) };
    let waits = Arc::new(AtomicU64::new(0));
    let counting = waits.clone();
    let watch = move |event: Event<'_>| {
        if let Event::Waiting { .. } = event {
            counting.fetch_add(1, Ordering::SeqCst);
        }
    };
    let ended = install(&order, Arc::new(watch), &AtomicBool::new(false));
    (ended, waits.load(Ordering::SeqCst))
}

#[test]
fn where_nobody_listens_nobody_is_waited_for() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let (ended, waits) = from(&format!("http://{nobody}"));
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("refused") && error.contains("check the address"), "{error}");
    assert_eq!(waits, u64::from(PATIENT.hopeless) - 1);
}

#[test]
fn nor_is_who_does_not_talk_in_safety() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let in_the_clear = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let _ = (&connection).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = (&connection).read(&mut [0; 1024]);
        }
    });
    let (ended, waits) = from(&format!("https://{in_the_clear}"));
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("no safe connection"), "{error}");
    assert_eq!(waits, u64::from(PATIENT.hopeless) - 1);
}

#[test]
fn a_source_without_ranges_and_a_link_that_is_never_good_are_given_up() {
    for (kind, words) in [(Misstep::WholeFile, "whole files"), (Misstep::Forbidden, "403")] {
        let hub = hub(Missteps::of(&[kind], u64::MAX).only_for(SHARD));
        let dir = tempfile::tempdir().unwrap();
        let error = run(&hub, dir.path(), PATIENT).unwrap_err();
        let line = error.to_string();
        assert!(matches!(error, FetchError::Incomplete { .. }), "{kind:?}: {line}");
        assert!(line.contains(SHARD) && line.contains(words), "{kind:?}: {line}");
        assert_nothing_wrong(dir.path());
    }
}

#[test]
fn who_takes_connections_and_never_answers_is_asked_twice() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let (source, dir, asked) = (source(), tempfile::tempdir().unwrap(), AtomicU64::new(0));
    let stall = Duration::from_millis(30);
    let patience = Patience { stall, give_up: stall, attempts: 2, ..IMPATIENT };
    let order = Order { patience, ..order(&source, dir.path(), &endpoint) };
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            let held: Vec<_> = silent.incoming().take(2).collect();
            asked.store(held.len() as u64, Ordering::SeqCst);
            // Held until both were given up.
            thread::sleep(20 * stall);
        });
        list(&order, quiet(), &AtomicBool::new(false)).unwrap_err()
    });
    assert!(matches!(error, FetchError::Source { .. }), "{error}");
    assert_eq!(asked.into_inner(), 2);
}

/// Once one piece was asked for in vain for as long as anybody waits, no other is.
#[test]
fn a_source_that_falls_silent_is_given_up_for_all_pieces_at_once() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    let (source, endpoint) = (source(), hub.endpoint());
    let patience = Patience { stall: Duration::from_millis(30), attempts: 3, ..IMPATIENT };
    // One lane, and a piece of each of three files that wants to be on it.
    let order = Order { patience, jobs: 1, ..order(&source, dir.path(), &endpoint) };
    install_until(&order, hub.bytes() / 3).unwrap_err();
    hub.misstep(Missteps::of(&[Misstep::Silence], u64::MAX));
    let error = install(&order, quiet(), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, FetchError::Incomplete { .. }), "{error}");
    let (tries, files) = (3, 3);
    assert!(hub.missteps_made() < tries * files, "{}", hub.missteps_made());
    assert_nothing_wrong(dir.path());
}

/// A look at what there is, with one try that is waited for so long.
fn seen(endpoint: &str, stall: Duration, most: Duration) -> Result<Sighting, FetchError> {
    let (source, endpoint) = (source(), Some(endpoint));
    let patience = Patience { stall, attempts: 1, hopeless: 1, ..IMPATIENT };
    let lookout = Lookout { source: &source, endpoint, dir: None, patience, most };
    sight(lookout, &AtomicBool::new(false))
}

#[test]
fn a_look_at_a_source_ends_whoever_is_silent() {
    const SHORT: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(600);
    // Connections are taken by the system, and nobody answers.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    seen(&silent, SHORT, LONG).unwrap_err();
    let late = seen(&silent, LONG, SHORT).unwrap_err().to_string();
    assert!(late.contains("more than 0.1 s"), "{late}");
    // Who lists files, and says nothing where they are.
    let hub = hub(Missteps::of(&[Misstep::Silence], u64::MAX));
    seen(&hub.endpoint(), SHORT, LONG).unwrap_err();
    hub.misstep(Missteps::none());
    assert_eq!(seen(&hub.endpoint(), LONG, LONG).unwrap().bytes, hub.bytes());
    assert_eq!(hub.served().bytes(), 8, "nothing but the length of a header");
}
