//! Tasks that write different parts of one buffer at the same time.
#![allow(unsafe_code)]

use crate::Parallel;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A buffer of which tasks take parts that do not overlap.
pub(crate) struct Disjoint<'a> {
    start: *mut f32,
    len: usize,
    buffer: PhantomData<&'a mut [f32]>,
}

// SAFETY: a `Disjoint` only gives out parts, and whoever takes one vouches that it is taken alone.
unsafe impl Sync for Disjoint<'_> {}

impl<'a> Disjoint<'a> {
    pub(crate) fn new(buffer: &'a mut [f32]) -> Self {
        Disjoint { start: buffer.as_mut_ptr(), len: buffer.len(), buffer: PhantomData }
    }

    /// The elements `range`, to write.
    ///
    /// # Safety
    ///
    /// While the part lives no other part that overlaps it may live.
    #[allow(clippy::mut_from_ref)] // The caller's promise stands in for the borrow.
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [f32] {
        assert!(range.start <= range.end && range.end <= self.len, "part outside the buffer");
        // SAFETY: inside the buffer, which is borrowed mutably for `'a`; alone by the caller's word.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// The elements `range`, to read.
    ///
    /// # Safety
    ///
    /// While the part lives no part that [`part`](Self::part) gave and that overlaps it may live.
    pub(crate) unsafe fn read(&self, range: Range<usize>) -> &[f32] {
        assert!(range.start <= range.end && range.end <= self.len, "part outside the buffer");
        // SAFETY: as in `part`, and nobody writes by the caller's word.
        unsafe { std::slice::from_raw_parts(self.start.add(range.start), range.len()) }
    }
}

/// Runs `task(i)` for `i` in `0..tasks`, none of them twice whatever the pool does, so that unsafe code
/// may rely on the part of a buffer that belongs to `i` being taken once: each call takes the next
/// number, and the pool's own is not asked for.
pub(crate) fn run_once(pool: &dyn Parallel, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    if tasks == 1 {
        return task(0);
    }
    let next = AtomicUsize::new(0);
    pool.run(tasks, &|_| {
        let i = next.fetch_add(1, Ordering::Relaxed);
        assert!(i < tasks, "the pool ran more than {tasks} tasks");
        task(i);
    });
}

/// Cuts `buffer` every `chunk` elements and runs `task(i, chunk i)` for all of them.
pub(crate) fn run_chunks(
    pool: &dyn Parallel,
    buffer: &mut [f32],
    chunk: usize,
    task: &(dyn Fn(usize, &mut [f32]) + Sync),
) {
    let len = buffer.len();
    let parts = Disjoint::new(buffer);
    run_once(pool, len.div_ceil(chunk), &|i| {
        let range = i * chunk..len.min((i + 1) * chunk);
        // SAFETY: chunks of different tasks do not overlap and no task runs twice.
        task(i, unsafe { parts.part(range) });
    });
}

/// How many of `units` a task should take: few tasks per thread, but each worth waking a thread for.
///
/// `cost` is about how many fused multiply-adds of sixteen lanes, or loads, a unit takes.
pub(crate) fn units_per_task(pool: &dyn Parallel, units: usize, cost: usize) -> usize {
    /// A few microseconds of work.
    const WORTH_A_TASK: usize = 16_384;
    /// More tasks than threads, so that a thread that is late holds up less.
    const TASKS_PER_THREAD: usize = 4;
    let fair = units.div_ceil(pool.width() * TASKS_PER_THREAD);
    let worth = WORTH_A_TASK.div_ceil(cost.max(1));
    fair.max(worth).clamp(1, units.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    struct Twice;

    impl Parallel for Twice {
        fn width(&self) -> usize {
            2
        }

        fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
            (0..tasks).chain(0..tasks).for_each(task);
        }
    }

    #[test]
    fn chunks_cover_the_buffer_once() {
        for len in 0..20 {
            for chunk in 1..22 {
                let mut buffer = vec![0.0; len];
                run_chunks(&Serial, &mut buffer, chunk, &|i, part| {
                    for (j, x) in part.iter_mut().enumerate() {
                        *x += (i * chunk + j) as f32;
                    }
                });
                assert!(buffer.iter().enumerate().all(|(i, x)| *x == i as f32));
            }
        }
    }

    #[test]
    #[should_panic(expected = "the pool ran more than 2 tasks")]
    fn a_pool_that_repeats_itself_is_stopped() {
        run_chunks(&Twice, &mut [0.0; 4], 2, &|_, _| ());
    }

    #[test]
    #[should_panic(expected = "part outside the buffer")]
    fn parts_stay_inside_the_buffer() {
        let mut buffer = [0.0; 4];
        // SAFETY: the only part.
        unsafe { Disjoint::new(&mut buffer).part(2..5) };
    }

    #[test]
    fn tasks_are_few_and_each_worth_it() {
        assert_eq!(units_per_task(&Serial, 0, 0), 1);
        assert_eq!(units_per_task(&Serial, 100, 1), 100);
        assert_eq!(units_per_task(&Twice, 96, 1 << 20), 12);
    }
}
