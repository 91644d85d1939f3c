//! One way to be wrong at a time.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use deltafin_fetch::{Event, FetchError, Wanted, install};
use deltafin_testkit::hub::{Misstep, Missteps};

use crate::support::{
    HASTY, IMPATIENT, assert_nothing_wrong, assert_whole, hub, order, run, source,
};

const SHARD: &str = "model-00002-of-000012.safetensors";

#[test]
fn without_faults_every_byte_comes_once() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    let installed = run(&hub, dir.path(), IMPATIENT).unwrap();
    assert_whole(dir.path());
    assert_eq!((installed.received, installed.bytes), (hub.bytes(), hub.bytes()));
    assert_eq!(installed.extent, Wanted::All);
    let served = hub.served();
    assert_eq!(served.bytes(), hub.bytes());
    // Each record is one range.
    let ranges = &served.ranges[SHARD];
    assert!(ranges.len() > 8, "{ranges:?}");
    // And nothing the second time.
    let installed = run(&hub, dir.path(), IMPATIENT).unwrap();
    assert_eq!((installed.received, hub.served().bytes()), (0, hub.bytes()));
    assert_whole(dir.path());
}

#[test]
fn each_misstep_of_a_few_answers_is_got_over() {
    for kind in Misstep::ALL {
        // A hub's own refusal is taken at its word; a CDN's is not.
        // And one file may get all of what is flipped: it has three tries.
        let most = if kind == Misstep::Flipped { 2 } else { 3 };
        let plan = Missteps::of(&[kind], most);
        let plan = if kind == Misstep::Forbidden { plan.only_for(SHARD) } else { plan };
        let (hub, dir) = (hub(plan), tempfile::tempdir().unwrap());
        let installed = run(&hub, dir.path(), IMPATIENT);
        assert!(installed.is_ok(), "{kind:?}: {installed:?}");
        assert_eq!(hub.missteps_made(), most, "{kind:?}");
        assert_whole(dir.path());
    }
}

#[test]
fn a_file_that_always_comes_wrong_is_named_and_never_shown() {
    for kind in Misstep::ALL {
        let plan = Missteps::of(&[kind], u64::MAX).only_for(SHARD);
        let (hub, dir) = (hub(plan), tempfile::tempdir().unwrap());
        let result = run(&hub, dir.path(), HASTY);
        if kind == Misstep::Cut || kind == Misstep::Stall || kind == Misstep::Less {
            // Half comes each time, and half of the rest the next time: that ends well.
            if result.is_ok() {
                assert_whole(dir.path());
                continue;
            }
        }
        if kind == Misstep::OtherTag && result.is_ok() {
            assert_whole(dir.path()); // it is the only tag there is
            continue;
        }
        let error = result.unwrap_err();
        let words = error.to_string();
        assert!(matches!(error, FetchError::Incomplete { .. }), "{kind:?}: {words}");
        assert!(words.contains(SHARD), "{kind:?}: {words}");
        assert_nothing_wrong(dir.path());
        // As soon as the source is itself again, what is missing comes.
        hub.misstep(Missteps::none());
        run(&hub, dir.path(), IMPATIENT).unwrap();
        assert_whole(dir.path());
    }
}

#[test]
fn a_source_that_dies_is_given_up_once() {
    let (hub, dir) = (hub(Missteps::of(&[Misstep::Reset], u64::MAX)), tempfile::tempdir().unwrap());
    let error = run(&hub, dir.path(), HASTY).unwrap_err().to_string();
    assert!(error.contains("not tried: the source gives nothing"), "{error}");
    assert_nothing_wrong(dir.path());
}

#[test]
fn links_that_expire_are_made_again_and_the_token_stays_with_the_hub() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    hub.expire_links_after(2);
    run(&hub, dir.path(), IMPATIENT).unwrap();
    assert_whole(dir.path());
    let served = hub.served();
    assert!(served.links > 4, "{}", served.links);
    assert_eq!(served.bytes(), hub.bytes());
}

#[test]
fn a_hub_that_wants_a_token_and_gets_none_is_named_at_once() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    hub.require_token("nobody has it");
    let error = run(&hub, dir.path(), IMPATIENT).unwrap_err().to_string();
    assert!(error.contains("401") && error.contains("HF_TOKEN"), "{error}");
    assert_eq!(hub.served().unauthorized, 1);
}

#[test]
fn what_goes_wrong_is_told() {
    let hub = hub(Missteps::of(&[Misstep::TooMany], 2));
    let (dir, endpoint) = (tempfile::tempdir().unwrap(), hub.endpoint());
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = told.clone();
    let watch = move |event: Event<'_>| {
        if let Event::Waiting { why, .. } = event {
            telling.lock().unwrap().push(why.to_owned());
        }
    };
    let source = source();
    let order = order(&source, dir.path(), &endpoint);
    install(&order, Arc::new(watch), &AtomicBool::new(false)).unwrap();
    assert_eq!(*told.lock().unwrap(), ["127.0.0.1 answers 429 Too Many Requests"; 2]);
}
