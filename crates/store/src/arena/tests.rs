//! The arena against a naive allocator.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// One bit a page; finds the lowest run by looking.
struct Naive(Vec<bool>);

impl Naive {
    fn take(&mut self, pages: usize) -> Option<usize> {
        let at = self.0.windows(pages).position(|run| run.iter().all(|taken| !taken))?;
        self.0[at..at + pages].fill(true);
        Some(at)
    }
}

#[derive(Clone, Debug)]
enum Act {
    Take(usize),
    Drop(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => (0usize..400_000).prop_map(Act::Take),
        2 => (0usize..1000).prop_map(Act::Drop),
    ];
    proptest::collection::vec(act, 1..120)
}

fn page_of(slab: &Slab, arena: &Arena) -> usize {
    (slab.bytes().as_ptr() as usize - arena.map.at(0).as_ptr() as usize) / PAGE_BYTES
}

proptest! {
    /// Same places as the naive allocator: no overlap, lowest first, neighbours joined again.
    /// Each slab keeps the mark that was written all over it.
    #[test]
    fn slabs_are_where_a_naive_allocator_puts_them(acts in acts()) {
        let arena = Arena::new(1 << 21).unwrap();
        let mut naive = Naive(vec![false; (1 << 21) / PAGE_BYTES]);
        let mut held: Vec<(Slab, u8)> = Vec::new();
        for (mark, act) in acts.into_iter().enumerate() {
            match act {
                Act::Take(len) => {
                    let slab = arena.take(len);
                    let wanted = naive.take(len.max(1).div_ceil(PAGE_BYTES));
                    prop_assert_eq!(slab.as_ref().map(|slab| page_of(slab, &arena)), wanted);
                    if let Some(mut slab) = slab {
                        prop_assert!(slab.len() >= len && slab.len().is_multiple_of(PAGE_BYTES));
                        slab.bytes_mut().fill(mark as u8);
                        held.push((slab, mark as u8));
                    }
                }
                Act::Drop(which) if !held.is_empty() => {
                    let (slab, mark) = held.swap_remove(which % held.len());
                    prop_assert!(slab.bytes().iter().all(|byte| *byte == mark));
                    let page = page_of(&slab, &arena);
                    naive.0[page..page + slab.len() / PAGE_BYTES].fill(false);
                }
                Act::Drop(_) => {}
            }
            let free = naive.0.iter().filter(|taken| !**taken).count() * PAGE_BYTES;
            prop_assert_eq!(arena.free_bytes(), free);
        }
        drop(held);
        prop_assert_eq!(arena.free_bytes(), arena.len());
        prop_assert!(arena.take(arena.len()).is_some());
    }
}

#[test]
fn regions_begin_at_a_huge_page_and_slabs_at_a_page() {
    let arena = Arena::new(3).unwrap();
    assert_eq!(arena.len(), HUGE_PAGE_BYTES);
    let (first, second) = (arena.take(1).unwrap(), arena.take(5000).unwrap());
    assert_eq!(first.bytes().as_ptr() as usize % HUGE_PAGE_BYTES, 0);
    assert_eq!(second.bytes().as_ptr() as usize % PAGE_BYTES, 0);
    assert_eq!((first.len(), second.len()), (4096, 8192));
}

#[test]
fn what_cannot_be_had_is_an_error_with_the_size() {
    let huge_mib = HUGE_PAGE_BYTES >> 20;
    for (wanted, mib) in [(usize::MAX, 1 << 44), (usize::MAX / 4, (1 << 42) + huge_mib)] {
        let error = Arena::new(wanted).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("the system refuses {mib} MiB of addresses")),
            "{error}"
        );
    }
    let arena = Arena::new(1).unwrap();
    assert!(arena.take(HUGE_PAGE_BYTES + 1).is_none());
    assert!(arena.take(usize::MAX).is_none());
}

