//! What this process reads, or is about to.

use std::ops::Range;
use std::sync::Arc;

use super::cache::Place;
use super::claim::Claim;
use super::shelf::Shelf;

/// Pieces that this process does not take away, until dropped.
pub(super) struct Held {
    parts: Vec<(Arc<Shelf>, Range<usize>)>,
    /// Of those that no other process takes away either.
    pub(super) claims: Vec<Claim>,
}

impl Held {
    /// Holds these pieces from now on, which is this time, here or not.
    pub(super) fn of(parts: Vec<(Arc<Shelf>, Range<usize>)>, time: u64) -> Held {
        parts.iter().for_each(|(shelf, numbers)| shelf.begin_reading(numbers.clone(), time));
        Held { parts, claims: Vec::new() }
    }

    /// A number that stays the same as long as all of them stay here; nothing where one is not.
    pub(super) fn mark(&self) -> Option<u64> {
        let turns = |(shelf, number): Place| {
            let turns = shelf.turns(number);
            (turns % 2 == 1).then_some(turns)
        };
        self.places().map(turns).sum()
    }

    /// Those that are not here.
    pub(super) fn missing(&self) -> Vec<Place> {
        self.places().filter(|(shelf, number)| !shelf.is_here(*number)).collect()
    }

    fn places(&self) -> impl Iterator<Item = Place> + '_ {
        let of = |(shelf, numbers): &(Arc<Shelf>, Range<usize>)| {
            let shelf = Arc::clone(shelf);
            numbers.clone().map(move |number| (Arc::clone(&shelf), number))
        };
        self.parts.iter().flat_map(of)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.parts.iter().for_each(|(shelf, numbers)| shelf.end_reading(numbers.clone()));
    }
}
