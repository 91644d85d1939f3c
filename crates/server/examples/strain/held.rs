//! Connections that wait for a slow engine, half of which leave at some moment.
//!
//! Shows that who stays is answered, that who leaves costs the engine nothing more, that nothing is left behind, and
//! that `/health` does not wait.

mod client;
mod probe;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use deltafin_server::Settings;

use crate::chance::Chance;
use crate::engine::{Manner, Run, serve};
use crate::machine;
use client::{Client, Fate, Patience};
use probe::Delays;

/// Between two ids.
const PACE: Duration = Duration::from_millis(10);
/// Part of the time in which the engine is to come through with those that stay.
const BUSY: f64 = 0.8;
/// By which time a client that left must be known to have left.
const NOTICED: Duration = Duration::from_secs(1);
/// The first client's number. Each asks for another number of ids, so that none shares a reply.
const FIRST: usize = 1 << 20;
/// What an allocator may keep of what was given back.
const SLACK_BYTES: u64 = 8 << 20;
const HEALTH_P99_MOST: Duration = Duration::from_millis(50);

/// Holds so many connections for so many seconds.
pub(crate) fn run(seconds: u64, connections: usize, timed: bool) {
    let window = Duration::from_secs(seconds);
    let busy = window.mul_f64(BUSY);
    let per_reply = busy / (connections / 2).max(1) as u32;
    let ids = (per_reply.as_micros() / PACE.as_micros()).max(1) as usize;
    let settings = Settings {
        model: "strain".to_owned(),
        queue: connections,
        replay: Duration::ZERO,
        ping_interval: Duration::from_secs(1),
        status_hold: Duration::from_secs(2),
        ..Settings::default()
    };
    let (server, at, runs) = serve(settings, Manner { pace: PACE, ids, yields: false });
    // What is made once is made by then, and the probe's own connection is closed.
    probe::once(at);
    thread::sleep(Duration::from_millis(200));
    let descriptors = machine::descriptors();

    let clients = clients(connections, busy);
    let stop = Arc::new(AtomicBool::new(false));
    let health = thread::spawn({
        let stop = stop.clone();
        move || probe::until(&stop, at)
    });
    let watch = thread::spawn({
        let stop = stop.clone();
        move || resident(&stop, window / 10)
    });
    let fates = client::all(at, &clients, window);
    stop.store(true, Ordering::SeqCst);
    let (delays, resident) = (health.join().unwrap(), watch.join().unwrap());

    let runs = runs.lock().unwrap().clone();
    tell_fates(&clients, &fates, &runs, ids);
    tell_leaks(descriptors, at, resident);
    tell_health(&delays, timed);
    server.shut_down();
}

/// Half of them leave: some in the middle of their reply, the others at a moment before their turn.
fn clients(count: usize, busy: Duration) -> Vec<Client> {
    let mut chance = Chance::new(20);
    let mut leaves: Vec<bool> = (0..count).map(|at| at % 2 == 1).collect();
    for at in (1..count).rev() {
        leaves.swap(at, chance.below(at + 1));
    }
    let client = |(at, leaves): (usize, bool)| {
        let turn = busy.mul_f64((at + 1) as f64 / count as f64);
        let patience = match chance.below(5) {
            _ if !leaves => Patience::Stays,
            0 => Patience::LeavesMidway,
            _ => Patience::Leaves(turn.mul_f64(chance.below(1000) as f64 / 1000.0)),
        };
        let is_streamed = chance.below(2) == 0 || patience == Patience::LeavesMidway;
        Client { number: FIRST + at, is_streamed, patience }
    };
    leaves.into_iter().enumerate().map(client).collect()
}

/// Those that stayed were answered in full, those that left were dropped, and the engine ran no others.
fn tell_fates(clients: &[Client], fates: &[Fate], runs: &[Run], ids: usize) {
    let whole: BTreeSet<usize> =
        runs.iter().filter(|run| run.is_whole).map(|run| run.number).collect();
    let mut stayed = 0;
    for (client, fate) in clients.iter().zip(fates) {
        if let Fate::Answered(said) = fate {
            assert_eq!(*said, ids, "client {} heard another reply", client.number);
            assert!(
                whole.contains(&client.number),
                "client {} was answered by nobody",
                client.number
            );
            stayed += 1;
        }
    }
    let mut in_vain = 0;
    for run in runs {
        let Fate::Left(left) = fates[run.number - FIRST] else {
            assert!(run.is_whole, "{run:?} was broken off");
            continue;
        };
        assert!(run.began < left + NOTICED, "{run:?} was begun for a client that had left");
        assert!(run.ended < left + NOTICED, "{run:?} went on for a client that had left");
        in_vain += 1;
    }
    assert_eq!(runs.len(), stayed + in_vain, "some reply was generated twice");
    println!(
        "held: {} connections, {stayed} stayed and were answered, {} left, of them {in_vain} while being \
         answered; the engine began {} replies",
        fates.len(),
        fates.len() - stayed,
        runs.len()
    );
}

/// The most bytes in memory when all had come, and from then on. Nothing where that is not known.
type Resident = Option<(u64, u64)>;

fn resident(stop: &AtomicBool, settled: Duration) -> Resident {
    let began = Instant::now();
    let (mut then, mut most) = (None, 0);
    while !stop.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(50));
        let bytes = machine::resident_bytes()?;
        if began.elapsed() >= settled {
            then.get_or_insert(bytes);
            most = most.max(bytes);
        }
    }
    then.map(|then| (then, most))
}

fn tell_leaks(before: usize, at: SocketAddr, resident: Resident) {
    let patience = Instant::now() + Duration::from_secs(10);
    while machine::descriptors() > before && Instant::now() < patience {
        thread::sleep(Duration::from_millis(20));
    }
    let after = machine::descriptors();
    println!("held: {before} descriptors before, {after} after");
    assert_eq!(after, before, "descriptors were left open");
    // It goes on answering.
    probe::once(at);
    let (Some((settled, most)), Some(end)) = (resident, machine::resident_bytes()) else { return };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "held: {:.1} MiB resident when all had come, {:.1} at most, {:.1} at the end",
        mib(settled),
        mib(most),
        mib(end)
    );
    assert!(most.max(end) <= settled + SLACK_BYTES, "memory grew");
}

fn tell_health(delays: &Delays, timed: bool) {
    let [half, p99, most] = [0.5, 0.99, 1.0].map(|part| delays.quantile(part));
    println!(
        "held: /health asked {} times: median {half:.1?}, p99 {p99:.1?}, at most {most:.1?}",
        delays.count()
    );
    assert!(!timed || p99 <= HEALTH_P99_MOST, "the p99 of /health is over {HEALTH_P99_MOST:?}");
}