/// A terabyte costs nothing until it is written to.
#[test]
fn pages_that_are_not_used_cost_nothing() {
    let arena = Arena::new(1 << 40).unwrap();
    let mut slab = arena.take(1 << 39).unwrap();
    slab.bytes_mut()[(1 << 39) - 1] = 7;
    assert_eq!(slab.bytes()[(1 << 39) - 1], 7);
}

#[test]
fn what_is_given_back_to_the_system_is_zero_and_what_is_held_stays() {
    let arena = Arena::new(4 * HUGE_PAGE_BYTES).unwrap();
    let fill = |len: usize| {
        let mut slab = arena.take(len).unwrap();
        slab.bytes_mut().fill(9);
        slab
    };
    let (held, dropped) = (fill(HUGE_PAGE_BYTES + 1), fill(2 * HUGE_PAGE_BYTES));
    drop(dropped);
    arena.pin();
    arena.release_free();
    let again = arena.take(2 * HUGE_PAGE_BYTES).unwrap();
    assert!(again.bytes().iter().all(|byte| *byte == 9), "pinned pages stay");
    drop(again);
    arena.unpin();
    arena.release_free();
    assert!(held.bytes().iter().all(|byte| *byte == 9));
    let again = arena.take(2 * HUGE_PAGE_BYTES).unwrap();
    #[cfg(target_os = "linux")]
    assert_eq!(again.bytes()[HUGE_PAGE_BYTES], 0);
    assert_eq!(again.bytes()[0], 9, "a huge page that is held in part stays");
}

#[test]
fn a_slab_is_whole_again_when_all_parts_are_back() {
    let arena = Arena::new(1).unwrap();
    let mut cut = Cut::new(arena.take(8192).unwrap());
    let (mut one, mut two) = (cut.lend(5000), cut.lend(3192));
    one.bytes_mut().fill(1);
    two.bytes_mut().fill(2);
    cut.back(two);
    assert_eq!(cut.out(), 1);
    cut.back(one);
    let slab = cut.whole();
    assert_eq!((slab.bytes()[4999], slab.bytes()[5000]), (1, 2));
    assert!(std::panic::catch_unwind(|| Cut::new(slab).lend(8193)).is_err());
}

/// Somebody may still write into a part that is out, so its slab is lost rather than reused.
#[test]
fn a_slab_with_parts_out_is_never_given_to_another() {
    let arena = Arena::new(1).unwrap();
    let mut cut = Cut::new(arena.take(8192).unwrap());
    let part = cut.lend(10);
    drop(cut);
    assert_eq!(arena.free_bytes(), arena.len() - 8192);
    let mut other = Cut::new(arena.take(4096).unwrap());
    let alien = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| other.back(part)));
    assert!(alien.is_err());
}

#[test]
fn many_threads_may_take_and_return() {
    let arena = Arena::new(1 << 21).unwrap();
    std::thread::scope(|scope| {
        for mark in 0..8u8 {
            let arena: &Arc<Arena> = &arena;
            scope.spawn(move || {
                for turn in 0..200 {
                    let mut slab = arena.take(4096 * (1 + turn % 7)).unwrap();
                    slab.bytes_mut().fill(mark);
                    assert!(slab.bytes().iter().all(|byte| *byte == mark));
                }
            });
        }
    });
    assert_eq!(arena.free_bytes(), arena.len());
}

#[test]
fn what_is_taken_beside_something_leaves_it_a_run() {
    let arena = Arena::new(HUGE_PAGE_BYTES).unwrap();
    let third = HUGE_PAGE_BYTES / 3 / PAGE_BYTES * PAGE_BYTES;
    let low = arena.take(third).unwrap();
    assert!(arena.take_beside(third, 2 * third).is_none(), "in the middle");
    let middle = arena.take_beside(third, third).unwrap();
    drop(low);
    assert!(arena.take_beside(third, 2 * third).is_some(), "at the beginning");
    drop(middle);
    assert!(arena.take_beside(HUGE_PAGE_BYTES, 1).is_none());
    assert_eq!(arena.free_bytes(), HUGE_PAGE_BYTES);
}
