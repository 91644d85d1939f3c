//! What every store must do, run against each of them.
#![allow(clippy::unwrap_used)]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use deltafin_checkpoint::{Record, ShardId, Span};
use deltafin_store::{LocalShards, MemoryShards, ShardBytes, Store, StoreError, read_record};
use support::Random;

/// Shards of different lengths, one of them empty.
fn shards() -> Vec<(String, Vec<u8>)> {
    let bytes = |len: usize, seed| {
        let mut random = Random(seed);
        (0..len).map(|_| random.below(256) as u8).collect()
    };
    vec![
        ("a.safetensors".to_owned(), bytes(100_000, 1)),
        ("b with space.safetensors".to_owned(), bytes(1, 2)),
        ("ç-月.safetensors".to_owned(), bytes(0, 3)),
        ("d.safetensors".to_owned(), bytes(4097, 4)),
    ]
}

fn span(shard: usize, offset: u64, len: u64) -> Span {
    Span::new(ShardId::new(shard as u32), offset, len).unwrap()
}

fn read(store: &dyn Store, span: Span) -> Result<Vec<u8>, StoreError> {
    let mut buf = vec![0xA5; span.len() as usize];
    store.read_exact(span, &mut buf).map(|()| buf)
}

/// The whole contract. `shards` is what the store was made from.
fn check(store: &dyn Store, shards: &[(String, Vec<u8>)]) {
    names_and_lengths_are_known(store, shards);
    every_span_reads_its_bytes(store, shards);
    beyond_the_end_is_an_error_with_numbers(store, shards);
    an_unknown_shard_is_an_error(store, shards);
    a_buffer_of_another_length_is_the_callers_fault(store);
    pieces_are_read_back_to_back(store, shards);
    many_threads_may_read(store, shards);
}

fn names_and_lengths_are_known(store: &dyn Store, shards: &[(String, Vec<u8>)]) {
    assert_eq!(store.shards().len(), shards.len());
    for (known, (name, bytes)) in store.shards().iter().zip(shards) {
        assert_eq!((&known.name, known.len), (name, bytes.len() as u64));
    }
}

fn every_span_reads_its_bytes(store: &dyn Store, shards: &[(String, Vec<u8>)]) {
    for (number, (_, bytes)) in shards.iter().enumerate() {
        let len = bytes.len() as u64;
        for (offset, part) in
            [(0, len), (0, 0), (len, 0), (len / 2, len - len / 2), (len / 3, len / 2)]
        {
            let wanted = &bytes[offset as usize..(offset + part) as usize];
            assert_eq!(read(store, span(number, offset, part)).unwrap(), wanted);
        }
    }
}

fn beyond_the_end_is_an_error_with_numbers(store: &dyn Store, shards: &[(String, Vec<u8>)]) {
    for (number, (name, bytes)) in shards.iter().enumerate() {
        let len = bytes.len() as u64;
        for (at, wanted, there) in
            [(0, len + 1, len), (len, 3, 0), (len + 9, 2, 0), (u64::MAX - 2, 2, 0)]
        {
            let error = read(store, span(number, at, wanted)).unwrap_err();
            let StoreError::EndOfFile { file, offset, wanted: w, got } = &error else {
                panic!("{error:?}")
            };
            assert!(file.ends_with(name.as_str()), "{file}");
            assert_eq!((*offset, *w, *got), (at, wanted, there));
        }
    }
}

fn an_unknown_shard_is_an_error(store: &dyn Store, shards: &[(String, Vec<u8>)]) {
    let error = read(store, span(shards.len(), 0, 1)).unwrap_err();
    assert_eq!(error, StoreError::NoShard { number: shards.len(), shards: shards.len() });
}

fn a_buffer_of_another_length_is_the_callers_fault(store: &dyn Store) {
    for len in [3, 5] {
        let call = || store.read_exact(span(0, 0, 4), &mut vec![0; len]);
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    }
}

fn pieces_are_read_back_to_back(store: &dyn Store, shards: &[(String, Vec<u8>)]) {
    let pieces = [span(3, 4000, 97), span(0, 7, 1000), span(1, 0, 1), span(0, 0, 0), span(0, 0, 2)];
    let record = Record::new(&pieces).unwrap();
    let mut buf = vec![0; record.len() as usize];
    read_record(store, record, &mut buf).unwrap();
    let part = |piece: &Span| {
        &shards[piece.shard().index()].1[piece.offset() as usize..piece.end() as usize]
    };
    assert_eq!(buf, pieces.iter().map(part).collect::<Vec<_>>().concat());
    let broken = [span(0, 0, 4), span(1, 0, 2)];
    let error = read_record(store, Record::new(&broken).unwrap(), &mut [0; 6]).unwrap_err();
    assert!(matches!(error, StoreError::EndOfFile { wanted: 2, got: 1, .. }));
}

fn many_threads_may_read(store: &dyn Store, shards: &[(String, Vec<u8>)]) {
    std::thread::scope(|scope| {
        for seed in 0..8 {
            scope.spawn(move || {
                let mut random = Random(seed);
                for _ in 0..200 {
                    let number = random.below(shards.len());
                    let bytes = &shards[number].1;
                    let offset = random.below(bytes.len() + 1);
                    let len = random.below(bytes.len() - offset + 1);
                    let found = read(store, span(number, offset as u64, len as u64)).unwrap();
                    assert_eq!(found, bytes[offset..offset + len]);
                }
            });
        }
    });
}

fn on_disk(dir: &Path, shards: &[(String, Vec<u8>)]) -> Vec<String> {
    for (name, bytes) in shards {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
    shards.iter().map(|shard| shard.0.clone()).collect()
}

#[test]
fn memory_shared() {
    let shards = shards();
    let bytes = shards.iter().map(|(name, bytes)| (name.clone(), ShardBytes::from(bytes.clone())));
    check(&MemoryShards::new(bytes), &shards);
}

#[test]
fn memory_static() {
    let shards = shards();
    let leak = |bytes: &Vec<u8>| ShardBytes::Static(bytes.clone().leak());
    check(&MemoryShards::new(shards.iter().map(|(name, b)| (name.clone(), leak(b)))), &shards);
}

#[test]
fn local() {
    let (dir, shards) = (tempfile::tempdir().unwrap(), shards());
    let names = on_disk(dir.path(), &shards);
    let store: Arc<dyn Store> = Arc::new(LocalShards::open(dir.path(), &names).unwrap());
    check(&*store, &shards);
}

/// With fewer open files than shards, down to one.
#[test]
fn local_with_few_open_files() {
    let (dir, shards) = (tempfile::tempdir().unwrap(), shards());
    let names = on_disk(dir.path(), &shards);
    for max_open in [0, 1, 2, 3] {
        let store = LocalShards::open_bounded(dir.path(), &names, max_open).unwrap();
        assert_eq!(store.max_open(), max_open.max(1));
        check(&store, &shards);
    }
}

/// An offset above 4 GiB, in a file that is a hole up to there.
#[test]
fn local_above_four_gib() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let offset = (5 << 30) + 3;
    let file = std::fs::File::create(dir.path().join("big")).unwrap();
    file.write_all_at(b"here", offset).unwrap();
    let store = LocalShards::open(dir.path(), &["big"]).unwrap();
    assert_eq!(read(&store, span(0, offset, 4)).unwrap(), b"here");
    assert_eq!(read(&store, span(0, offset - 2, 3)).unwrap(), b"\0\0h");
    assert!(read(&store, span(0, offset + 1, 4)).is_err());
}
