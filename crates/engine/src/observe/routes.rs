//! Which experts were chosen: JSON, one line per position and layer, after one about the model.
//!
//! ```text
//! {"format":"deltafin routes","version":1,"layers":93,"experts":896,"top_k":16}
//! {"position":12,"layer":3,"experts":[7,101,…]}
//! ```
//!
//! Positions count from the start of the sequence, layers from the model's first; experts come best
//! first. A prompt's lines come layer by layer within each of its passes. A pass that is broken off
//! leaves its lines.

use deltafin_model::{Observer, PassPlan};
use deltafin_spec::{LayerId, ModelSpec};
use std::io::{self, Write};

/// Watches a session and writes its routes.
pub struct RouteLines<O> {
    out: O,
    /// The position of the pass's first row.
    position: usize,
    failure: Option<io::Error>,
}

impl<O: Write> RouteLines<O> {
    /// Writes to `out`, in small pieces, beginning with what the routes are of.
    pub fn new(mut out: O, spec: &ModelSpec) -> RouteLines<O> {
        let (layers, experts, top_k) = (spec.layers.len(), spec.moe.experts, spec.moe.top_k);
        let failure = writeln!(
            out,
            r#"{{"format":"deltafin routes","version":1,"layers":{layers},"experts":{experts},"top_k":{top_k}}}"#
        )
        .err();
        RouteLines { out, position: 0, failure }
    }

    /// Brings what was written to its place.
    ///
    /// # Errors
    /// The first one of writing; nothing more was written after it, and passes went on.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.out.flush(),
        }
    }

    fn line(&mut self, layer: LayerId, row: usize, experts: &[u32]) -> io::Result<()> {
        let (out, position) = (&mut self.out, self.position + row);
        write!(out, r#"{{"position":{position},"layer":{},"experts":["#, layer.number())?;
        for (place, expert) in experts.iter().enumerate() {
            write!(out, "{}{expert}", if place > 0 { "," } else { "" })?;
        }
        out.write_all(b"]}\n")
    }
}

impl<O: Write> Observer for RouteLines<O> {
    fn pass(&mut self, position: usize, _pass: PassPlan) {
        self.position = position;
    }

    fn route(&mut self, layer: LayerId, row: usize, experts: &[u32], _weights: &[f32]) {
        if self.failure.is_none() {
            self.failure = self.line(layer, row, experts).err();
        }
    }
}
