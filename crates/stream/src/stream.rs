//! What the forward pass asks.

use std::sync::{Arc, Weak};
use std::time::Instant;

use deltafin_checkpoint::{Catalog, Identity};
use deltafin_spec::{ExpertId, FfnKind, Half, LayerId};
use deltafin_store::arena::Arena;
use deltafin_store::drive::{Filled, IoMode, Reader, ReaderReport, open_reader, room_for};
use deltafin_store::{Heat, Store, StoreError};

use crate::batch::Next;
use crate::counters::{Counters, Phase};
use crate::feed::{Asked, Feed};
use crate::parts::{UnitRooms, number_of, parts, parts_of};
use crate::proofs::Proofs;
use crate::shared::Shared;
use crate::slots::{Key, Slots};
use crate::taken::Taken;
use crate::watch::Watched;
use crate::{Layout, ReadWatcher, Share, SpineLease, StreamError};

/// The moving weights of one checkpoint.
pub struct Stream {
    pub(crate) shared: Arc<Shared>,
    pub(crate) reader: Box<dyn Reader>,
    layout: Layout,
    /// Whether the router's guesses are of any use.
    guesses: bool,
    /// What is read into: by units that stay, by those that do not, and by experts.
    arenas: [Arc<Arena>; 3],
    pub(crate) proofs: Proofs,
}

impl Stream {
    /// Sets memory aside and starts the drives. Reads nothing yet.
    pub fn open(
        catalog: Arc<Catalog>,
        store: Arc<dyn Store>,
        layout: Layout,
        mode: IoMode,
    ) -> Result<Stream, StreamError> {
        let rooms = UnitRooms::of(&catalog, &layout)?;
        let stay = Arena::new(rooms.stay)?;
        let pass = Arena::new(rooms.pass)?;
        let slot_bytes = layout.slot_bytes.unwrap_or_else(|| expert_room(&catalog)).max(1);
        let experts = Arena::new(slot_bytes * layout.expert_slots.max(1))?;
        let slabs = (0..layout.expert_slots.max(1)).filter_map(|_| experts.take(slot_bytes));
        let slots = Slots::new(&catalog, &layout, slabs.collect());
        let arenas = [&stay, &pass, &experts].map(Arc::clone);
        let feed = Feed::new(parts(&catalog, &layout), &stay, Arc::clone(&pass));
        let proofs = Proofs::new(Arc::clone(&catalog), Arc::clone(&store));
        let shared = Arc::new(Shared::new(catalog, feed, slots));
        // Memory that the kernel keeps at hand is resident at once and cannot be given back: only what
        // is read into all the time is worth that.
        let registered = if layout.stream_bytes > 0 { vec![pass] } else { Vec::new() };
        if let Some(distant) = store.distant() {
            let heat: Weak<dyn Heat> = Arc::downgrade(&shared) as Weak<Shared>;
            distant.go_by(heat);
        }
        let landing: Arc<Shared> = Arc::clone(&shared);
        let reader = open_reader(store, mode, &registered, landing)?;
        let reader = Box::new(Watched { reader, watch: Arc::clone(&shared.watch) });
        let all = Layout::everything(shared.catalog.spec()).expert_slots;
        let guesses =
            layout.prefetch.follows_the_router() && !(layout.cache && layout.expert_slots >= all);
        Ok(Stream { shared, reader, layout, guesses, arenas, proofs })
    }

    /// Lets others help to see whether bytes are what they should be. The first ones that are named do.
    pub fn share_with(&self, share: Box<Share>) {
        self.proofs.share_with(share);
    }

    /// Tells `watcher` of every read from now on, for as long as it is there, and whoever was told before
    /// no more.
    pub fn watch_reads(&self, watcher: Weak<dyn ReadWatcher>) {
        self.shared.watch.begin(watcher);
    }

    /// How memory is divided.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The memory that is read into: by units that stay, by those that do not, and by experts.
    pub fn arenas(&self) -> &[Arc<Arena>] {
        &self.arenas
    }

