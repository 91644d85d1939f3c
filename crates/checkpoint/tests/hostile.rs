//! Broken and hostile files through the parsers.
//!
//! Each file in `hostile/` is named `Kind--what`, where the kind is the error it must give,
//! or `Ok`. A new way to be wrong is added by adding a file.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use deltafin_checkpoint::pack::Manifest;
use deltafin_checkpoint::{Config, Header, Index};

/// The error's variant, and whether its message is one line of sensible length.
fn judge<T, E: std::fmt::Debug + std::fmt::Display>(parsed: Result<T, E>) -> String {
    match parsed {
        Ok(_) => "Ok".to_owned(),
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains('\n') && message.len() < 600, "{message}");
            let variant = format!("{error:?}");
            variant.split([' ', '(', '{']).next().unwrap().to_owned()
        }
    }
}

fn check_folder(kind: &str, least: usize, parse: impl Fn(&[u8]) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile").join(kind);
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let (wanted, _) = name.split_once("--").unwrap();
        let found = parse(&fs::read(&path).unwrap());
        assert_eq!(found, wanted, "{kind}/{name}");
        count += 1;
    }
    assert!(count >= least, "{count} files of {kind}");
}

#[test]
fn headers() {
    check_folder("headers", 70, |bytes| judge(Header::parse(bytes, bytes.len() as u64)));
}

#[test]
fn indexes() {
    check_folder("indexes", 25, |bytes| judge(Index::parse(bytes)));
}

#[test]
fn configs() {
    check_folder("configs", 20, |bytes| judge(Config::parse(bytes)));
}

#[test]
fn packs() {
    check_folder("packs", 55, |bytes| judge(Manifest::parse(bytes)));
}

/// These two cannot be told from a small file alone.
#[test]
fn a_header_longer_than_any_or_than_what_was_read_is_refused() {
    let mut bytes = 100_000_001u64.to_le_bytes().to_vec();
    bytes.extend_from_slice(b"{}");
    assert_eq!(judge(Header::parse(&bytes, 1 << 40)), "LengthAbsurd");
    let bytes = [2u64.to_le_bytes().as_slice(), b"{"].concat();
    assert_eq!(judge(Header::parse(&bytes, 10)), "BytesMissing");
    assert_eq!(judge(Header::parse(&[], 10)), "BytesMissing");
}
