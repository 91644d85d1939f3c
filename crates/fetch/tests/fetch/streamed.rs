//! Models that run while their experts come.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use deltafin_engine::{Engine, EngineOptions, Prefetch};
use deltafin_fetch::{
    Event, FetchError, Layout, Order, Patience, Streaming, Wanted, give_up, install, open_streamed,
    verify,
};
use deltafin_store::Checkpoint;
use deltafin_testkit::hub::{Hub, Misstep, Missteps, checkpoint_files};
use deltafin_testkit::{fixture, open};

use crate::support::{CALM, HASTY, IMPATIENT, contents, order, quiet, source, whole_hub};

const PROMPT: [u32; 12] = [5, 9, 2, 44, 31, 8, 120, 3, 77, 60, 14, 1];

fn hub_of(name: &str) -> Hub {
    match name {
        "demo" => {
            let file = |(name, bytes): &(&str, &[u8])| ((*name).to_owned(), bytes.to_vec());
            Hub::serve(deltafin_demo::FILES.iter().map(file).collect(), Missteps::none())
        }
        _ => Hub::serve_dir(&fixture(name), Missteps::none()),
    }
}

pub(crate) fn set_up(hub: &Hub, dir: &Path, wanted: Wanted) -> Result<u64, FetchError> {
    set_up_as(hub, dir, wanted, Layout::Auto)
}

/// As [`set_up`], so that it lies in this way.
pub(crate) fn set_up_as(
    hub: &Hub,
    dir: &Path,
    wanted: Wanted,
    layout: Layout,
) -> Result<u64, FetchError> {
    let (source, endpoint) = (source(), hub.endpoint());
    let order = Order { wanted, layout, patience: CALM, ..order(&source, dir, &endpoint) };
    install(&order, quiet(), &AtomicBool::new(false)).map(|installed| installed.received)
}

pub(crate) fn streaming<'o>(dir: &'o Path, endpoint: &'o str, patience: Patience) -> Streaming<'o> {
    Streaming {
        dir,
        source: None,
        endpoint: Some(endpoint),
        jobs: 4,
        bytes_per_second: None,
        patience,
        cache_limit: None,
    }
}

pub(crate) fn stream(hub: &Hub, dir: &Path, patience: Patience) -> Checkpoint {
    stream_within(hub, dir, patience, None).unwrap()
}

/// As [`stream`], with a limit of the cache.
pub(crate) fn stream_within(
    hub: &Hub,
    dir: &Path,
    patience: Patience,
    cache_limit: Option<u64>,
) -> Result<Checkpoint, FetchError> {
    let endpoint = hub.endpoint();
    let streaming = Streaming { cache_limit, ..streaming(dir, &endpoint, patience) };
    open_streamed(&streaming, quiet(), Arc::default())
}

fn options(prefetch: Prefetch) -> EngineOptions {
    EngineOptions {
        context: NonZeroUsize::new(64),
        threads: NonZeroUsize::new(2),
        prefetch,
        ..EngineOptions::default()
    }
}

/// A prompt and what follows it, with the bits of every logit.
fn say(engine: &Engine) -> Result<(Vec<u32>, Vec<u32>), String> {
    let mut session = engine.session();
    let go_on = &mut |_| ControlFlow::Continue(());
    session.prefill(&PROMPT, go_on).map_err(|error| error.to_string())?;
    let (mut ids, mut bits) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        bits.extend(session.logits().iter().map(|logit| logit.to_bits()));
        let id = session.greedy().unwrap();
        ids.push(id);
        session.advance(id).map_err(|error| error.to_string())?;
    }
    Ok((ids, bits))
}

pub(crate) fn text_of(checkpoint: Checkpoint, prefetch: Prefetch) -> (Vec<u32>, Vec<u32>) {
    say(&Engine::open(checkpoint, options(prefetch)).unwrap()).unwrap()
}

pub(crate) fn local() -> (Vec<u32>, Vec<u32>) {
    text_of(open("k3-micro"), Prefetch::Off)
}

/// Every range that was sent, and that none was sent twice.
#[track_caller]
pub(crate) fn assert_once(hub: &Hub) {
    let served = hub.served();
    for (name, ranges) in &served.ranges {
        let mut seen = HashSet::new();
        assert!(ranges.iter().all(|range| seen.insert(range.0)), "{name}: {ranges:?}");
        let mut sorted = ranges.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "{name}: {sorted:?}");
    }
    assert_eq!(served.tokens_leaked, 0);
}