    /// What was used, read and waited for so far.
    pub fn counters(&self) -> Counters {
        self.shared.lock().counters
    }

    /// How the drives are read, and what they did.
    pub fn report(&self) -> ReaderReport {
        self.reader.report()
    }

    /// What was learned about which experts are used, as a file for [`Stream::adopt_heat`].
    pub fn heat_file(&self, identity: Identity) -> Vec<u8> {
        self.shared.lock().slots.heat.to_file(identity)
    }

    /// Goes on from what an earlier run learned. False, and nothing is changed, if the file is of
    /// other weights or damaged.
    pub fn adopt_heat(&self, identity: Identity, file: &[u8]) -> bool {
        self.shared.lock().slots.heat.adopt(identity, file)
    }

    /// Reads the experts that were used most so far, up to `most` of them, and keeps them for good; a
    /// few slots always stay free for others. Returns how many are kept. Without a cache, none are.
    pub fn pin(&self, most: usize) -> usize {
        if !self.layout.cache {
            return 0;
        }
        let spared = 2 * self.shared.catalog.spec().moe.top_k;
        let mut state = self.shared.lock();
        let (slots, mut io) = state.slots(&self.shared.catalog, &*self.reader);
        slots.pin(most, spared, &mut io)
    }

    /// Expert slots that have memory.
    pub fn expert_slots(&self) -> usize {
        self.shared.lock().slots.alive()
    }

    /// Gives memory of expert slots back to the system, for good, until `slots` are left; never so many
    /// that a layer's reads have none. Returns how many are left: slots in use stay.
    pub fn shrink(&self, slots: usize) -> usize {
        let least = (2 * self.shared.catalog.spec().moe.top_k).min(self.layout.expert_slots);
        let mut state = self.shared.lock();
        let (table, mut io) = state.slots(&self.shared.catalog, &*self.reader);
        table.shrink(slots.max(least), least, &mut io);
        let left = table.alive();
        drop(state);
        let [_, _, experts] = &self.arenas;
        experts.release_free();
        left
    }

    /// A pass of `rows` rows begins, which counts as `phase`; `head` says whether it uses the output head.
    pub fn begin(&self, phase: Phase, rows: usize, head: bool) {
        let mut state = self.shared.lock();
        state.phase = phase;
        state.counters.of(phase).passes += 1;
        let (slots, io) = state.slots(&self.shared.catalog, &*self.reader);
        slots.begin(rows == 1, &io);
        state.feed.begin(head, &*self.reader);
    }

