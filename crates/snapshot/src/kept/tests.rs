use super::*;
use crate::page::PAGE_POSITIONS;
use deltafin_checkpoint::Config;
use deltafin_spec::ModelSpec;
use proptest::prelude::*;
use std::collections::HashMap;
use std::convert::Infallible;

const CONFIG: &[u8] = include_bytes!("../../../testkit/fixtures/k3-micro/config.json");
const CAPACITY: usize = 300;

fn spec() -> ModelSpec {
    Config::parse(CONFIG).unwrap().spec
}

/// A value for what precedes a position: no two prefixes agree.
fn mix(seed: u64, id: u32) -> u64 {
    (seed ^ u64::from(id).wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

/// The state after some ids, as a model that does nothing but tell prefixes apart would leave it.
fn state_of(spec: &ModelSpec, ids: &[u32]) -> State {
    let mut state = State::new(spec, CAPACITY);
    let row_len = Shape::of(spec).row;
    let mut seed = 7;
    for (position, id) in ids.iter().enumerate() {
        seed = mix(seed, *id);
        let row: Vec<f32> = (0..row_len).map(|at| (seed % 1000) as f32 + at as f32).collect();
        state.write_latent(position, &row);
    }
    let Ok(()) = state.resume_with(ids.len(), &mut |part| {
        part.fill((seed % 997) as f32);
        Ok::<(), Infallible>(())
    });
    state
}

fn assert_same(a: &State, b: &State, row_len: usize) {
    assert_eq!(a.len(), b.len());
    assert!(a.recurrent() == b.recurrent());
    let rows = |state: &State| {
        let mut rows = vec![0.0; state.len() * row_len];
        state.read_latent(0..state.len(), &mut rows);
        rows
    };
    assert!(rows(a) == rows(b));
}

/// What is kept, counted anew.
fn recount(kept: &Kept) -> u64 {
    let mut pages = HashMap::new();
    for snapshot in &kept.snapshots {
        pages.extend(snapshot.pages.iter().map(|page| (Arc::as_ptr(page), page.bytes())));
    }
    pages.values().sum::<u64>() + kept.snapshots.len() as u64 * kept.shape.recurrent_bytes()
}

/// Three conversations that part early or late.
fn talk(which: usize, len: usize) -> Vec<u32> {
    let parts = [0, 40, 130][which];
    (0..len).map(|at| (at % 50) as u32 + if at >= parts { which as u32 * 50 } else { 0 }).collect()
}

#[test]
fn snapshots_of_one_conversation_share_their_pages() {
    let spec = spec();
    let shape = Shape::of(&spec);
    let ids = talk(0, 200);
    let state = state_of(&spec, &ids);
    let mut kept = Kept::new(shape, u64::MAX);
    kept.keep_current(&ids, &state).unwrap();
    let alone = kept.used;
    let shorter = &ids[..130];
    kept.keep_current(shorter, &state_of(&spec, shorter)).unwrap();
    // Two whole pages are shared, and two positions are its own.
    let own = Snapshot::new_page_bytes(130, 2, shape.row);
    assert!(own < alone / 4);
    assert_eq!(kept.used, alone + own + shape.recurrent_bytes());
    assert_eq!(kept.used, recount(&kept));
}

#[test]
fn the_longest_that_leaves_something_is_found_and_least_recently_used_ones_go() {
    let spec = spec();
    let ids = talk(0, 200);
    let shape = Shape::of(&spec);
    let mut kept = Kept::new(shape, 0);
    assert!(kept.keep_current(&ids, &state_of(&spec, &ids)).is_none());
    let one = Snapshot::new_page_bytes(64, 0, shape.row) + shape.recurrent_bytes();
    kept.budget = 3 * one;
    let talks: Vec<Vec<u32>> = (0..4).map(|which| vec![which; 65]).collect();
    let keep = |kept: &mut Kept, which: usize| {
        let ids = &talks[which][..64];
        kept.keep_current(ids, &state_of(&spec, ids)).unwrap();
    };
    (0..3).for_each(|which| keep(&mut kept, which));
    assert!(kept.longest(&talks[0][..64]).is_none(), "nothing would be left");
    assert_eq!(kept.longest(&talks[0]).unwrap().len(), 64);
    keep(&mut kept, 3);
    let mut is_there = |which: usize| kept.longest(&talks[which]).is_some();
    assert_eq!([0, 1, 2, 3].map(&mut is_there), [true, false, true, true], "used least recently");
}

#[test]
fn one_that_is_held_does_not_go() {
    let spec = spec();
    let shape = Shape::of(&spec);
    let one = Snapshot::new_page_bytes(64, 0, shape.row) + shape.recurrent_bytes();
    let mut kept = Kept::new(shape, one);
    let (ids, other) = (talk(0, 64), vec![99; 64]);
    let held = kept.keep_current(&ids, &state_of(&spec, &ids)).unwrap();
    assert!(kept.keep_current(&other, &state_of(&spec, &other)).is_none());
    drop(held);
    assert!(kept.keep_current(&other, &state_of(&spec, &other)).is_some());
    assert_eq!(kept.used, one);
}

/// What a test does to what is kept.
#[derive(Clone, Debug)]
enum Act {
    Keep(usize, usize),
    KeepReserved(usize, usize),
    Reserve(usize),
    Release,
    Resume(usize, usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let place = || (0usize..3, 1usize..CAPACITY);
    let act = prop_oneof![
        4 => place().prop_map(|(talk, len)| Act::Keep(talk, len)),
        2 => place().prop_map(|(talk, len)| Act::KeepReserved(talk, len)),
        1 => (0usize..4).prop_map(Act::Reserve),
        1 => Just(Act::Release),
        4 => place().prop_map(|(talk, len)| Act::Resume(talk, len)),
    ];
    prop::collection::vec(act, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is done: the budget holds, the count is right, and whoever goes on does so from the very
    /// state that its ids lead to.
    #[test]
    fn budgets_hold_and_states_are_those_of_their_ids(acts in acts(), budget in 1u64..9) {
        let spec = spec();
        let shape = Shape::of(&spec);
        let one = Snapshot::new_page_bytes(2 * PAGE_POSITIONS, 0, shape.row) + shape.recurrent_bytes();
        let mut kept = Kept::new(shape, budget * one / 2);
        let (mut reserved, mut live) = (0, state_of(&spec, &[]));
        let mut live_ids = Vec::new();
        for act in acts {
            match act {
                Act::Keep(which, len) => {
                    let ids = talk(which, len);
                    if kept.of(&ids).is_none() {
                        kept.keep_current(&ids, &state_of(&spec, &ids));
                    }
                }
                Act::KeepReserved(which, len) if reserved > 0 => {
                    let ids = talk(which, len);
                    let state = state_of(&spec, &ids);
                    reserved -= 1;
                    kept.keep_reserved(&ids, &state, state.recurrent());
                }
                Act::Reserve(wanted) => reserved += kept.reserve(wanted),
                Act::Release => {
                    kept.release(reserved);
                    reserved = 0;
                }
                Act::Resume(which, len) => {
                    let ids = talk(which, len);
                    let Some(snapshot) = kept.longest(&ids) else { continue };
                    let same = |(a, b): &(&u32, &u32)| a == b;
                    let right = ids.iter().zip(&live_ids).take_while(same).count();
                    snapshot.restore(right, &mut live);
                    live_ids = ids[..snapshot.len()].to_vec();
                    assert_same(&live, &state_of(&spec, &live_ids), shape.row);
                }
                Act::KeepReserved(..) => {}
            }
            prop_assert_eq!(kept.used, recount(&kept));
            prop_assert_eq!(kept.reserved, reserved as u64 * shape.recurrent_bytes());
            prop_assert!(kept.used + kept.reserved <= kept.budget);
        }
    }
}
