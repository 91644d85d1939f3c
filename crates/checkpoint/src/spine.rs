//! A layer's spine: what every token uses of it, whole and in halves.
//!
//! A pass reads and gives back the halves one after the other; whatever looks at the layer as one finds
//! the same tensors in the whole.

use deltafin_spec::{Dtype, Half, LayerId, Shape, SpineTensor};

use crate::Span;
use crate::record::{Arrangement, Part, Record, TensorPlace, arrange};

/// A spine tensor and its place in the buffer of what is read with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedTensor {
    /// What the tensor is for.
    pub role: SpineTensor,
    /// The stored element type.
    pub dtype: Dtype,
    /// The stored shape.
    pub shape: Shape,
    /// Where its elements lie.
    pub place: TensorPlace,
    /// Where the scales of its rows lie, one half-precision float each; a tensor of signed bytes
    /// alone has them.
    pub scales: Option<TensorPlace>,
}

impl PlacedTensor {
    /// Where its bytes begin in the buffer, and where they end, scales included.
    fn extent(&self) -> (u64, u64) {
        let end = |place: TensorPlace| place.offset + place.len;
        let scales = self.scales.unwrap_or(self.place);
        (self.place.offset.min(scales.offset), end(self.place).max(end(scales)))
    }

    /// The same tensor in a buffer that begins so many bytes later.
    fn later(self, bytes: u64) -> PlacedTensor {
        let later = |place: TensorPlace| TensorPlace { offset: place.offset - bytes, ..place };
        PlacedTensor { place: later(self.place), scales: self.scales.map(later), ..self }
    }
}

/// Tensors that are read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedTensors {
    pieces: Vec<Span>,
    len: u64,
    tensors: Vec<PlacedTensor>,
}

impl PlacedTensors {
    /// What to read.
    pub fn record(&self) -> Record<'_> {
        Record::of(&self.pieces, self.len)
    }

    /// The tensors, in roster order.
    pub fn tensors(&self) -> &[PlacedTensor] {
        &self.tensors
    }

    /// The tensor with this role, if there is one.
    pub fn tensor(&self, role: SpineTensor) -> Option<&PlacedTensor> {
        self.tensors.iter().find(|tensor| tensor.role == role)
    }

    fn in_one_piece(piece: Span, tensors: Vec<PlacedTensor>) -> PlacedTensors {
        PlacedTensors { pieces: vec![piece], len: piece.len(), tensors }
    }

    fn found<'f>(found: impl Iterator<Item = &'f FoundSpine>) -> PlacedTensors {
        let found: Vec<&FoundSpine> = found.collect();
        let parts: Vec<Part> = found.iter().map(|t| (t.span, t.dtype.size_bytes())).collect();
        let Arrangement { pieces, offsets, len } = arrange(&parts);
        let place = |(tensor, offset): (&&FoundSpine, u64)| PlacedTensor {
            role: tensor.role,
            dtype: tensor.dtype,
            shape: tensor.shape,
            place: TensorPlace { offset, len: tensor.span.len() },
            scales: None,
        };
        PlacedTensors { tensors: found.iter().zip(offsets).map(place).collect(), pieces, len }
    }
}

/// The tensors of one layer that every token uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spine {
    layer: LayerId,
    whole: PlacedTensors,
    /// In the order of [`Half::ALL`].
    halves: [PlacedTensors; 2],
}

impl Spine {
    /// The layer.
    pub fn layer(&self) -> LayerId {
        self.layer
    }

    /// All of it.
    pub fn record(&self) -> Record<'_> {
        self.whole.record()
    }

    /// The tensors, in roster order, and where they lie in all of it.
    pub fn tensors(&self) -> &[PlacedTensor] {
        self.whole.tensors()
    }

    /// The tensor with this role in all of it, if the layer has it.
    pub fn tensor(&self, role: SpineTensor) -> Option<&PlacedTensor> {
        self.whole.tensor(role)
    }

    /// One half, to be read on its own.
    pub fn half(&self, half: Half) -> &PlacedTensors {
        &self.halves[half as usize]
    }

    /// The spine of tensors that were found in shards.
    pub(crate) fn found(layer: LayerId, found: &[FoundSpine]) -> Spine {
        let of = |half| PlacedTensors::found(found.iter().filter(move |t| t.role.half() == half));
        let whole = PlacedTensors::found(found.iter());
        Spine { layer, whole, halves: Half::ALL.map(of) }
    }

    /// The spine that is one piece of a file, with its tensors in roster order. Fails with the tensor that
    /// lies behind one of the other half, where it should not.
    pub(crate) fn in_one_piece(
        layer: LayerId,
        piece: Span,
        tensors: Vec<PlacedTensor>,
    ) -> Result<Spine, SpineTensor> {
        let of = |half| tensors.iter().filter(move |tensor| tensor.role.half() == half).copied();
        let border = of(Half::Ffn).map(|tensor| tensor.extent().0).min().unwrap_or(piece.len());
        let late = of(Half::Attention).find(|tensor| tensor.extent().1 > border);
        let parts = (piece.part(0, border), piece.part(border, piece.len().saturating_sub(border)));
        let (None, (Some(front), Some(back))) = (late, parts) else {
            return Err(late.map_or(SpineTensor::InputNorm, |tensor| tensor.role));
        };
        let halves = [
            PlacedTensors::in_one_piece(front, of(Half::Attention).collect()),
            PlacedTensors::in_one_piece(back, of(Half::Ffn).map(|t| t.later(border)).collect()),
        ];
        Ok(Spine { layer, whole: PlacedTensors::in_one_piece(piece, tensors), halves })
    }
}

