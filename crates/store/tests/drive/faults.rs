//! Files that change under a reader, in every mode.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use deltafin_store::drive::{Class, Landed, Ticket, Tuning};
use deltafin_store::{LocalShards, Store, StoreError};

use crate::support::*;

fn store(dir: &Path, names: &[&str], max_open: usize) -> Arc<dyn Store> {
    Arc::new(LocalShards::open_bounded(dir, names, max_open).unwrap())
}

fn failed(landed: Landed) -> StoreError {
    let Landed::Failed(_, error) = landed else { panic!("{landed:?}") };
    error
}

/// Told like the store tells it, though chunks behind the end fail too and in any order.
#[test]
fn a_file_cut_in_use_is_an_error_with_path_and_offset() {
    for mode in MODES {
        for cut in [0, 5000, 100_000, 131_072, 199_999] {
            let dir = folder();
            let path = dir.path().join("s");
            fs::write(&path, noise(200_000, 1)).unwrap();
            let store = store(dir.path(), &["s"], 9);
            let harbour = Harbour::new(&store, mode, SMALL);
            let piece = span(0, 100, 199_900);
            assert_eq!(whole(harbour.read(&[piece])).len(), 199_900);
            File::options().write(true).open(&path).unwrap().set_len(cut).unwrap();
            let file = path.display().to_string();
            let got = cut.saturating_sub(100);
            let wanted = StoreError::EndOfFile { file, offset: 100, wanted: 199_900, got };
            assert_eq!(failed(harbour.read(&[piece])), wanted, "{mode}, cut to {cut}");
            assert_eq!(harbour.arena.free_bytes(), harbour.arena.len());
        }
    }
}

/// Another file of the same length under the same name gives its bytes to nobody.
#[test]
fn a_file_replaced_in_use_is_noticed_when_it_is_opened_again() {
    for mode in MODES {
        let dir = folder();
        for name in ["s", "t"] {
            fs::write(dir.path().join(name), [1; 10_000]).unwrap();
        }
        let store = store(dir.path(), &["s", "t"], 1);
        let harbour = Harbour::new(&store, mode, SMALL);
        assert_eq!(whole(harbour.read(&[span(0, 0, 10_000)])), [1; 10_000]);
        fs::write(dir.path().join("new"), [2; 10_000]).unwrap();
        fs::rename(dir.path().join("new"), dir.path().join("s")).unwrap();
        assert_eq!(whole(harbour.read(&[span(1, 0, 10_000)])), [1; 10_000]);
        let error = failed(harbour.read(&[span(0, 0, 10_000)]));
        assert!(matches!(&error, StoreError::Changed { file, .. } if file.ends_with("/s")));
        fs::remove_file(dir.path().join("s")).unwrap();
        let error = failed(harbour.read(&[span(0, 0, 10_000)]));
        assert!(matches!(&error, StoreError::Reopen { file, .. } if file.ends_with("/s")));
        assert_eq!(whole(harbour.read(&[span(1, 1, 9999)])), [1; 9999], "others go on");
    }
}

/// A file that is a hole up to there.
#[test]
fn offsets_above_four_gib_stay_whole() {
    let dir = folder();
    let (offset, bytes) = ((5 << 30) + 4093, noise(70_001, 3));
    let file = File::create(dir.path().join("big")).unwrap();
    file.write_all_at(&bytes, offset).unwrap();
    let store = store(dir.path(), &["big"], 9);
    for mode in MODES {
        let harbour = Harbour::new(&store, mode, SMALL);
        assert_eq!(whole(harbour.read(&[span(0, offset, 70_001)])), bytes);
        assert_eq!(whole(harbour.read(&[span(0, offset - 2, 3)])), [0, 0, bytes[0]]);
        assert!(matches!(
            failed(harbour.read(&[span(0, offset + 1, 70_001)])),
            StoreError::EndOfFile { wanted: 70_001, got: 70_000, .. }
        ));
    }
}

/// The end of a file, wherever in a page it is.
#[test]
fn last_pages_are_read_to_their_last_byte() {
    for mode in MODES {
        for len in [1, 511, 512, 513, 4095, 4096, 4097, 8191, 8192, 8193, 12_288] {
            let dir = folder();
            let bytes = noise(len, len as u64);
            fs::write(dir.path().join("s"), &bytes).unwrap();
            let harbour = Harbour::new(&store(dir.path(), &["s"], 9), mode, SMALL);
            for from in [0, len / 2, len - 1] {
                let piece = span(0, from as u64, (len - from) as u64);
                assert_eq!(whole(harbour.read(&[piece])), bytes[from..], "{mode}, {from}..{len}");
            }
        }
    }
}

/// More files than may be open, all in flight at once.
#[test]
fn a_bound_of_open_files_delays_and_breaks_nothing() {
    let dir = folder();
    let names: Vec<String> = (0..40).map(|number| format!("s{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        fs::write(dir.path().join(name), noise(20_000, number as u64)).unwrap();
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let store = store(dir.path(), &names, 2);
    for mode in MODES {
        let harbour = Harbour::new(&store, mode, Tuning { depth: 32, ..SMALL });
        for number in 0..40 {
            harbour.ask(number as u64, Class::Demand, &[span(number, 1, 19_999)]);
        }
        let mut landed = harbour.shore.by_ticket(40);
        for number in 0..40 {
            let bytes = whole(landed.remove(&Ticket(number)).unwrap());
            assert_eq!(bytes, noise(20_000, number)[1..]);
        }
    }
}