    /// One half of a layer's spine; waits for it.
    pub fn spine(&self, layer: LayerId, half: Half) -> Result<SpineLease<'_>, StreamError> {
        let part = self.part(layer.index(), number_of(layer, half));
        part.map_err(|source| StreamError::Layer { layer, source })
    }

    /// The half of a layer's spine that has its router, if that is there, to guess its experts with.
    pub fn peek(&self, layer: LayerId) -> Option<SpineLease<'_>> {
        if !self.guesses {
            return None;
        }
        let mut state = self.shared.lock();
        let part = number_of(layer, Half::Ffn);
        let Some(filled) = state.feed.ask_ready(part) else {
            let (slots, mut io) = state.slots(&self.shared.catalog, &*self.reader);
            slots.guess_previous(&mut io);
            return None;
        };
        Some(self.lease(part, filled, false))
    }

    /// The output head's matrix; waits for it.
    pub fn head(&self) -> Result<SpineLease<'_>, StreamError> {
        let head = self.shared.catalog.spec().layers.len();
        let part = parts_of(head, head).start;
        self.part(head, part)
            .map_err(|source| StreamError::Global { part: "the output head", source })
    }

    /// Reads one row of the embedding, a token's.
    ///
    /// # Panics
    /// If there is no such row, or `buf` is not exactly as long as one.
    pub fn embedding(&self, row: u64, buf: &mut [u8]) -> Result<(), StreamError> {
        let read = self.proofs.row(row, buf);
        read.map_err(|source| StreamError::Global { part: "the embedding", source })
    }

    /// `ids` (ascending) of `layer` are needed: their reads begin.
    pub fn demand(&self, layer: LayerId, ids: &[ExpertId]) {
        let mut state = self.shared.lock();
        let (slots, mut io) = state.slots(&self.shared.catalog, &*self.reader);
        slots.demand(layer, ids, &mut io);
    }

    /// `ids` of a later layer are likely to be needed, most likely first.
    pub fn expect(&self, layer: LayerId, ids: &[ExpertId]) {
        let mut state = self.shared.lock();
        let (slots, mut io) = state.slots(&self.shared.catalog, &*self.reader);
        slots.expect(layer, ids, &mut io);
    }

    /// Hands out the records of `ids` (ascending) as they come. Whoever takes what was demanded in
    /// ascending pieces has each record read once at most; another order works, too, and with few slots
    /// may have to read some again.
    pub fn take(
        &self,
        layer: LayerId,
        ids: &[ExpertId],
        arrived: &mut dyn FnMut(ExpertId, &[u8]),
    ) -> Result<(), StreamError> {
        let mut state = self.shared.lock();
        let (slots, mut io) = state.slots(&self.shared.catalog, &*self.reader);
        slots.open_window(layer, ids, &mut io);
        loop {
            let (slots, mut io) = state.slots(&self.shared.catalog, &*self.reader);
            match slots.next(&mut io) {
                Next::Done => return Ok(()),
                Next::Stuck => {
                    return Err(StreamError::Stuck { layer, slots: slots.alive() });
                }
                Next::Failed(expert, source) => {
                    return Err(StreamError::Expert { layer, expert, source });
                }
                Next::Ready(expert, filled) => {
                    let key = state.slots.key(layer, expert);
                    let is_proven = state.slots.is_proven(key);
                    drop(state);
                    let taken = Taken { stream: self, key, filled: Some(filled) };
                    let handed = taken.hand_out((layer, expert), is_proven, arrived);
                    handed.map_err(|source| StreamError::Expert { layer, expert, source })?;
                    state = self.shared.lock();
                }
                Next::Wait => {
                    let start = Instant::now();
                    state = self.shared.wait(state);
                    let phase = state.phase;
                    state.counters.of(phase).expert_wait += start.elapsed();
                }
            }
        }
    }

    pub(crate) fn lease(&self, part: usize, filled: Filled, uses: bool) -> SpineLease<'_> {
        SpineLease { stream: self, part, filled: Some(filled), uses }
    }

    pub(crate) fn wait_for(&self, part: usize) -> Result<Filled, StoreError> {
        let mut state = self.shared.lock();
        loop {
            match state.feed.ask(part, &*self.reader) {
                Asked::Ready(filled) => return Ok(filled),
                Asked::Failed(error) => return Err(error),
                Asked::Wait => {
                    let start = Instant::now();
                    state = self.shared.wait(state);
                    let phase = state.phase;
                    state.counters.of(phase).spine_wait += start.elapsed();
                }
            }
        }
    }

    pub(crate) fn give_back(&self, part: usize, filled: Filled, used: bool) {
        self.shared.lock().feed.give_back(part, filled, used, &*self.reader);
        self.shared.notify();
    }

    pub(crate) fn reject(&self, part: usize, filled: Filled) {
        self.shared.lock().feed.reject(part, filled);
    }

    pub(crate) fn give_back_expert(&self, key: Key, filled: Filled) {
        let mut state = self.shared.lock();
        let (slots, mut io) = state.slots(&self.shared.catalog, &*self.reader);
        slots.give_back(key, filled, &mut io);
    }
}

/// Bytes of a slot: enough for every expert.
pub fn expert_room(catalog: &Catalog) -> usize {
    let spec = catalog.spec();
    let layers = spec.layer_ids().filter(|l| spec.layer(*l).ffn == FfnKind::Moe);
    let rooms = layers.flat_map(|layer| {
        spec.moe.expert_ids().map(move |e| room_for(catalog.expert(layer, e).record.pieces()))
    });
    rooms.max().unwrap_or(0).max(1)
}
