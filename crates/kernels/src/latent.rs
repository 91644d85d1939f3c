//! The shape of latent attention: one narrow vector per position stands for the keys and values of
//! every head.

/// Dimensions of multi-head latent attention.
///
/// The matrix `kv_b` that expands a latent vector has `heads * (nope + v)` rows of `latent` columns:
/// per head first the `nope` rows of its keys, then the `v` rows of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatentDims {
    /// Attention heads.
    pub heads: usize,
    /// Width of a head's key without position.
    pub nope: usize,
    /// Width of the rotary part of a key, shared by all heads.
    pub rope: usize,
    /// Width of a head's value.
    pub v: usize,
    /// Width of the latent vector.
    pub latent: usize,
}

impl LatentDims {
    /// Rows of `kv_b`.
    pub fn kv_b_rows(&self) -> usize {
        self.heads * (self.nope + self.v)
    }

    /// First row of the keys of head `h` in `kv_b`.
    pub fn key_row(&self, h: usize) -> usize {
        h * (self.nope + self.v)
    }

    /// First row of the values of head `h` in `kv_b`.
    pub fn value_row(&self, h: usize) -> usize {
        self.key_row(h) + self.nope
    }

    /// Width of one head's query.
    pub fn query(&self) -> usize {
        self.nope + self.rope
    }
}
