//! Whether a drive still gives every byte of a checkpoint that no digests are known of.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use deltafin_checkpoint::{Shard, ShardId, Span};
use deltafin_store::Store;

use crate::{Damage, Event, FetchError, Verified, Watch};

/// Bytes read at once.
const BLOCK_BYTES: u64 = 4 << 20;

/// Reads all of it, on as many threads as there are processors. What cannot be read is damage; what reads as
/// other bytes than it should is not found.
///
/// # Errors
/// When `stop` was raised.
pub fn read_through(
    store: &dyn Store,
    watch: &dyn Watch,
    stop: &AtomicBool,
) -> Result<Verified, FetchError> {
    let shards = store.shards();
    let blocks: Vec<Span> =
        (0..).zip(shards).flat_map(|(number, shard)| blocks(number, shard)).collect();
    let bytes = shards.iter().map(|shard| shard.len).sum();
    watch.event(Event::Plan { source: "", files: shards.len(), bytes });
    let (next, damage) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        let mut buf = vec![0; BLOCK_BYTES as usize];
        while !stop.load(Ordering::Relaxed) {
            let Some(span) = blocks.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let bytes = span.len();
            if let Err(error) = store.read_exact(*span, &mut buf[..bytes as usize]) {
                let (file, offset) = (shards[span.shard().index()].name.clone(), span.offset());
                let of = error.to_string();
                let unread = Damage { file, offset, bytes, of, converted: None, cut_from: None };
                damage.lock().unwrap_or_else(PoisonError::into_inner).push(unread);
            }
            watch.event(Event::Kept { bytes });
        }
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, usize::from) {
            // Fewer are slower, and no harm.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    if stop.load(Ordering::Relaxed) {
        return Err(FetchError::Interrupted);
    }
    let mut damage = damage.into_inner().unwrap_or_else(PoisonError::into_inner);
    damage.sort_by(|a, b| (&a.file, a.offset).cmp(&(&b.file, b.offset)));
    Ok(Verified { files: shards.len(), bytes, damage })
}

fn blocks(number: u32, shard: &Shard) -> impl Iterator<Item = Span> + use<> {
    let (shard, end) = (ShardId::new(number), shard.len);
    let offsets = (0..end.div_ceil(BLOCK_BYTES)).map(|block| block * BLOCK_BYTES);
    offsets.filter_map(move |offset| Span::new(shard, offset, BLOCK_BYTES.min(end - offset)))
}
