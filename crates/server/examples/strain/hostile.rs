//! Requests that nobody should send: no panic, no fault of our own, no connection without an end, bounded memory.

mod body;
mod head;
mod peer;

use std::panic;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use deltafin_server::Settings;

use crate::chance::Chance;
use crate::engine::{Manner, serve};
use crate::machine;
use peer::Peer;

/// Connections at a time.
const PEERS: usize = 8;
/// Small, so that a body that is too large is no work to send.
const BODY_BYTES_MAX: usize = 64 << 10;
/// By then everything is made that is made once: the vocabulary of enforced forms, threads, buffers.
const SETTLED: u64 = 20_000;
/// How much memory may grow after that.
const GROWTH_BYTES_MAX: u64 = 128 << 20;

/// Sends so many requests. Each connection has a seed of its own; `run(1, seed)` is one connection again.
pub(crate) fn run(requests: u64, first_seed: u64) {
    let panics = watch_panics();
    let settings = Settings {
        model: "strain".to_owned(),
        api_keys: vec![head::KEY.to_owned()],
        cors_origins: vec![head::ORIGIN.to_owned()],
        allow_sampling: true,
        max_body_bytes: BODY_BYTES_MAX,
        body_pause_limit: Duration::from_millis(300),
        stall_limit: Duration::from_secs(2),
        ping_interval: Duration::from_millis(20),
        status_hold: Duration::from_millis(20),
        replay: Duration::from_millis(5),
        ..Settings::default()
    };
    let (server, at, runs) =
        serve(settings, Manner { pace: Duration::from_micros(200), ids: 3, yields: true });
    let descriptors = machine::descriptors();
    let (next, sent) = (Arc::new(AtomicU64::new(first_seed)), Arc::new(AtomicU64::new(0)));
    let settled = Arc::new(Mutex::new(None));
    let began = Instant::now();
    let peers: Vec<_> = (0..PEERS.min(requests as usize))
        .map(|_| {
            let (next, sent, panics) = (next.clone(), sent.clone(), panics.clone());
            let settled = settled.clone();
            thread::spawn(move || {
                while sent.load(Ordering::SeqCst) < requests {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    let count = converse(at, seed, &panics);
                    let all = sent.fetch_add(count, Ordering::SeqCst) + count;
                    if all >= SETTLED {
                        settled.lock().unwrap().get_or_insert_with(machine::resident_bytes);
                    }
                }
            })
        })
        .collect();
    for peer in peers {
        peer.join().expect("the seed is told above");
    }
    let (sent, seconds) = (sent.load(Ordering::SeqCst), began.elapsed().as_secs_f64());
    println!(
        "hostile: {sent} requests on {} connections in {seconds:.0} s, {} of them were given to the engine",
        next.load(Ordering::SeqCst) - first_seed,
        runs.lock().unwrap().len()
    );
    tell_memory(settled.lock().unwrap().flatten());
    let patience = Instant::now() + Duration::from_secs(10);
    while machine::descriptors() > descriptors && Instant::now() < patience {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(machine::descriptors(), descriptors, "descriptors were left open");
    assert!(peer::is_well(at), "/health does not answer any more");
    server.shut_down();
    assert_eq!(panics.load(Ordering::SeqCst), 0, "something panicked");
}

/// One connection's worth of requests; how many they were.
fn converse(at: std::net::SocketAddr, seed: u64, panics: &AtomicUsize) -> u64 {
    let spoken = panic::catch_unwind(|| Peer::new(at, Chance::new(seed)).speak());
    match spoken {
        Ok(count) if panics.load(Ordering::SeqCst) == 0 => count,
        _ => {
            println!(
                "hostile: seed {seed} failed, or one beside it: scripts/check-hostile 1 {seed}"
            );
            panic::resume_unwind(Box::new(()));
        }
    }
}

/// Counts panics of all threads, the server's too, which survives them.
fn watch_panics() -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let (seen, usual) = (count.clone(), panic::take_hook());
    panic::set_hook(Box::new(move |info| {
        seen.fetch_add(1, Ordering::SeqCst);
        usual(info);
    }));
    count
}

fn tell_memory(settled: Option<u64>) {
    let (Some(settled), Some(end)) = (settled, machine::resident_bytes()) else { return };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "hostile: {:.1} MiB resident after {SETTLED} requests, {:.1} at the end",
        mib(settled),
        mib(end)
    );
    assert!(end <= settled + GROWTH_BYTES_MAX, "memory grew");
}
