//! Shards on disk, readers of every mode over them, and a place for reads to land.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use deltafin_checkpoint::{ShardId, Span};
use deltafin_store::arena::{Arena, Slab};
use deltafin_store::drive::{
    Class, IoMode, Landed, Landing, Reader, Ticket, Tuning, open_reader_tuned, room_for,
};
use deltafin_store::{LocalShards, MemoryShards, Store};

/// Longer than any read of a test; only a read that never lands takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The modes that this system's drives are capable of.
#[cfg(target_os = "linux")]
pub(crate) const MODES: [IoMode; 3] = [IoMode::Uring, IoMode::Direct, IoMode::Buffered];
#[cfg(target_os = "macos")]
pub(crate) const MODES: [IoMode; 2] = [IoMode::Direct, IoMode::Buffered];

/// A folder on the drive that the build is on; the system's folder for such may be in memory.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub(crate) fn span(shard: usize, offset: u64, len: u64) -> Span {
    Span::new(ShardId::new(shard as u32), offset, len).unwrap()
}

/// Bytes that differ from place to place.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let next = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

/// Shards whose lengths are around pages, one of them empty.
pub(crate) fn shards() -> Vec<(String, Vec<u8>)> {
    let lens = [300_001, 0, 4096, 4097, 1, 20 * 4096];
    let shard = |(number, len): (usize, &usize)| (format!("s{number}"), noise(*len, number as u64));
    lens.iter().enumerate().map(shard).collect()
}

pub(crate) fn on_disk(dir: &Path, shards: &[(String, Vec<u8>)]) -> Arc<dyn Store> {
    for (name, bytes) in shards {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
    let names: Vec<&String> = shards.iter().map(|shard| &shard.0).collect();
    Arc::new(LocalShards::open_bounded(dir, &names, 3).unwrap())
}

pub(crate) fn in_memory(shards: &[(String, Vec<u8>)]) -> Arc<dyn Store> {
    Arc::new(MemoryShards::new(shards.iter().map(|(name, b)| (name.clone(), b.clone().into()))))
}

/// Where the reads of a test land, in the order in which they do.
#[derive(Default)]
pub(crate) struct Shore {
    landed: Mutex<Vec<(Ticket, Landed)>>,
    news: Condvar,
}

impl Landing for Shore {
    fn landed(&self, ticket: Ticket, landed: Landed) {
        self.landed.lock().unwrap().push((ticket, landed));
        self.news.notify_all();
    }
}

impl Shore {
    /// The first `count` that land, as soon as they have.
    pub(crate) fn wait(&self, count: usize) -> Vec<(Ticket, Landed)> {
        let landed = self.landed.lock().unwrap();
        let waiting = |landed: &mut Vec<(Ticket, Landed)>| landed.len() < count;
        let (mut landed, out) = self.news.wait_timeout_while(landed, PATIENCE, waiting).unwrap();
        assert!(!out.timed_out(), "{} of {count} reads landed", landed.len());
        landed.drain(..count).collect()
    }

    pub(crate) fn by_ticket(&self, count: usize) -> HashMap<Ticket, Landed> {
        self.wait(count).into_iter().collect()
    }
}

/// A reader, its memory, and where its reads land.
pub(crate) struct Harbour {
    pub(crate) arena: Arc<Arena>,
    pub(crate) shore: Arc<Shore>,
    pub(crate) reader: Box<dyn Reader>,
}

/// Chunks so small that a record has many.
pub(crate) const SMALL: Tuning = Tuning { chunk_bytes: 8192, depth: 7, idle_depth: 3, threads: 3 };

impl Harbour {
    pub(crate) fn new(store: &Arc<dyn Store>, mode: IoMode, tuning: Tuning) -> Harbour {
        let arena = Arena::new(16 << 20).unwrap();
        let shore = Arc::new(Shore::default());
        let landing = Arc::clone(&shore) as Arc<dyn Landing>;
        let arenas = [Arc::clone(&arena)];
        let reader = open_reader_tuned(Arc::clone(store), mode, &arenas, landing, tuning).unwrap();
        Harbour { arena, shore, reader }
    }

    pub(crate) fn slab(&self, pieces: &[Span]) -> Slab {
        let mut slab = self.arena.take(room_for(pieces)).unwrap();
        slab.bytes_mut().fill(0xA5);
        slab
    }

    pub(crate) fn ask(&self, ticket: u64, class: Class, pieces: &[Span]) {
        self.reader.read(Ticket(ticket), class, pieces, self.slab(pieces));
    }

    /// One read from beginning to end.
    pub(crate) fn read(&self, pieces: &[Span]) -> Landed {
        self.ask(99, Class::Demand, pieces);
        let (ticket, landed) = self.shore.wait(1).remove(0);
        assert_eq!(ticket, Ticket(99));
        landed
    }
}

/// The bytes of a read that landed whole.
pub(crate) fn whole(landed: Landed) -> Vec<u8> {
    let Landed::Whole(filled) = landed else { panic!("{landed:?}") };
    filled.to_vec()
}

/// What the store itself gives.
pub(crate) fn wanted(store: &dyn Store, pieces: &[Span]) -> Vec<u8> {
    let read = |piece: &Span| {
        let mut buf = vec![0; piece.len() as usize];
        store.read_exact(*piece, &mut buf).unwrap();
        buf
    };
    pieces.iter().map(read).collect::<Vec<_>>().concat()
}
