//! Who chooses the ids of a generation.
#![allow(clippy::unwrap_used)]

use deltafin_engine::{
    Engine, EngineOptions, Finish, Limits, Listener, Progress, generate, most_likely,
};
use deltafin_testkit::{DemoGolden, open};
use std::ops::ControlFlow;

/// Takes the likeliest ids, or from some step on the one after it.
struct Picky {
    second_from: usize,
    asked: usize,
    ids: Vec<u32>,
}

impl Listener for Picky {
    fn prefill(&mut self, _: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn id(&mut self, id: u32) -> ControlFlow<()> {
        self.ids.push(id);
        ControlFlow::Continue(())
    }

    fn choose(&mut self, logits: &[f32]) -> u32 {
        self.asked += 1;
        let first = most_likely(logits).unwrap();
        if self.asked <= self.second_from {
            return first;
        }
        let mut others = logits.to_vec();
        others[first as usize] = f32::NEG_INFINITY;
        most_likely(&others).unwrap()
    }
}

fn run(second_from: usize, stop: &[u32]) -> (Picky, Finish) {
    let engine = Engine::open(open("demo"), EngineOptions::default()).unwrap();
    let prompt = &DemoGolden::load().prompts[0].ids;
    let mut picky = Picky { second_from, asked: 0, ids: Vec::new() };
    let limits = Limits { max_new: Some(6), stop, ignore_stop: false };
    let outcome = generate(&mut engine.session(), prompt, limits, &mut picky).unwrap();
    (picky, outcome.finish)
}

#[test]
fn what_is_chosen_is_told_and_gone_on_from() {
    let (likely, _) = run(usize::MAX, &[]);
    let (other, finish) = run(2, &[]);
    assert_eq!((other.asked, finish), (6, Finish::Length));
    assert_eq!(other.ids[..2], likely.ids[..2]);
    assert_ne!(other.ids[2], likely.ids[2]);
    // A stop id ends it, whoever chose it.
    let (stopped, finish) = run(2, &other.ids[2..3]);
    assert_eq!((finish, stopped.ids.len()), (Finish::Stop(other.ids[2]), 2));
}

/// Takes the likeliest ids, and knows some of them beforehand.
struct Knowing<'a> {
    known: &'a [u32],
    /// How many of them are told at once; from then on none is.
    at_once: usize,
    bits: Vec<Vec<u32>>,
    ids: Vec<u32>,
    leaves_after: usize,
}

impl Listener for Knowing<'_> {
    fn prefill(&mut self, _: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn id(&mut self, id: u32) -> ControlFlow<()> {
        self.ids.push(id);
        if self.ids.len() == self.leaves_after {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn choose(&mut self, logits: &[f32]) -> u32 {
        self.bits.push(logits.iter().map(|logit| logit.to_bits()).collect());
        most_likely(logits).unwrap()
    }

    fn forced(&mut self) -> Vec<u32> {
        let rest = self.known.get(self.ids.len()..).unwrap_or_default();
        rest[..rest.len().min(self.at_once)].to_vec()
    }
}

fn run_knowing<'a>(
    known: &'a [u32],
    at_once: usize,
    leaves_after: usize,
    max_new: usize,
) -> (Knowing<'a>, Finish) {
    let engine = Engine::open(open("demo"), EngineOptions::default()).unwrap();
    let prompt = &DemoGolden::load().prompts[0].ids;
    let (bits, ids) = (Vec::new(), Vec::new());
    let mut knowing = Knowing { known, at_once, bits, ids, leaves_after };
    let limits = Limits { max_new: Some(max_new), stop: &[], ignore_stop: true };
    let outcome = generate(&mut engine.session(), prompt, limits, &mut knowing).unwrap();
    assert_eq!(outcome.stats.new_ids, knowing.ids.len());
    (knowing, outcome.finish)
}

#[test]
fn what_is_known_beforehand_takes_one_pass_and_changes_nothing() {
    let (one_by_one, _) = run_knowing(&[], 0, usize::MAX, 12);
    assert_eq!(one_by_one.bits.len(), 12);
    for at_once in [1, 2, 5] {
        let (knowing, finish) = run_knowing(&one_by_one.ids, at_once, usize::MAX, 12);
        assert_eq!((&knowing.ids, finish), (&one_by_one.ids, Finish::Length));
        // Fewer passes, and after each of them the logits of that place.
        let seen: Vec<_> = one_by_one.bits.iter().step_by(at_once + 1).collect();
        assert!(knowing.bits.iter().collect::<Vec<_>>() == seen, "{at_once}");
    }
    // Who leaves in the middle of what is known hears no more of it, and so it is at the limit.
    let (left, finish) = run_knowing(&one_by_one.ids, 5, 3, 12);
    assert_eq!((&left.ids[..], finish), (&one_by_one.ids[..3], Finish::Cancelled));
    let (cut, finish) = run_knowing(&one_by_one.ids, 5, usize::MAX, 4);
    assert_eq!((&cut.ids[..], finish), (&one_by_one.ids[..4], Finish::Length));
}
