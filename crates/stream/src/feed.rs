//! Spine units: each is asked for once a pass, in an order that never changes.
//!
//! Units that stay are read once. The others share an arena: they are read ahead in the order of
//! use as far as it reaches, and a unit that was used makes room for the next one that is not there.

use std::sync::Arc;

use deltafin_checkpoint::Span;
use deltafin_store::StoreError;
use deltafin_store::arena::Arena;
use deltafin_store::drive::{Class, Filled, Landed, Reader, Ticket, room_for};

/// Tickets with this bit are for units, the others for experts.
pub(crate) const UNIT_BIT: u64 = 1 << 63;

/// One unit and where it is.
struct Unit {
    pieces: Box<[Span]>,
    stays: bool,
    state: State,
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

/// What asking for a unit gave.
pub(crate) enum Asked {
    Ready(Filled),
    /// It is on its way, or waits for room.
    Wait,
    Failed(StoreError),
}

/// All units. The last one is the output head.
pub(crate) struct Feed {
    units: Vec<Unit>,
    /// For the units that stay.
    stay: Arc<Arena>,
    /// For the units that do not.
    pass: Arc<Arena>,
    /// The unit to be read ahead next.
    cursor: usize,
    /// Whether the running pass uses the head.
    head_wanted: bool,
}

impl Feed {
    pub(crate) fn new(
        units: impl Iterator<Item = (Box<[Span]>, bool)>,
        stay: Arc<Arena>,
        pass: Arc<Arena>,
    ) -> Feed {
        let unit = |(pieces, stays)| Unit { pieces, stays, state: State::Absent };
        Feed { units: units.map(unit).collect(), stay, pass, cursor: 0, head_wanted: false }
    }

    pub(crate) fn begin(&mut self, head: bool, reader: &dyn Reader) {
        self.head_wanted = head;
        for unit in &mut self.units {
            if matches!(unit.state, State::Failed(_)) {
                unit.state = State::Absent;
            }
        }
        self.read_ahead(reader);
    }

    /// Takes a unit out, to be given back by [`Feed::give_back`].
    pub(crate) fn ask(&mut self, unit: usize, reader: &dyn Reader) -> Asked {
        let state = &mut self.units[unit].state;
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
                    reader.promote(ticket(unit));
                }
                Asked::Wait
            }
            State::Absent => {
                *state = State::Absent;
                self.read_now(unit, reader);
                Asked::Wait
            }
        }
    }

    /// As [`Feed::ask`] for a unit that is there already.
    pub(crate) fn ask_ready(&mut self, unit: usize) -> Option<Filled> {
        let state = &mut self.units[unit].state;
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
        unit: usize,
        filled: Filled,
        used: bool,
        reader: &dyn Reader,
    ) {
        let keep = self.units[unit].stays || !used;
        self.units[unit].state = if keep { State::Ready(filled) } else { State::Absent };
        if used {
            self.read_ahead(reader);
        }
    }

    /// Forgets a unit whose bytes are not what they should be.
    pub(crate) fn reject(&mut self, unit: usize, filled: Filled) {
        drop(filled);
        self.units[unit].state = State::Absent;
    }

    pub(crate) fn landed(&mut self, unit: usize, landed: Landed) {
        let state = &mut self.units[unit].state;
        let asked = matches!(state, State::Reading { asked: true, .. });
        *state = match landed {
            Landed::Whole(filled) => State::Ready(filled),
            Landed::Failed(_, error) if asked => State::Failed(error),
            // It was read ahead, perhaps long before the fault was mended: whoever asks tries again.
            Landed::Failed(..) | Landed::Cancelled(_) => State::Absent,
        };
    }

    /// The bytes of a unit.
    pub(crate) fn bytes(&self, unit: usize) -> u64 {
        self.units[unit].pieces.iter().map(|piece| piece.len()).sum()
    }

    /// Starts reading what is next, as far as there is room.
    fn read_ahead(&mut self, reader: &dyn Reader) {
        for _ in 0..self.units.len() {
            let at = self.cursor;
            let skipped = at + 1 == self.units.len() && !self.head_wanted;
            match &self.units[at].state {
                State::Absent if !skipped => {
                    if !self.read(at, Class::Ahead, reader) {
                        return;
                    }
                }
                _ if skipped || self.units[at].stays => {}
                // Everything that does not stay is there: all around.
                _ => return,
            }
            self.cursor = self.after(at);
        }
    }

    /// Reads a unit that is asked for and was not read ahead: the order was left, or it is the first.
    fn read_now(&mut self, unit: usize, reader: &dyn Reader) {
        self.cursor = unit;
        while !self.read(unit, Class::Demand, reader) {
            if !self.make_room(reader) {
                return;
            }
        }
        self.cursor = self.after(unit);
        self.read_ahead(reader);
    }

    /// Drops a unit that nobody waits for; without one, calls back what has not begun. False when
    /// nothing was freed right away.
    fn make_room(&mut self, reader: &dyn Reader) -> bool {
        let spare = |unit: &Unit| !unit.stays && matches!(unit.state, State::Ready(_));
        if let Some(unit) = self.units.iter_mut().rfind(|unit| spare(unit)) {
            unit.state = State::Absent;
            return true;
        }
        for (number, unit) in self.units.iter().enumerate() {
            if !unit.stays && matches!(unit.state, State::Reading { class: Class::Ahead, .. }) {
                reader.cancel(ticket(number));
            }
        }
        false
    }

    fn read(&mut self, number: usize, class: Class, reader: &dyn Reader) -> bool {
        let unit = &mut self.units[number];
        let arena = if unit.stays { &self.stay } else { &self.pass };
        let Some(slab) = arena.take(room_for(&unit.pieces)) else { return false };
        unit.state = State::Reading { class, asked: class == Class::Demand };
        reader.read(ticket(number), class, &unit.pieces, slab);
        true
    }

    fn after(&self, unit: usize) -> usize {
        (unit + 1) % self.units.len()
    }
}

fn ticket(unit: usize) -> Ticket {
    Ticket(UNIT_BIT | unit as u64)
}
