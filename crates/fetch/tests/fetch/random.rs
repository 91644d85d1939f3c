//! Plans of faults drawn from seeds.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use deltafin_fetch::FetchError;
use deltafin_testkit::hub::Missteps;

use crate::support::{HASTY, IMPATIENT, assert_nothing_wrong, assert_whole, hub, run};

/// The source is as it should be in the end, or what is missing is named, and comes the next time.
fn round(seed: u64) {
    let (hub, dir) = (hub(Missteps::drawn(seed)), tempfile::tempdir().unwrap());
    let patience = if seed.is_multiple_of(3) { HASTY } else { IMPATIENT };
    match run(&hub, dir.path(), patience) {
        Ok(_) => assert_whole(dir.path()),
        Err(error) => {
            assert!(matches!(error, FetchError::Incomplete { .. }), "{error}");
            assert_nothing_wrong(dir.path());
            hub.misstep(Missteps::none());
            run(&hub, dir.path(), IMPATIENT).unwrap();
            assert_whole(dir.path());
        }
    }
}

#[test]
fn any_plan_of_faults_ends_in_the_same_files_or_in_a_list() {
    const ROUNDS: u64 = 200;
    let asked = std::env::var("DELTAFIN_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = asked.map_or(0..ROUNDS, |seed: u64| seed..seed + 1);
    let next = AtomicU64::new(seeds.start);
    let rounds = || {
        loop {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if !seeds.contains(&seed) {
                return;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| round(seed))) {
                eprintln!("the plan with DELTAFIN_SEED={seed} fails");
                resume_unwind(panic);
            }
        }
    };
    // A round is mostly waiting.
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(rounds);
        }
    });
}
