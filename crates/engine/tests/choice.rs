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
