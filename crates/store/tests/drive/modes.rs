//! Which mode a drive gets, and what is said about it.

use std::sync::Arc;

use deltafin_store::arena::Arena;
use deltafin_store::drive::{Class, DriveReport, IoMode, ReaderError, Traffic, open_reader};
use deltafin_store::{LocalShards, Store};

use crate::support::*;

fn opened(store: &Arc<dyn Store>, mode: IoMode) -> Result<Vec<DriveReport>, ReaderError> {
    let arena = Arena::new(1).unwrap();
    let reader = open_reader(Arc::clone(store), mode, &[arena], Arc::new(Shore::default()))?;
    Ok(reader.report().drives)
}

#[test]
fn what_is_no_file_is_read_through_the_store_or_refused_by_name() {
    let store = in_memory(&shards());
    let drives = opened(&store, IoMode::Auto).unwrap();
    assert_eq!((drives.len(), drives[0].mode), (1, IoMode::Buffered));
    assert_eq!(drives[0].notice, None, "memory is no lesser way");
    assert!(drives[0].how.contains("from memory"), "{}", drives[0].how);
    for mode in [IoMode::Uring, IoMode::Direct] {
        let error = opened(&store, mode).unwrap_err();
        assert_eq!(error, ReaderError::NoFile { file: "s0".to_owned(), mode });
        assert!(error.to_string().contains("auto"), "{error}");
    }
}

#[test]
fn a_store_without_shards_can_be_opened() {
    let store: Arc<dyn Store> = Arc::new(LocalShards::open(folder().path(), &[""; 0]).unwrap());
    assert_eq!(opened(&store, IoMode::Auto).unwrap()[0].mode, IoMode::Buffered);
}

/// `/proc` has ordinary files that no direct open is possible of.
#[cfg(target_os = "linux")]
#[test]
fn a_drive_without_direct_reads_is_read_through_the_page_cache_with_a_notice() {
    let dir = std::path::Path::new("/proc/self");
    let store = LocalShards::open(dir, &["status"]).unwrap();
    let store: Arc<dyn Store> = Arc::new(Sized(store));
    let drives = opened(&store, IoMode::Auto).unwrap();
    assert_eq!(drives[0].mode, IoMode::Buffered);
    let notice = drives[0].notice.clone().unwrap();
    assert!(notice.contains("no uring reads (") && notice.contains("no direct reads ("));
    assert!(!notice.contains('\n'), "{notice}");
    for mode in [IoMode::Uring, IoMode::Direct] {
        let ReaderError::Refused { file, mode: refused, reason } =
            opened(&store, mode).unwrap_err()
        else {
            panic!()
        };
        assert_eq!((file.as_str(), refused), ("/proc/self/status", mode));
        assert!(!reason.is_empty());
    }
}

/// A store whose one shard is said to have a page: files in `/proc` say that they have nothing.
#[cfg(target_os = "linux")]
struct Sized(LocalShards);

#[cfg(target_os = "linux")]
impl Store for Sized {
    fn shards(&self) -> &[deltafin_checkpoint::Shard] {
        static SHARDS: std::sync::OnceLock<Vec<deltafin_checkpoint::Shard>> =
            std::sync::OnceLock::new();
        SHARDS.get_or_init(|| {
            vec![deltafin_checkpoint::Shard { name: "status".to_owned(), len: 4096 }]
        })
    }

    fn read_exact(
        &self,
        span: deltafin_checkpoint::Span,
        buf: &mut [u8],
    ) -> Result<(), deltafin_store::StoreError> {
        self.0.read_exact(span, buf)
    }

    fn file(&self, shard: deltafin_checkpoint::ShardId) -> Option<deltafin_store::LocalFile<'_>> {
        self.0.file(shard)
    }
}

/// What a report says of a known run.
#[test]
fn reports_count_reads_by_class_and_what_came_along() {
    let dir = folder();
    let store = on_disk(dir.path(), &shards());
    for mode in MODES {
        let harbour = Harbour::new(&store, mode, SMALL);
        harbour.ask(1, Class::Demand, &[span(0, 4000, 200)]);
        harbour.ask(2, Class::Guess, &[span(0, 0, 8192)]);
        harbour.ask(3, Class::Guess, &[span(0, 4096, 4096)]);
        harbour.shore.wait(3);
        let report = harbour.reader.report();
        assert_eq!(report.drives.len(), 1);
        let drive = &report.drives[0];
        assert!(drive.file.ends_with("s0"), "{}", drive.file);
        assert_eq!(drive.mode, mode);
        assert!(!drive.how.is_empty());
        assert_eq!(drive.landed(Class::Demand), Traffic { reads: 1, bytes: 200 });
        assert_eq!(report.landed(Class::Guess), Traffic { reads: 2, bytes: 12_288 });
        assert_eq!(report.landed(Class::Ahead), Traffic::default());
        let along = if mode == IoMode::Buffered { 0 } else { 8192 - 200 };
        assert_eq!((drive.over_read_bytes, drive.retries), (along, 0));
        assert!(drive.busy > std::time::Duration::ZERO);
        assert!((1..=3).contains(&drive.most_reads));
    }
}

/// Registered memory cannot be given back under the kernel's feet; afterwards it can.
#[cfg(target_os = "linux")]
#[test]
fn registered_memory_is_whole_after_free_memory_was_given_back() {
    let dir = folder();
    let store = on_disk(dir.path(), &shards());
    let harbour = Harbour::new(&store, IoMode::Uring, deltafin_store::drive::Tuning::default());
    let piece = [span(0, 0, 300_001)];
    for _ in 0..3 {
        assert_eq!(whole(harbour.read(&piece)), wanted(&*store, &piece));
        harbour.arena.release_free();
    }
    // A slab of memory that the ring does not know.
    let other = Arena::new(1 << 20).unwrap();
    let slab = other.take(deltafin_store::drive::room_for(&piece)).unwrap();
    harbour.reader.read(deltafin_store::drive::Ticket(5), Class::Demand, &piece, slab);
    assert_eq!(whole(harbour.shore.wait(1).remove(0).1), wanted(&*store, &piece));
}
