//! Folders as they are found in the field: links, odd names, stopped transfers, files that
//! change under way.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use deltafin_checkpoint::{ShardId, Span};
use deltafin_store::{LocalShards, OpenError, Store, StoreError, declared_ids, open_dir};
use support::{files, write_to};
use tempfile::TempDir;

const SHARD_1: &str = "model-00001-of-000005.safetensors";
const SHARD_2: &str = "model-00002-of-000005.safetensors";

fn install() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_to(dir.path(), &files());
    dir
}

fn error_of(path: &Path) -> String {
    let message = open_dir(path).unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

fn holds(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "wanted {part:?} in: {message}");
    }
}

#[test]
fn a_linked_folder_opens() {
    let dir = install();
    let link = dir.path().join("link to model");
    symlink(dir.path(), &link).unwrap();
    open_dir(&link).unwrap();
}

#[test]
fn odd_names_open() {
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("my models/модель 月 'x'");
    fs::create_dir_all(&odd).unwrap();
    write_to(&odd, &files());
    open_dir(&odd).unwrap();
}

/// snapshots/REVISION/NAME links to ../../blobs/HASH.
fn hub_cache(root: &Path) -> PathBuf {
    let (blobs, snapshot) = (root.join("blobs"), root.join("snapshots/f831ab6"));
    fs::create_dir_all(&blobs).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    for (number, (name, bytes)) in files().into_iter().enumerate() {
        let blob = format!("{number:040x}");
        fs::write(blobs.join(&blob), bytes).unwrap();
        symlink(format!("../../blobs/{blob}"), snapshot.join(name)).unwrap();
    }
    snapshot
}

#[test]
fn a_hub_cache_of_relative_links_opens() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = open_dir(hub_cache(dir.path())).unwrap();
    checkpoint.identity().unwrap();
}

#[test]
fn a_dangling_link_names_itself_and_its_target() {
    for name in [SHARD_2, "config.json", support::INDEX] {
        let dir = tempfile::tempdir().unwrap();
        let snapshot = hub_cache(dir.path());
        let target = fs::read_link(snapshot.join(name)).unwrap();
        fs::remove_file(snapshot.join(&target)).unwrap();
        holds(&error_of(&snapshot), &[name, target.to_str().unwrap(), "does not exist"]);
    }
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("gone");
    symlink("/nowhere/model", &link).unwrap();
    holds(&error_of(&link), &["gone", "/nowhere/model"]);
}

#[test]
fn a_link_to_itself_is_called_that() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("round");
    symlink("round", &link).unwrap();
    let message = error_of(&link);
    holds(&message, &["round", "symbolic links"]);
    assert!(!message.contains("does not exist"), "{message}");
}

#[test]
fn the_declared_ids_need_no_weights() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(declared_ids(dir.path()).unwrap(), None);
    let small = files().into_iter().filter(|(name, _)| !name.ends_with(".safetensors"));
    write_to(dir.path(), &small.collect());
    let whole = install();
    let checkpoint = open_dir(whole.path()).unwrap();
    let declared = declared_ids(dir.path()).unwrap().unwrap();
    assert_eq!(declared.vocab, checkpoint.spec().vocab);
    assert_eq!(declared.stop_ids, checkpoint.stop_ids());
    fs::write(dir.path().join("config.json"), "{").unwrap();
    holds(&declared_ids(dir.path()).unwrap_err().to_string(), &["config.json"]);
}

#[test]
fn what_is_no_folder_is_told_apart() {
    let dir = install();
    holds(&error_of(&dir.path().join("absent")), &["absent", "no such folder"]);
    holds(&error_of(&dir.path().join("config.json")), &["not a folder"]);
    let empty = tempfile::tempdir().unwrap();
    holds(&error_of(empty.path()), &["config.json", "no checkpoint"]);
}

#[test]
fn a_stopped_install_says_how_much_is_there() {
    let dir = install();
    fs::remove_file(dir.path().join(SHARD_1)).unwrap();
    fs::rename(dir.path().join(SHARD_2), dir.path().join(format!("{SHARD_2}.incomplete"))).unwrap();
    File::create(dir.path().join("other.part")).unwrap();
    let message = error_of(dir.path());
    holds(&message, &["incomplete, 3 of 5 shards present", SHARD_1, "other.part"]);
    holds(&message, &[&format!("{SHARD_2}.incomplete")]);
}

