//! What is here of more than a limit that was lowered since goes before anything else comes.

use std::io;
use std::sync::Arc;

use deltafin_store::drive::Traffic;

use super::super::shelf::Shelf;
use super::Cache;
use super::evict::{Candidate, is_full};

/// Experts of a shard that go together: each time costs a sync of its map, and a file that is open for each.
const AT_ONCE: usize = 64;

impl Cache {
    /// Takes the coldest experts away that are more than the limit allows; gives what went. What other processes have
    /// in hand stays until somebody makes room again.
    pub(in crate::streamed) fn trim(&self) -> io::Result<Traffic> {
        let Some(limit) = self.limit else { return Ok(Traffic::default()) };
        let before = self.evicted();
        let _turn = self.turn()?;
        match self.stacks.is_empty() {
            true => self.shed(limit)?,
            false => drop(self.fit(limit)?),
        }
        let after = self.evicted();
        let (reads, bytes) = (after.reads - before.reads, after.bytes - before.bytes);
        Ok(Traffic { reads, bytes })
    }

    fn shed(&self, limit: u64) -> io::Result<()> {
        let over = self.count()?.saturating_sub(limit);
        if over == 0 {
            return Ok(());
        }
        for (shelf, going) in self.coldest(over) {
            for few in going.chunks(AT_ONCE) {
                match self.take_away(&shelf, few) {
                    Err(error) if is_full(&error) => {}
                    taken => drop(taken?),
                }
            }
        }
        // What could not go had its reasons; the next coldest may have none.
        let left = self.count()?.saturating_sub(limit);
        self.evict(left).map(|_| ())
    }

    /// The coldest experts that take so many bytes together, shard by shard.
    fn coldest(&self, bytes: u64) -> Vec<(Arc<Shelf>, Vec<Vec<usize>>)> {
        let mut of_shelves: Vec<_> =
            self.shelves.iter().map(|shelf| (Arc::clone(shelf), Vec::new())).collect();
        let mut left = bytes;
        for Candidate { shelf, numbers, .. } in self.candidates() {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(self.charges(&shelf, &numbers));
            let of_shelf = of_shelves.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &shelf));
            of_shelf.into_iter().for_each(|(_, going)| going.push(numbers.clone()));
        }
        of_shelves.retain(|(_, going)| !going.is_empty());
        of_shelves
    }
}
