//! Rows of the latent cache, out and in.
//!
//! A row is one position of all MLA layers: layer by layer, the latent, then the rope part.

use super::{LatentCache, LayerState, State};
use deltafin_spec::ModelSpec;
use std::ops::Range;

impl State {
    /// Values of a row, for this model.
    pub fn latent_row_len(spec: &ModelSpec) -> usize {
        spec.mla_cache_values() as usize
    }

    /// Copies the rows of these positions, all of them before [`State::len`], to `out`.
    pub fn read_latent(&self, positions: Range<usize>, out: &mut [f32]) {
        assert!(positions.end <= self.len, "rows that were never written");
        let row_len = out.len().checked_div(positions.len()).unwrap_or(0).max(1);
        let mut at = 0;
        for cache in self.layers.iter().filter_map(cache_of) {
            for part in cache.parts(self.capacity) {
                let rows = part.values.chunks_exact(part.width.max(1)).skip(positions.start);
                for (row, out) in rows.zip(out.chunks_exact_mut(row_len)) {
                    out[at..at + part.width].copy_from_slice(row);
                }
                at += part.width;
            }
        }
        assert_eq!(at * positions.len(), out.len(), "a row of another length");
    }

    /// Writes whole rows from position `first` on. They count from [`State::resume`] on.
    pub fn write_latent(&mut self, first: usize, rows: &[f32]) {
        let capacity = self.capacity;
        let row_len: usize = self
            .layers
            .iter()
            .filter_map(cache_of)
            .flat_map(|cache| cache.parts(capacity))
            .map(|part| part.width)
            .sum();
        assert!(rows.len().is_multiple_of(row_len.max(1)), "a row of another length");
        let mut at = 0;
        for layer in &mut self.layers {
            let LayerState::Mla(cache) = layer else { continue };
            for values in [&mut cache.latent, &mut cache.rope] {
                let width = values.len() / capacity.max(1);
                let own = values.chunks_exact_mut(width.max(1)).skip(first);
                for (own, row) in own.zip(rows.chunks_exact(row_len.max(1))) {
                    own.copy_from_slice(&row[at..at + width]);
                }
                at += width;
            }
        }
    }
}

struct CachePart<'a> {
    width: usize,
    values: &'a [f32],
}

impl LatentCache {
    fn parts(&self, capacity: usize) -> [CachePart<'_>; 2] {
        [&self.latent, &self.rope]
            .map(|values| CachePart { width: values.len() / capacity.max(1), values })
    }
}

fn cache_of(layer: &LayerState) -> Option<&LatentCache> {
    match layer {
        LayerState::Mla(cache) => Some(cache),
        LayerState::Kda(_) => None,
    }
}
