//! Everything that can be wrong between the parts of a checkpoint.

use std::fmt;

use deltafin_spec::{Dtype, Shape};
use thiserror::Error;

use crate::HeaderError;

/// A reason to refuse a checkpoint whose parts parse one by one, or whose shard does not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum Problem {
    #[error("{shard}: {error}; this is no whole shard of a released K3, fetch it again")]
    Header { shard: String, error: HeaderError },
    #[error("tensor {tensor} is in no shard; the checkpoint is not whole, fetch it again")]
    Missing { tensor: String },
    #[error(
        "tensor {tensor} is in both {first} and {second}; the shards are of different checkpoints, \
         fetch one into an empty folder"
    )]
    Duplicate { tensor: String, first: String, second: String },
    #[error(
        "{shard}: tensor {tensor} has dtype {found}, wanted {wanted}; this is not the released \
         layout of K3, fetch the released shard"
    )]
    Dtype { shard: String, tensor: String, wanted: Dtype, found: Dtype },
    #[error(
        "{shard}: tensor {tensor} has shape {found}, wanted {wanted} by config.json; one of them \
         is from another checkpoint, fetch config.json again, then the shard"
    )]
    Shape { shard: String, tensor: String, wanted: Shape, found: Shape },
    #[error(
        "{shard}: tensor {tensor} belongs to no part of this architecture; the engine would \
         not use it and the text would be wrong, fetch the released shard"
    )]
    Unknown { shard: String, tensor: String },
    #[error(
        "{shard}: tensor {tensor} lacks the prefix `language_model.`, which the released \
         checkpoint has and this engine wants; fetch the released shard"
    )]
    Prefix { shard: String, tensor: String },
    #[error(
        "the index says tensor {tensor} is in {shard}, whose header does not list it; one of them \
         is from another checkpoint, fetch the index again, then the shard"
    )]
    NotInShard { tensor: String, shard: String },
    #[error(
        "{shard}: tensor {tensor} is not in the index; one of them is from another checkpoint, \
         fetch the index again, then the shard"
    )]
    NotInIndex { tensor: String, shard: String },
    #[error("the index names {shard}, which was not opened; fetch it")]
    NoShard { shard: String },
    #[error(
        "the index counts {wanted} bytes of tensors, the shards hold {found}; the index is from \
         another checkpoint, fetch it again"
    )]
    TotalSize { wanted: u64, found: u64 },
}

impl Problem {
    /// Whether it is about one tensor, so that many more like it may come from one cause.
    pub fn is_of_a_tensor(&self) -> bool {
        !matches!(
            self,
            Problem::Header { .. } | Problem::NoShard { .. } | Problem::TotalSize { .. }
        )
    }
}

/// The reasons to refuse a checkpoint, the first one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    list: Vec<Problem>,
    unlisted: u64,
}

/// As many problems as are worth listing one by one; the rest are counted.
const LISTED: usize = 10_000;

impl Problems {
    pub(crate) fn none() -> Problems {
        Problems { list: Vec::new(), unlisted: 0 }
    }

    pub(crate) fn push(&mut self, problem: Problem) {
        if self.list.len() < LISTED { self.list.push(problem) } else { self.unlisted += 1 }
    }

    pub(crate) fn skip(&mut self, count: u64) {
        self.unlisted += count;
    }

    pub(crate) fn room(&self) -> usize {
        LISTED - self.list.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.unlisted == 0
    }

    /// The problems, at most 10,000 of them.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }

    /// How many there are beyond those that [`Problems::iter`] gives.
    pub fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// How many there are, listed or not.
    pub fn count(&self) -> u64 {
        self.list.len() as u64 + self.unlisted
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

/// The first problem, and how many more there are.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.list.first() {
            first.fmt(f)?;
        }
        match self.count() {
            0 | 1 => Ok(()),
            count => write!(f, " (and {} more; `deltafin inspect` lists them)", count - 1),
        }
    }
}

impl std::error::Error for Problems {}