#[test]
fn slow_and_out_of_order_it_says_the_same_and_each_record_comes_once_in_one_range() {
    let micro = Prefetch::ALL.map(|prefetch| ("k3-micro", prefetch));
    let others = ["k3-calm", "demo"].map(|name| (name, Prefetch::Auto));
    for (name, prefetch) in micro.into_iter().chain(others) {
        let wanted = text_of(open(name), Prefetch::Off);
        let (hub, dir) = (hub_of(name), tempfile::tempdir().unwrap());
        let spine = set_up(&hub, dir.path(), Wanted::Spine).unwrap();
        hub.answer_late(Duration::from_millis(6));
        let checkpoint = stream(&hub, dir.path(), CALM);
        assert_eq!(checkpoint.identity().unwrap(), open(name).identity().unwrap());
        assert_eq!(hub.served().bytes(), spine, "to be opened it needs nothing more");
        let engine = Engine::open(checkpoint, options(prefetch)).unwrap();
        assert!(say(&engine).unwrap() == wanted, "{name} {prefetch:?}");
        let report = engine.weights().stream().report();
        drop(engine);
        assert_once(&hub);
        let came = hub.served().bytes() - spine;
        assert!(came > 0 && came == report.brought.bytes, "{came} {report:?}");
        assert!(report.asked.requests >= report.brought.reads && report.asked.waits == 0);
        // What came is here for good.
        let again = text_of(stream(&hub, dir.path(), CALM), Prefetch::Off);
        assert!(again == wanted);
        assert_eq!(hub.served().bytes() - spine, came, "{name} {prefetch:?}");
    }
}

#[test]
fn whatever_the_network_does_it_says_the_same() {
    let wanted = local();
    // A flipped bit of a record is noticed when the shard is whole: sources give no digest of less. A
    // hub's own refusal is taken at its word.
    let untold = [Misstep::Flipped, Misstep::Forbidden];
    for kind in Misstep::ALL.into_iter().filter(|kind| !untold.contains(kind)) {
        let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
        set_up(&hub, dir.path(), Wanted::Spine).unwrap();
        hub.misstep(Missteps::of(&[kind], 3));
        let got = text_of(stream(&hub, dir.path(), IMPATIENT), Prefetch::Auto);
        assert!(got == wanted, "{kind:?}");
        assert_eq!(hub.missteps_made(), 3, "{kind:?}");
    }
}

#[test]
fn a_lost_network_ends_the_request_and_the_next_one_goes_on() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    let checkpoint = stream(&hub, dir.path(), HASTY);
    let engine = Engine::open(checkpoint, options(Prefetch::Off)).unwrap();
    hub.misstep(Missteps::of(&[Misstep::Unavailable], u64::MAX));
    let error = say(&engine).unwrap_err();
    assert!(error.contains("model-000") && error.contains("503"), "{error}");
    hub.misstep(Missteps::none());
    assert!(say(&engine).unwrap() == local());
}

#[test]
fn an_interrupt_ends_the_wait_for_a_source_that_gives_nothing() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    let interrupted = Arc::new(AtomicBool::new(false));
    let endpoint = hub.endpoint();
    let patience = Patience { give_up: Duration::from_secs(3600), ..Patience::default() };
    let streaming = streaming(dir.path(), &endpoint, patience);
    let heard = interrupted.clone();
    let watch = move |event: Event<'_>| {
        if let Event::Waiting { .. } = event {
            heard.store(true, Ordering::SeqCst);
        }
    };
    let checkpoint = open_streamed(&streaming, Arc::new(watch), interrupted).unwrap();
    let engine = Engine::open(checkpoint, options(Prefetch::Off)).unwrap();
    hub.misstep(Missteps::of(&[Misstep::Unavailable], u64::MAX));
    let error = say(&engine).unwrap_err();
    assert!(error.contains("interrupted"), "{error}");
}

