//! Shards whose bytes lie elsewhere in their files than in the shards.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use deltafin_checkpoint::{Shard, ShardId, Span};
use deltafin_store::arena::PAGE_BYTES;
use deltafin_store::{Files, LocalFile, LocalShards, Store, StoreError};

use crate::support::{Harbour, MODES, SMALL, folder, in_memory, shards, span, wanted, whole};

/// So many bytes of each file lie before its shard.
const BEFORE: u64 = 3 * PAGE_BYTES as u64;

/// Shards, and the longer files that they are in.
struct Moved {
    shards: Vec<Shard>,
    files: LocalShards,
}

impl Moved {
    fn there(&self, span: Span) -> Span {
        Span::new(span.shard(), BEFORE + span.offset(), span.len()).unwrap()
    }

    fn local(&self, number: usize) -> LocalFile<'_> {
        self.files.file(ShardId::new(number as u32)).unwrap()
    }
}

impl Store for Moved {
    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        self.files.read_exact(self.there(span), buf)
    }

    fn file(&self, shard: ShardId) -> Option<LocalFile<'_>> {
        Some(LocalFile::new(self, shard.index()))
    }
}

impl Files for Moved {
    fn path(&self, number: usize) -> &Path {
        self.local(number).path()
    }

    fn device(&self, number: usize) -> u64 {
        self.local(number).device()
    }

    fn direct(&self, number: usize, wanted: Span) -> Result<Arc<File>, StoreError> {
        self.local(number).direct(self.there(wanted))
    }

    fn place(&self, _: usize, wanted: Span) -> u64 {
        self.there(wanted).offset()
    }

    fn forget(&self, number: usize, wanted: Span) {
        self.local(number).forget(self.there(wanted));
    }
}

#[test]
fn they_are_read_in_every_mode_also_when_their_files_grow() {
    let (dir, shards) = (folder(), shards());
    for (name, bytes) in &shards {
        std::fs::write(dir.path().join(name), [&vec![0xEE; BEFORE as usize], &bytes[..]].concat())
            .unwrap();
    }
    let names: Vec<&String> = shards.iter().map(|shard| &shard.0).collect();
    let paths = names.iter().map(|name| dir.path().join(name));
    let files = LocalShards::open_growing(&names, paths).unwrap();
    let same = in_memory(&shards);
    let store: Arc<dyn Store> = Arc::new(Moved { shards: same.shards().to_vec(), files });
    // Longer than when it was opened.
    let last = &shards[0];
    let longer = [&vec![0xEE; BEFORE as usize], &last.1[..], &[7; 5000]].concat();
    std::fs::write(dir.path().join(&last.0), longer).unwrap();
    let records = [
        vec![span(0, 0, 300_001)],
        vec![span(0, 4095, 2), span(5, 12_345, 40_000)],
        vec![span(3, 0, 4097)],
        vec![span(4, 0, 1)],
    ];
    for mode in MODES {
        let harbour = Harbour::new(&store, mode, SMALL);
        for record in &records {
            assert!(whole(harbour.read(record)) == wanted(&*same, record), "{mode:?} {record:?}");
        }
    }
}
