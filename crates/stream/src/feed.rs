//! Parts of the spine: each is asked for once a pass, in an order that never changes.
//!
//! Parts that stay are read once, each into a place of its own. The others share an arena: they are read
//! ahead in the order of use as far as it reaches, and a part that was used makes room for the next one
//! that is not there. A layer has two, so that while its second is used the next layer's first is read.

use std::sync::Arc;

use deltafin_store::StoreError;
use deltafin_store::arena::{Arena, Slab};
use deltafin_store::drive::{Class, Filled, Landed, Reader, Ticket};

use crate::parts::Part;

/// Tickets with this bit are for parts of the spine, the others for experts.
pub(crate) const PART_BIT: u64 = 1 << 63;

/// One part, and where it is.
struct Place {
    part: Part,
    /// Where it is read to, if that is nobody else's; nothing while it is there.
    home: Option<Slab>,
    state: State,
    /// What was read was held against what it should be.
    is_proven: bool,
}

enum State {
    Absent,
    /// `asked`: it was demanded when its read began.
    Reading {
        class: Class,
        asked: bool,
    },
    Ready(Filled),
    Leased,
    Failed(StoreError),
}

/// What asking for a part gave.
pub(crate) enum Asked {
    Ready(Filled),
    /// It is on its way, or waits for room.
    Wait,
    Failed(StoreError),
}

/// All parts. The last one is the output head.
pub(crate) struct Feed {
    places: Vec<Place>,
    /// For the parts that do not stay.
    pass: Arc<Arena>,
    /// The part to be read ahead next.
    cursor: usize,
    /// Whether the running pass uses the head.
    head_wanted: bool,
}

impl Place {
    fn new(part: Part, stay: &Arc<Arena>) -> Place {
        let home = part.stays.then(|| stay.take(part.room));
        let home = home.map(|slab| slab.expect("the arena has room for all that stays"));
        Place { part, home, state: State::Absent, is_proven: false }
    }

    /// The part is not there any more, and its slab is of use again.
    fn vacate(&mut self, slab: Slab, state: State) {
        self.state = state;
        self.home = self.part.stays.then_some(slab);
    }
}

impl Feed {
    /// `stay` has room for all parts that stay, and `pass` for any layer's others and for the head.
    pub(crate) fn new(
        parts: impl Iterator<Item = Part>,
        stay: &Arc<Arena>,
        pass: Arc<Arena>,
    ) -> Feed {
        let places = parts.map(|part| Place::new(part, stay)).collect();
        Feed { places, pass, cursor: 0, head_wanted: false }
    }

    pub(crate) fn begin(&mut self, head: bool, reader: &dyn Reader) {
        self.head_wanted = head;
        for place in &mut self.places {
            if matches!(place.state, State::Failed(_)) {
                place.state = State::Absent;
            }
        }
        self.read_ahead(reader);
    }

    /// Takes a part out, to be given back by [`Feed::give_back`].
    pub(crate) fn ask(&mut self, part: usize, reader: &dyn Reader) -> Asked {
        let state = &mut self.places[part].state;
        match std::mem::replace(state, State::Leased) {
            State::Ready(filled) => Asked::Ready(filled),
            State::Leased => Asked::Wait,
            State::Failed(error) => {
                *state = State::Absent;
                Asked::Failed(error)
            }
            State::Reading { class, asked } => {
                *state = State::Reading { class: Class::Demand, asked };
                if class != Class::Demand {
                    reader.promote(ticket(part));
                }
                Asked::Wait
            }
            State::Absent => {
                *state = State::Absent;
                self.read_now(part, reader);
                Asked::Wait
            }
        }
    }

    /// As [`Feed::ask`] for a part that is there already.
    pub(crate) fn ask_ready(&mut self, part: usize) -> Option<Filled> {
        let state = &mut self.places[part].state;
        match std::mem::replace(state, State::Leased) {
            State::Ready(filled) => Some(filled),
            other => {
                *state = other;
                None
            }
        }
    }

