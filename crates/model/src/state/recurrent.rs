//! The part of a state that later tokens overwrite.
//!
//! What KDA layers remember cannot be taken back, so whoever wants to return to a position keeps a copy
//! of it. The latent cache only grows: its rows up to that position stay as they are.

use super::{KdaState, LayerState, State};
use deltafin_spec::ModelSpec;
use std::convert::Infallible;

/// What all KDA layers remember after `position` tokens: layer by layer, associations, then the
/// histories of q, k and v.
#[derive(Clone, Debug, PartialEq)]
pub struct Recurrent {
    position: usize,
    values: Vec<f32>,
}

impl Recurrent {
    /// Values of one, for this model.
    pub fn len_for(spec: &ModelSpec) -> usize {
        ((spec.kda_state_bytes() + spec.kda_conv_bytes()) / 4) as usize
    }

    /// One from elsewhere. Whether its length is the model's is looked at by [`State::resume`].
    pub fn new(position: usize, values: Vec<f32>) -> Recurrent {
        Recurrent { position, values }
    }

    /// The tokens it comes after.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The values.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    fn push(&mut self, layer: &KdaState) {
        self.values.extend_from_slice(&layer.associations);
        layer.history.iter().for_each(|history| self.values.extend_from_slice(history));
    }
}

impl State {
    /// Has the recurrent part copied when a pass comes by `position`; the pass is not cut in two for it.
    /// A position that is behind already is never come by.
    pub fn mark(&mut self, position: usize) {
        let values = Vec::with_capacity(self.recurrent_len());
        let at = self.marks.partition_point(|mark| mark.position < position);
        if self.marks.get(at).is_none_or(|mark| mark.position != position) {
            self.marks.insert(at, Recurrent { position, values });
        }
    }

    /// Takes out the copies of the positions come by, ascending.
    pub fn take_marked(&mut self) -> Vec<Recurrent> {
        let reached = self.marks.partition_point(|mark| mark.position <= self.len);
        let mut taken: Vec<Recurrent> = self.marks.drain(..reached).collect();
        let whole = self.recurrent_len();
        taken.retain(|mark| mark.values.len() == whole);
        taken
    }

    /// Forgets the marks.
    pub fn unmark(&mut self) {
        self.marks.clear();
    }

    /// A copy of the recurrent part as it is.
    pub fn recurrent(&self) -> Recurrent {
        let values = Vec::with_capacity(self.recurrent_len());
        let mut copy = Recurrent { position: self.len, values };
        self.kda_layers().for_each(|layer| copy.push(layer));
        copy
    }

    /// Returns to a copy's position. The latent rows before it must be those of the same tokens: either
    /// still, or written by [`State::write_latent`].
    ///
    /// # Panics
    /// When the copy is another model's, or its position beyond the capacity.
    pub fn resume(&mut self, copy: &Recurrent) {
        assert_eq!(copy.values.len(), self.recurrent_len(), "a copy of another model's state");
        let mut rest = copy.values.as_slice();
        let Ok(()) = self.resume_with(copy.position, &mut |part| {
            let (own, after) = rest.split_at(part.len());
            part.copy_from_slice(own);
            rest = after;
            Ok::<(), Infallible>(())
        });
    }

    /// As [`State::resume`], with the values filled in part by part, in the order of
    /// [`Recurrent::values`].
    ///
    /// # Errors
    /// As `fill` says; the state is then empty.
    ///
    /// # Panics
    /// When the position is beyond the capacity.
    pub fn resume_with<E>(
        &mut self,
        position: usize,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(position <= self.capacity, "a position beyond the capacity");
        let filled = self.layers.iter_mut().try_for_each(|layer| match layer {
            LayerState::Kda(kda) => {
                fill(&mut kda.associations)?;
                kda.history.iter_mut().try_for_each(|history| fill(history))
            }
            LayerState::Mla(_) => Ok(()),
        });
        match filled {
            Ok(()) => {
                self.marks.clear();
                self.len = position;
            }
            Err(_) => self.clear(),
        }
        filled
    }

    fn recurrent_len(&self) -> usize {
        let len = |kda: &KdaState| {
            kda.associations.len() + kda.history.iter().map(Vec::len).sum::<usize>()
        };
        self.kda_layers().map(len).sum()
    }

    fn kda_layers(&self) -> impl Iterator<Item = &KdaState> {
        self.layers.iter().filter_map(|layer| match layer {
            LayerState::Kda(kda) => Some(kda),
            LayerState::Mla(_) => None,
        })
    }

    /// The first marked position after `position`.
    pub(crate) fn next_mark(&self, position: usize) -> Option<usize> {
        self.marks.iter().map(|mark| mark.position).find(|&marked| marked > position)
    }

    /// A layer has come to `position`. Layers come in order, so each finds its place at the end.
    pub(crate) fn pass_by(&mut self, layer: usize, position: usize) {
        let LayerState::Kda(kda) = &self.layers[layer] else { return };
        if let Some(mark) = self.marks.iter_mut().find(|mark| mark.position == position) {
            mark.push(kda);
        }
    }
}