/// A name that no shard ever had is the index's fault, not the folder's.
#[test]
fn what_is_missing_is_said_to_be_in_the_index() {
    let dir = install();
    let index = dir.path().join("model.safetensors.index.json");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replacen(SHARD_2, "model-2.safetensnrs", 1)).unwrap();
    let message = error_of(dir.path());
    holds(&message, &["model-2.safetensnrs", "model.safetensors.index.json again"]);
}

#[test]
fn a_stopped_transfer_into_a_hub_cache_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let snapshot = hub_cache(dir.path());
    fs::remove_file(snapshot.join(SHARD_2)).unwrap();
    File::create(dir.path().join("blobs/0f.incomplete")).unwrap();
    holds(&error_of(&snapshot), &["4 of 5", SHARD_2, "0f.incomplete"]);
}

#[test]
fn leftovers_beside_a_whole_checkpoint_are_a_notice() {
    let dir = install();
    assert!(open_dir(dir.path()).unwrap().notices.is_empty());
    let cache = dir.path().join(".cache/huggingface/download");
    fs::create_dir_all(&cache).unwrap();
    File::create(cache.join("x.incomplete")).unwrap();
    let checkpoint = open_dir(dir.path()).unwrap();
    holds(&checkpoint.notices[0], &["x.incomplete"]);
}

#[test]
fn a_shard_that_is_no_file_is_refused_without_waiting() {
    let dir = install();
    fs::remove_file(dir.path().join(SHARD_2)).unwrap();
    fs::create_dir(dir.path().join(SHARD_2)).unwrap();
    holds(&error_of(dir.path()), &[SHARD_2, "not an ordinary file"]);
    fs::remove_dir(dir.path().join(SHARD_2)).unwrap();
    let made = std::process::Command::new("mkfifo").arg(dir.path().join(SHARD_2)).status();
    if made.is_ok_and(|status| status.success()) {
        holds(&error_of(dir.path()), &[SHARD_2, "not an ordinary file"]);
    }
}

#[test]
fn a_small_file_of_absurd_size_is_not_read() {
    let dir = install();
    let file = File::create(dir.path().join("config.json")).unwrap();
    file.set_len(1 << 40).unwrap();
    holds(&error_of(dir.path()), &["config.json", &(1u64 << 40).to_string()]);
}

fn span(offset: u64, len: u64) -> Span {
    Span::new(ShardId::new(0), offset, len).unwrap()
}

#[test]
fn a_file_cut_in_use_is_an_error_with_path_and_offset() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    fs::write(&path, [1; 100]).unwrap();
    let store = LocalShards::open(dir.path(), &["s"]).unwrap();
    store.read_exact(span(50, 50), &mut [0; 50]).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(70).unwrap();
    let error = store.read_exact(span(50, 50), &mut [0; 50]).unwrap_err();
    let file = path.display().to_string();
    assert_eq!(error, StoreError::EndOfFile { file, offset: 50, wanted: 50, got: 20 });
    store.read_exact(span(0, 70), &mut [0; 70]).unwrap();
}

#[test]
fn a_file_replaced_in_use_is_read_on_while_open_and_refused_once_closed() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["s", "t"];
    for name in names {
        fs::write(dir.path().join(name), [1; 100]).unwrap();
    }
    let store = LocalShards::open_bounded(dir.path(), &names, 1).unwrap();
    let mut buf = [0; 100];
    store.read_exact(span(0, 100), &mut buf).unwrap();
    fs::write(dir.path().join("new"), [2; 100]).unwrap();
    fs::rename(dir.path().join("new"), dir.path().join("s")).unwrap();
    store.read_exact(span(0, 100), &mut buf).unwrap();
    assert_eq!(buf, [1; 100], "the file that was opened");
    let other = Span::new(ShardId::new(1), 0, 100).unwrap();
    store.read_exact(other, &mut buf).unwrap();
    let error = store.read_exact(span(0, 100), &mut buf).unwrap_err();
    assert!(matches!(&error, StoreError::Changed { file, .. } if file.ends_with("/s")), "{error}");
    fs::remove_file(dir.path().join("s")).unwrap();
    let error = store.read_exact(span(0, 100), &mut buf).unwrap_err();
    assert!(matches!(&error, StoreError::Reopen { file, .. } if file.ends_with("/s")), "{error}");
    store.read_exact(other, &mut buf).unwrap();
}