    /// `used`: its turn in this pass is over.
    pub(crate) fn give_back(
        &mut self,
        part: usize,
        filled: Filled,
        used: bool,
        reader: &dyn Reader,
    ) {
        let place = &mut self.places[part];
        let keep = place.part.stays || !used;
        place.state = if keep { State::Ready(filled) } else { State::Absent };
        if used {
            self.read_ahead(reader);
        }
    }

    /// Forgets a part whose bytes are not what they should be.
    pub(crate) fn reject(&mut self, part: usize, filled: Filled) {
        self.places[part].vacate(filled.into_slab(), State::Absent);
    }

    pub(crate) fn landed(&mut self, part: usize, landed: Landed) {
        let place = &mut self.places[part];
        let asked = matches!(place.state, State::Reading { asked: true, .. });
        match landed {
            Landed::Whole(filled) => place.state = State::Ready(filled),
            Landed::Failed(slab, error) if asked => place.vacate(slab, State::Failed(error)),
            // It was read ahead, perhaps long before the fault was mended: whoever asks tries again.
            Landed::Failed(slab, _) | Landed::Cancelled(slab) => place.vacate(slab, State::Absent),
        }
    }

    /// Whether a part that is there was held against what it should be.
    pub(crate) fn is_proven(&self, part: usize) -> bool {
        self.places[part].is_proven
    }

    /// It was.
    pub(crate) fn set_proven(&mut self, part: usize) {
        self.places[part].is_proven = true;
    }

    /// The bytes of a part.
    pub(crate) fn bytes(&self, part: usize) -> u64 {
        self.places[part].part.pieces.iter().map(|piece| piece.len()).sum()
    }

    /// Starts reading what is next, as far as there is room.
    fn read_ahead(&mut self, reader: &dyn Reader) {
        for _ in 0..self.places.len() {
            let at = self.cursor;
            let skipped = at + 1 == self.places.len() && !self.head_wanted;
            match &self.places[at].state {
                State::Absent if !skipped => {
                    if !self.read(at, Class::Ahead, reader) {
                        return;
                    }
                }
                _ if skipped || self.places[at].part.stays => {}
                // Everything that does not stay is there: all around.
                _ => return,
            }
            self.cursor = self.after(at);
        }
    }

    /// Reads a part that is asked for and was not read ahead: the order was left, or it is the first.
    fn read_now(&mut self, part: usize, reader: &dyn Reader) {
        self.cursor = part;
        while !self.read(part, Class::Demand, reader) {
            if !self.make_room(reader) {
                return;
            }
        }
        self.cursor = self.after(part);
        self.read_ahead(reader);
    }

    /// Drops a part that nobody waits for; without one, calls back what has not begun. False when
    /// nothing was freed right away.
    fn make_room(&mut self, reader: &dyn Reader) -> bool {
        let spare = |place: &Place| !place.part.stays && matches!(place.state, State::Ready(_));
        if let Some(place) = self.places.iter_mut().rfind(|place| spare(place)) {
            place.state = State::Absent;
            return true;
        }
        for (number, place) in self.places.iter().enumerate() {
            if !place.part.stays
                && matches!(place.state, State::Reading { class: Class::Ahead, .. })
            {
                reader.cancel(ticket(number));
            }
        }
        false
    }

    fn read(&mut self, number: usize, class: Class, reader: &dyn Reader) -> bool {
        let Place { part, home, state, is_proven } = &mut self.places[number];
        let slab = match part.stays {
            true => home.take(),
            false => self.pass.take_beside(part.room, part.beside),
        };
        let Some(slab) = slab else { return false };
        *state = State::Reading { class, asked: class == Class::Demand };
        *is_proven = false;
        reader.read(ticket(number), class, &part.pieces, slab);
        true
    }

    fn after(&self, part: usize) -> usize {
        (part + 1) % self.places.len()
    }
}

fn ticket(part: usize) -> Ticket {
    Ticket(PART_BIT | part as u64)
}
