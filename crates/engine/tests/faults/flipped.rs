//! Bits that change on their way, which nobody tells of. Where somebody noted what bytes should be, the text is the same
//! or there is an error. Where nobody did, what was read first counts: that is all that can be known of it.

use super::{Patient, each, engine, healthy_text, layouts, same_text_or_error, text, watched};
use deltafin_engine::{EngineError, IoMode, Recipe};
use deltafin_store::Checkpoint;
use deltafin_testkit::{Fault, FaultyStore, Hits, NotedStore, open, open_as};
use std::ops::Range;
use std::sync::Arc;

/// What is not the same text has to say this.
const SAYS: &str = "not what was written";

/// Lengths of pieces that cut tensors, and that have all between two experts.
const PIECES: [u64; 2] = [1000, u64::MAX];

/// The released checkpoint, of whose bytes somebody noted what they should be.
fn noted(bytes: u64) -> Checkpoint {
    let mut checkpoint = open("k3-micro");
    let inner = Arc::clone(&checkpoint.store);
    checkpoint.store = Arc::new(NotedStore::new(inner, &checkpoint.catalog, bytes));
    checkpoint
}

fn same_text_or_damage(fault: Fault, hits: Hits, patient: &Patient) {
    same_text_or_error(fault, hits, patient);
    if hits.every == 1 {
        let message = patient.suffer().unwrap_err().to_string();
        assert!(message.contains(SAYS), "{message}");
    }
}

fn same_text(_: Fault, hits: Hits, patient: &Patient) {
    let got = healthy_text(&patient.checkpoint, &patient.layout);
    assert!(got == patient.wanted, "another text");
    assert!(patient.store.struck() > 0 || hits.every > 1, "nothing was tested");
}

#[test]
fn a_flipped_bit_of_a_noted_weight_is_an_error_that_names_it() {
    for bytes in PIECES {
        each(noted(bytes), 0..usize::MAX, &[Fault::FlippedBit], same_text_or_damage);
    }
}

#[test]
fn a_bit_of_a_noted_weight_that_is_flipped_once_is_read_again() {
    for bytes in PIECES {
        each(noted(bytes), 0..usize::MAX, &[Fault::FlippedOnce], same_text);
    }
}

/// Reads after the first of each record, whatever is noted: in the released shards, and in a pack.
#[test]
fn a_bit_that_flips_later_is_found_by_what_was_read_before() {
    watched(|at| {
        for checkpoint in [open("k3-micro"), noted(1000), open_as("k3-micro", Recipe::Int8)] {
            for layout in layouts(&checkpoint) {
                for (fault, every) in [
                    (Fault::FlippedBit, 1),
                    (Fault::FlippedBit, 5),
                    (Fault::FlippedOnce, 1),
                    (Fault::FlippedOnce, 3),
                ] {
                    at(format!("{fault:?} {every} {layout:?}"));
                    let inner = Arc::clone(&checkpoint.store);
                    let store = Arc::new(FaultyStore::new(inner, fault, Hits { seed: 5, every }));
                    store.heal();
                    let mut checkpoint = checkpoint.clone();
                    checkpoint.store = Arc::clone(&store) as _;
                    let engine = engine(checkpoint, &layout, IoMode::Auto).unwrap();
                    let mut session = engine.session();
                    let wanted = text(&mut session).unwrap();
                    store.fall_ill();
                    match text(&mut session) {
                        Ok(got) => assert!(got == wanted, "another text"),
                        Err(error) => {
                            assert_eq!(fault, Fault::FlippedBit, "{error}");
                            assert!(error.to_string().contains(SAYS), "{error}");
                        }
                    }
                    // Rows of the embedding are read for every token.
                    assert!(store.struck() > 0, "nothing was tested");
                    store.heal();
                    assert!(text(&mut session).unwrap() == wanted, "another text after it");
                }
            }
        }
    });
}

/// What says that a released bit is another where nothing is noted: only a number that is not finite, or a later read
/// of the same bytes. It goes no further than the bytes it is in: what is read again is right again.
#[test]
fn a_flipped_bit_of_which_nothing_is_noted_stays_where_it_is() {
    each(open("k3-micro"), 0..usize::MAX, &[Fault::FlippedBit], |_, hits, patient| {
        let (checkpoint, layout) = (patient.checkpoint.clone(), &patient.layout);
        patient.store.fall_ill();
        let engine = engine(checkpoint.clone(), layout, IoMode::Auto).unwrap();
        let outcome: Result<_, EngineError> = text(&mut engine.session());
        if let Err(error) = &outcome {
            assert!(error.to_string().contains("not finite"), "{error}");
        }
        let same = outcome.is_ok_and(|got| got == patient.wanted);
        assert!(!same || hits.every > 1, "no flip was where weights are");
        patient.store.heal();
        assert!(healthy_text(&checkpoint, layout) == patient.wanted, "a flip outlived its engine");
    });
}

/// A pack's shards follow those of the checkpoint.
fn pack(recipe: Recipe) -> (Checkpoint, Range<usize>) {
    let released = open("k3-micro").store.shards().len();
    (open_as("k3-micro", recipe), released..usize::MAX)
}

#[test]
fn a_flipped_bit_of_a_pack_is_an_error_that_names_it() {
    for recipe in [Recipe::Bf16, Recipe::Int8] {
        let (checkpoint, shards) = pack(recipe);
        each(checkpoint, shards, &[Fault::FlippedBit], same_text_or_damage);
    }
}

#[test]
fn a_bit_of_a_pack_that_is_flipped_once_is_read_again() {
    for recipe in [Recipe::Bf16, Recipe::Int8] {
        let (checkpoint, shards) = pack(recipe);
        each(checkpoint, shards, &[Fault::FlippedOnce], same_text);
    }
}