/// Both fixtures have one architecture and different weights.
#[test]
fn the_fixtures_open() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures");
    let open = |name: &str| open_dir(fixtures.join(name)).unwrap();
    let (micro, calm) = (open("k3-micro"), open("k3-calm"));
    assert_eq!(micro.spec(), calm.spec());
    assert_eq!(micro.catalog.identity(), calm.catalog.identity());
    assert_ne!(micro.identity().unwrap(), calm.identity().unwrap());
    assert_eq!(micro.catalog.ignored().tensors, 12);
    assert_eq!(micro.stop_ids(), [258]);
    assert!(micro.tokenizer.unwrap().config.is_some());
}

#[test]
fn errors_can_be_kept_and_compared() {
    fn is<T: Clone + PartialEq + Send + Sync + std::error::Error>() {}
    is::<OpenError>();
    is::<StoreError>();
}

#[test]
fn without_an_index_the_shards_names_are_enough() {
    let dir = install();
    fs::remove_file(dir.path().join("model.safetensors.index.json")).unwrap();
    // Other files of the kind are not taken for shards.
    fs::copy(dir.path().join(SHARD_1), dir.path().join("notes.safetensors")).unwrap();
    open_dir(dir.path()).unwrap();
    fs::remove_file(dir.path().join(SHARD_2)).unwrap();
    holds(&error_of(dir.path()), &["4 of 5 shards", SHARD_2]);
}

#[test]
fn a_folder_without_shards_says_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files().into_iter().filter(|(name, _)| name.ends_with("config.json")) {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    for odd in
        ["model-1-of-.safetensors", "model-x-of-3.safetensors", "model-1-of-99999999.safetensors"]
    {
        fs::write(dir.path().join(odd), b"").unwrap();
    }
    holds(&error_of(dir.path()), &["no model.safetensors.index.json"]);
}

#[test]
fn one_look_finds_the_missing_and_the_cut_shard() {
    let dir = install();
    fs::remove_file(dir.path().join(SHARD_1)).unwrap();
    let cut = dir.path().join(SHARD_2);
    let len = fs::metadata(&cut).unwrap().len();
    File::options().write(true).open(&cut).unwrap().set_len(len - 5).unwrap();
    let found = deltafin_store::inspect_dir(dir.path());
    let words: Vec<_> = found.problems.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), 2, "{words:?}");
    holds(&words[0], &["4 of 5", SHARD_1]);
    holds(&words[1], &[SHARD_2, &len.to_string()]);
}

#[test]
fn a_spine_that_was_taken_out_is_refused_though_no_note_says_so() {
    let zero = |files: &mut support::Files, suffix: &str| {
        for shard in support::plan() {
            let mut at = shard.header().len();
            for tensor in &shard.tensors {
                let end = at + tensor.bytes() as usize;
                if tensor.name.ends_with(suffix) {
                    files.get_mut(&shard.name).unwrap()[at..end].fill(0);
                }
                at = end;
            }
        }
    };
    let gone = ["layers.1.input_layernorm.weight", "layers.2.post_attention_layernorm.weight"];
    for norm in gone.into_iter().chain(["model.norm.weight"]) {
        let (dir, mut files) = (tempfile::tempdir().unwrap(), files());
        zero(&mut files, norm);
        write_to(dir.path(), &files);
        let message = error_of(dir.path());
        holds(&message, &["-of-000005.safetensors", norm, "deltafin setup --spine bf16 --model"]);
    }
    // Nothing but holes was meant to be so.
    let (dir, mut files) = (tempfile::tempdir().unwrap(), files());
    zero(&mut files, "");
    write_to(dir.path(), &files);
    open_dir(dir.path()).unwrap();
}
