use super::*;
use std::sync::atomic::AtomicU32;

fn counts(tasks: usize) -> Vec<AtomicU32> {
    (0..tasks).map(|_| AtomicU32::new(0)).collect()
}

fn all_are(counts: &[AtomicU32], wanted: u32) -> bool {
    counts.iter().all(|c| c.load(Ordering::Relaxed) == wanted)
}

#[test]
fn every_task_runs_once() {
    for threads in [1, 2, 3, 7] {
        let pool = Pool::new(threads);
        assert_eq!(pool.width(), threads);
        for tasks in [0, 1, 2, 3, 10, 1000] {
            let counts = counts(tasks);
            pool.run(tasks, &|i| {
                counts[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(all_are(&counts, 1), "{tasks} tasks on {threads} threads");
        }
    }
}

#[test]
fn many_short_runs_with_and_without_sleep_between() {
    let pool = Pool::new(4);
    let counts = counts(9);
    for round in 0..20_000 {
        if round % 500 == 0 {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        pool.run(9, &|i| {
            counts[i].fetch_add(1, Ordering::Relaxed);
        });
    }
    assert!(all_are(&counts, 20_000));
}

#[test]
fn results_of_tasks_are_visible_after_the_run() {
    let pool = Pool::new(3);
    let cells: Vec<Mutex<usize>> = (0..64).map(|_| Mutex::new(0)).collect();
    for round in 1..500 {
        pool.run(64, &|i| *cells[i].lock().unwrap() += i);
        assert!(cells.iter().enumerate().all(|(i, c)| *c.lock().unwrap() == i * round));
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
    let pool = Pool::new(3);
    for culprit in [0, 5, 99] {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.run(100, &|i| assert!(i != culprit, "task {i} fails"));
        }));
        let message = *caught.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(message, format!("task {culprit} fails"));
        let counts = counts(50);
        pool.run(50, &|i| {
            counts[i].fetch_add(1, Ordering::Relaxed);
        });
        assert!(all_are(&counts, 1));
    }
}

#[test]
fn a_run_inside_a_task_runs_in_place() {
    let pool = Pool::new(3);
    let counts = counts(10 * 10);
    pool.run(10, &|i| {
        let here = std::thread::current().id();
        pool.run(10, &|j| {
            assert_eq!(std::thread::current().id(), here);
            counts[10 * i + j].fetch_add(1, Ordering::Relaxed);
        });
    });
    assert!(all_are(&counts, 1));
}

#[test]
fn several_callers_at_once() {
    let pool = Pool::new(3);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let counts = counts(20);
                    pool.run(20, &|i| {
                        counts[i].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(all_are(&counts, 1));
                }
            });
        }
    });
}

#[test]
fn a_pool_that_sleeps_ends() {
    let pool = Pool::new(5);
    std::thread::sleep(std::time::Duration::from_millis(5));
    drop(pool);
}

#[test]
fn this_process_has_a_cpu() {
    assert!(Pool::default_threads() >= 1);
}
