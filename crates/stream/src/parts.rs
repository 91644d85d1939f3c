//! What of the spine is read, used and given back as one: each half of a layer, and the head.
//!
//! A layer's spine and the head are *units*: one stays in memory or it does not, and is held against its
//! digests. A unit has one part or two.

use std::ops::Range;

use deltafin_checkpoint::{Catalog, Span};
use deltafin_spec::{Half, LayerId};
use deltafin_store::drive::room_for;

use crate::{Layout, StreamError};

/// A part as it is read.
pub(crate) struct Part {
    pub(crate) pieces: Box<[Span]>,
    pub(crate) stays: bool,
    /// Bytes that it needs in memory.
    pub(crate) room: usize,
    /// Bytes that must find room beside it once nothing else is there: the layer's second half beside
    /// its first.
    pub(crate) beside: usize,
}

impl Part {
    fn new(pieces: &[Span], stays: bool) -> Part {
        Part { pieces: pieces.into(), stays, room: room_for(pieces), beside: 0 }
    }
}

/// The number of a half of a layer among all parts.
pub(crate) fn number_of(layer: LayerId, half: Half) -> usize {
    Half::ALL.len() * layer.index() + half as usize
}

/// The layer and half with this number; nothing if that is the head.
pub(crate) fn half_at(number: usize, layers: usize) -> Option<(LayerId, Half)> {
    let layer = number / Half::ALL.len();
    (layer < layers).then(|| (LayerId::new(layer as u32), Half::ALL[number % Half::ALL.len()]))
}

/// The parts of a unit among all parts.
pub(crate) fn parts_of(unit: usize, layers: usize) -> Range<usize> {
    let first = unit.min(layers) * Half::ALL.len();
    first..first + if unit < layers { Half::ALL.len() } else { 1 }
}

/// All parts in the order of use.
pub(crate) fn parts<'c>(
    catalog: &'c Catalog,
    layout: &'c Layout,
) -> impl Iterator<Item = Part> + 'c {
    let stays = |unit: usize| layout.resident.get(unit).copied().unwrap_or(false);
    let layers = catalog.spec().layer_ids().flat_map(move |layer| {
        let [mut first, second] = Half::ALL.map(|half| {
            let record = catalog.spine(layer).half(half).record();
            Part::new(record.pieces(), stays(layer.index()))
        });
        first.beside = second.room;
        [first, second]
    });
    let head = catalog.globals().head.tensor().record();
    layers.chain([Part::new(head.pieces(), stays(catalog.spec().layers.len()))])
}

/// Bytes that the largest unit needs in memory.
pub fn largest_unit_room(catalog: &Catalog) -> usize {
    unit_rooms(catalog).max().unwrap_or(0)
}

/// Bytes that each unit needs in memory: the layers' spines, then the head.
pub fn unit_rooms(catalog: &Catalog) -> impl Iterator<Item = usize> + '_ {
    let room = |half, layer| room_for(catalog.spine(layer).half(half).record().pieces());
    let layers = catalog.spec().layer_ids();
    let layers = layers.map(move |layer| Half::ALL.iter().map(|half| room(*half, layer)).sum());
    layers.chain([room_for(catalog.globals().head.tensor().record().pieces())])
}

/// Bytes for units that stay and for those that do not.
pub(crate) struct UnitRooms {
    pub(crate) stay: usize,
    pub(crate) pass: usize,
}

impl UnitRooms {
    pub(crate) fn of(catalog: &Catalog, layout: &Layout) -> Result<UnitRooms, StreamError> {
        let (mut stay, mut largest) = (0, 0);
        for (room, stays) in unit_rooms(catalog).zip(&layout.resident) {
            if *stays {
                stay += room;
            } else {
                largest = largest.max(room);
            }
        }
        let pass = layout.stream_bytes;
        if pass < largest {
            return Err(StreamError::StreamRoom { wanted: pass, needed: largest });
        }
        Ok(UnitRooms { stay, pass })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_and_the_head_have_numbers_of_their_own() {
        let numbered = (0..5).map(|number| half_at(number, 2));
        let [first, second] = [0, 1].map(LayerId::new);
        let halves =
            [first, second].into_iter().flat_map(|layer| Half::ALL.map(|half| (layer, half)));
        assert!(numbered.eq(halves.clone().map(Some).chain([None])));
        assert!(halves.map(|(layer, half)| number_of(layer, half)).eq(0..4));
        assert_eq!([0, 1, 2].map(|unit| parts_of(unit, 2)), [0..2, 2..4, 4..5]);
    }
}