/// A spine tensor that was found in a shard.
pub(crate) struct FoundSpine {
    pub(crate) role: SpineTensor,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Shape,
    pub(crate) span: Span,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ShardId;

    fn span(offset: u64, len: u64) -> Span {
        Span::new(ShardId::new(0), offset, len).unwrap()
    }

    fn found(role: SpineTensor, offset: u64, len: u64) -> FoundSpine {
        FoundSpine {
            role,
            dtype: role.dtype(),
            shape: Shape::new(&[len]).unwrap(),
            span: span(offset, len),
        }
    }

    /// In the order of a released shard: the halves lie among each other.
    #[test]
    fn the_longest_run_of_a_half_stays_where_it_is_read_to() {
        use SpineTensor::{InputNorm, KdaALog, KdaQ, MlpResNorm, Router, RouterBias};
        let all = [
            found(InputNorm, 1020, 4),
            found(MlpResNorm, 1024, 4),
            found(KdaALog, 8, 12),
            found(KdaQ, 1028, 3000),
            found(Router, 20, 1000),
            found(RouterBias, 0, 8),
        ];
        let spine = Spine::found(LayerId::new(3), &all);
        assert_eq!(spine.record().pieces(), [span(0, 4028)]);
        let [attention, ffn] = Half::ALL.map(|half| spine.half(half));
        assert_eq!(attention.record().pieces(), [span(1028, 3000), span(8, 12), span(1020, 4)]);
        assert_eq!(ffn.record().pieces(), [span(20, 1000), span(0, 8), span(1024, 4)]);
        assert_eq!((attention.record().len(), ffn.record().len()), (3016, 1012));
        let at = |role| attention.tensor(role).map(|tensor| tensor.place.range());
        assert_eq!(
            (at(KdaQ), at(KdaALog), at(InputNorm)),
            (Some(0..3000), Some(3000..3012), Some(3012..3016))
        );
        assert_eq!(at(Router), None);
    }

    #[test]
    fn a_piece_is_cut_where_the_second_half_begins() {
        use SpineTensor::{InputNorm, KdaQ, PostAttentionNorm, Router};
        let at = |role: SpineTensor, offset, len: u64, scales: Option<(u64, u64)>| PlacedTensor {
            role,
            dtype: role.dtype(),
            shape: Shape::new(&[len]).unwrap(),
            place: TensorPlace { offset, len },
            scales: scales.map(|(offset, len)| TensorPlace { offset, len }),
        };
        let tensors = vec![
            at(InputNorm, 0, 4, None),
            at(PostAttentionNorm, 256, 4, None),
            at(KdaQ, 64, 100, Some((192, 10))),
            at(Router, 320, 60, Some((384, 6))),
        ];
        let cut = |tensors| Spine::in_one_piece(LayerId::new(0), span(64, 390), tensors);
        let spine = cut(tensors.clone()).unwrap();
        let [attention, ffn] = Half::ALL.map(|half| spine.half(half));
        assert_eq!(attention.record().pieces(), [span(64, 256)]);
        assert_eq!(ffn.record().pieces(), [span(320, 134)]);
        assert_eq!(attention.tensors(), [tensors[0], tensors[2]]);
        assert_eq!(ffn.tensor(Router), Some(&at(Router, 64, 60, Some((128, 6)))));
        assert_eq!(spine.tensors(), tensors);

        let mut mixed = tensors;
        mixed[2].scales = Some(TensorPlace { offset: 380, len: 4 });
        assert_eq!(cut(mixed), Err(KdaQ));
    }
}