/// Nobody has said yet that it gives nothing.
#[test]
fn an_interrupt_ends_the_wait_on_a_connection_that_stands_still() {
    for kind in [Misstep::Silence, Misstep::Stall] {
        let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
        set_up(&hub, dir.path(), Wanted::Spine).unwrap();
        let endpoint = hub.endpoint();
        let patience = Patience { stall: Duration::from_secs(3600), ..Patience::default() };
        let streaming = streaming(dir.path(), &endpoint, patience);
        let interrupted = Arc::new(AtomicBool::new(false));
        let checkpoint = open_streamed(&streaming, quiet(), interrupted.clone()).unwrap();
        let engine = Engine::open(checkpoint, options(Prefetch::Off)).unwrap();
        hub.misstep(Missteps::of(&[kind], u64::MAX));
        interrupted.store(true, Ordering::SeqCst);
        let error = say(&engine).unwrap_err();
        assert!(error.contains("interrupted"), "{error}");
    }
}

#[test]
fn two_at_a_time_share_what_comes() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    hub.answer_late(Duration::from_millis(4));
    let wanted = local();
    thread::scope(|scope| {
        let run = || text_of(stream(&hub, dir.path(), CALM), Prefetch::Auto);
        let both = [scope.spawn(run), scope.spawn(run)];
        for one in both {
            assert!(one.join().unwrap() == wanted);
        }
    });
    assert_once(&hub);
    let claims = dir.path().join(".deltafin/coming");
    assert_eq!(fs::read_dir(claims).unwrap().count(), 0);
}

#[test]
fn it_becomes_whole_in_place_and_only_what_is_missing_comes() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    let checkpoint = stream(&hub, dir.path(), CALM);
    // Nobody sets up what somebody runs.
    let busy = set_up(&hub, dir.path(), Wanted::All).unwrap_err();
    assert!(matches!(busy, FetchError::InUse { .. }), "{busy}");
    let wanted = text_of(checkpoint, Prefetch::Off);
    set_up(&hub, dir.path(), Wanted::All).unwrap();
    assert_eq!(hub.served().bytes(), hub.bytes());
    assert_once(&hub);
    let files = checkpoint_files(&fixture("k3-micro"));
    assert_eq!(contents(dir.path()), files.into_iter().collect());
    let whole = deltafin_store::open_dir(dir.path()).unwrap();
    assert!(text_of(whole, Prefetch::Off) == wanted);
}

#[test]
fn what_is_damaged_here_is_found_and_comes_again() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    let wanted = text_of(stream(&hub, dir.path(), CALM), Prefetch::Off);
    let look = || verify(dir.path(), true, &|_: Event<'_>| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!(look().damage, []);
    // The last record of a shard that came.
    let name = "model-00004-of-000012.safetensors";
    let map = fs::read_to_string(dir.path().join(format!(".deltafin/{name}.map"))).unwrap();
    let last = map.lines().last().unwrap();
    let at: usize = last.split(' ').next().unwrap().parse().unwrap();
    let part = dir.path().join(format!("{name}.part"));
    let mut bytes = fs::read(&part).unwrap();
    bytes[at + 3] ^= 1;
    fs::write(&part, bytes).unwrap();
    let damage = look().damage;
    assert_eq!(damage.len(), 1);
    assert!(damage[0].of.contains("expert") && damage[0].offset == at as u64, "{damage:?}");
    give_up(dir.path(), &damage).unwrap();
    set_up(&hub, dir.path(), Wanted::Fitting).unwrap();
    let before = hub.served().bytes();
    assert!(text_of(stream(&hub, dir.path(), CALM), Prefetch::Off) == wanted);
    assert_eq!(hub.served().bytes() - before, damage[0].bytes);
}

#[test]
fn what_is_not_set_up_is_refused() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    let endpoint = hub.endpoint();
    let streaming = streaming(dir.path(), &endpoint, HASTY);
    let refused = || {
        let opened = open_streamed(&streaming, quiet(), Arc::default());
        opened.unwrap_err().to_string()
    };
    assert!(refused().contains("not finished"));
    set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    let plain = deltafin_store::open_dir(dir.path()).unwrap_err().to_string();
    assert!(plain.contains("its experts are not here"), "{plain}");
    // A map that lost what every token needs.
    let map = dir.path().join(".deltafin/model-00003-of-000012.safetensors.map");
    let text = fs::read_to_string(&map).unwrap();
    let bytes = |line: &&str| line.split(' ').nth(1).and_then(|bytes| bytes.parse::<u64>().ok());
    let spine = text.lines().max_by_key(bytes).unwrap();
    fs::write(&map, text.replace(&format!("{spine}\n"), "")).unwrap();
    assert!(refused().contains("not finished"), "{}", refused());
}
