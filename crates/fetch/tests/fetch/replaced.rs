//! Mirrors that have other files than when a folder was begun, before, while or after setup runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use deltafin_checkpoint::Span;
use deltafin_fetch::{
    Event, FetchError, Installed, Order, Source, Spine, Streaming, Wanted, install, is_finished,
    list, open_streamed, repair, verify,
};
use deltafin_store::Checkpoint;
use deltafin_testkit::fixture;
use deltafin_testkit::hub::{Hub, Misstep, Missteps, Told, checkpoint_files};

use crate::streamed::{set_up, streaming};
use crate::support::{HASTY, contents, install_half, order, quiet, source, whole_hub};

const SHARD: &str = "model-00004-of-000012.safetensors";
/// All of this one comes with what every token uses.
const EARLY: &str = "model-00001-of-000012.safetensors";
const OTHER: &str = "model-00003-of-000012.safetensors";
const LAST: &str = "model-00012-of-000012.safetensors";

fn files() -> BTreeMap<String, Vec<u8>> {
    checkpoint_files(&fixture("k3-micro")).into_iter().collect()
}

/// As it was, but for one of its last bytes.
fn other(name: &str) -> Vec<u8> {
    let mut bytes = files()[name].clone();
    *bytes.last_mut().unwrap() ^= 1;
    bytes
}

/// As it was, and a word longer.
fn longer(name: &str) -> Vec<u8> {
    let mut bytes = files()[name].clone();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    bytes.splice(8 + length as usize..8 + length as usize, [b' '; 8]);
    bytes[..8].copy_from_slice(&(length + 8).to_le_bytes());
    bytes
}

fn mirror(told: Told) -> (Arc<Hub>, Source, tempfile::TempDir) {
    let hub = Arc::new(whole_hub(Missteps::none()));
    hub.tell(told);
    let source = hub.mirror().parse().unwrap();
    (hub, source, tempfile::tempdir().unwrap())
}

fn bring(source: &Source, dir: &Path, wanted: Wanted) -> Result<Installed, FetchError> {
    bring_as(source, dir, wanted, Spine::AsBegun)
}

fn bring_as(
    source: &Source,
    dir: &Path,
    wanted: Wanted,
    spine: Spine,
) -> Result<Installed, FetchError> {
    let order = Order { wanted, spine, patience: HASTY, ..order(source, dir, "") };
    install(&Order { endpoint: None, ..order }, quiet(), &AtomicBool::new(false))
}

fn opened(dir: &Path) -> Checkpoint {
    let streaming = Streaming { endpoint: None, ..streaming(dir, "", HASTY) };
    open_streamed(&streaming, quiet(), Arc::default()).unwrap()
}

/// Brings one expert that is not here of a shard.
fn ask(dir: &Path, name: &str) -> Result<(), String> {
    let checkpoint = opened(dir);
    let spec = checkpoint.spec();
    let experts =
        spec.moe_layers().flat_map(|layer| spec.moe.expert_ids().map(move |e| (layer, e)));
    let is_of = |span: &Span| checkpoint.store.shards()[span.shard().index()].name == name;
    let distant = checkpoint.store.distant().unwrap();
    let mut records =
        experts.map(|(layer, expert)| checkpoint.catalog.expert(layer, expert).record);
    let record =
        records.find(|record| is_of(&record.pieces()[0]) && !distant.is_here(record.pieces()));
    let brought = distant.bring(record.unwrap().pieces(), &AtomicBool::new(false));
    brought.map_err(|error| error.to_string())
}

/// All that a mirror has at this moment is here.
#[track_caller]
fn assert_of(hub_has: &[(&str, Vec<u8>)], dir: &Path) {
    let mut wanted = files();
    wanted.extend(hub_has.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())));
    let found = contents(dir);
    assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for (name, bytes) in wanted {
        assert!(found[&name] == bytes, "{name} is not what the mirror has");
    }
}

/// The command that a message names, without the program.
#[track_caller]
fn assert_names(message: &str, words: &[&str]) {
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
}

#[test]
fn a_streamed_shard_that_was_replaced_is_named_and_comes_anew() {
    for (told, bytes, what) in [
        (Told::Tags, other(SHARD), "where it was"),
        (Told::Dates, other(SHARD), "last changed"),
        (Told::Dates, longer(SHARD), "bytes where it had"),
    ] {
        let (hub, source, dir) = mirror(told);
        bring(&source, dir.path(), Wanted::Spine).unwrap();
        ask(dir.path(), SHARD).unwrap();
        hub.replace(SHARD, bytes.clone());
        let refused = ask(dir.path(), SHARD).unwrap_err();
        let remedy = format!("'deltafin setup --stream --model {}'", dir.path().display());
        assert_names(&refused, &[SHARD, what, &remedy]);
        // What is here is ready as it is, until the new one is asked for.
        assert_eq!(bring(&source, dir.path(), Wanted::Fitting).unwrap().received, 0);
        assert!(bring(&source, dir.path(), Wanted::Spine).unwrap().received > 0);
        ask(dir.path(), SHARD).unwrap();
        bring(&source, dir.path(), Wanted::All).unwrap();
        assert_of(&[(SHARD, bytes)], dir.path());
    }
}

#[test]
fn a_streamed_folder_becomes_whole_by_what_its_mirror_has_by_then() {
    let (hub, source, dir) = mirror(Told::Tags);
    bring(&source, dir.path(), Wanted::Spine).unwrap();
    hub.replace(SHARD, longer(SHARD));
    hub.replace(OTHER, other(OTHER));
    let would = {
        let order = Order { endpoint: None, patience: HASTY, ..order(&source, dir.path(), "") };
        list(&order, quiet(), &AtomicBool::new(false)).unwrap()
    };
    let shard = would.files.iter().find(|of| of.file.name == SHARD).unwrap();
    assert_eq!((shard.here, shard.missing), (0, longer(SHARD).len() as u64));
    bring(&source, dir.path(), Wanted::All).unwrap();
    assert_of(&[(SHARD, longer(SHARD)), (OTHER, other(OTHER))], dir.path());
}

#[test]
fn a_packed_spine_is_of_what_the_mirror_has_by_then() {
    let (hub, source, dir) = mirror(Told::Tags);
    let int8 = Spine::Int8 { keeps_released: false };
    bring_as(&source, dir.path(), Wanted::Spine, int8).unwrap();
    hub.replace(SHARD, longer(SHARD));
    bring(&source, dir.path(), Wanted::Spine).unwrap();
    let anew = tempfile::tempdir().unwrap();
    bring_as(&source, anew.path(), Wanted::Spine, int8).unwrap();
    let pack = |dir: &Path| contents(&dir.join("spine-int8"));
    assert!(pack(dir.path()) == pack(anew.path()));
    ask(dir.path(), SHARD).unwrap();
}

#[test]
fn a_finished_file_that_was_replaced_is_refused_until_it_is_removed() {
    for bytes in [other(EARLY), longer(EARLY)] {
        let (hub, source, dir) = mirror(Told::Tags);
        install_half(&hub, &Order { endpoint: None, jobs: 1, ..order(&source, dir.path(), "") });
        assert!(dir.path().join(EARLY).exists());
        hub.replace(EARLY, bytes.clone());
        let before = contents(dir.path());
        let refused = bring(&source, dir.path(), Wanted::All).unwrap_err();
        assert!(matches!(refused, FetchError::Replaced(_)), "{refused}");
        assert_names(&refused.to_string(), &[EARLY, "where it", "remove it", "deltafin setup"]);
        assert!(contents(dir.path()) == before, "a refused source changed the folder");
        fs::remove_file(dir.path().join(EARLY)).unwrap();
        bring(&source, dir.path(), Wanted::All).unwrap();
        assert_of(&[(EARLY, bytes)], dir.path());
    }
}

/// Replaces a file as soon as the last one is begun, where pieces come one at a time.
fn bring_while(
    hub: &Arc<Hub>,
    source: &Source,
    dir: &Path,
    wanted: Wanted,
    replaced: &'static str,
) -> Result<Installed, FetchError> {
    let (giver, times) = (hub.clone(), AtomicU32::new(0));
    let watch = move |event: Event<'_>| {
        if let Event::Began { name: LAST, .. } = event
            && times.fetch_add(1, Ordering::SeqCst) == 0
        {
            giver.replace(replaced, other(replaced));
        }
    };
    let order = Order { wanted, jobs: 1, patience: HASTY, ..order(source, dir, "") };
    install(&Order { endpoint: None, ..order }, Arc::new(watch), &AtomicBool::new(false))
}

#[test]
fn what_changes_while_setup_runs_is_not_called_whole() {
    let (hub, source, dir) = mirror(Told::Dates);
    let ended = bring_while(&hub, &source, dir.path(), Wanted::All, EARLY).unwrap_err();
    assert!(matches!(ended, FetchError::Replaced(_)), "{ended}");
    assert!(!dir.path().join(".deltafin/install.json").exists());
    fs::remove_file(dir.path().join(EARLY)).unwrap();
    bring(&source, dir.path(), Wanted::All).unwrap();
    assert_of(&[(EARLY, other(EARLY))], dir.path());
}

#[test]
fn what_changes_while_all_but_the_experts_comes_is_not_called_ready() {
    let (hub, source, dir) = mirror(Told::Tags);
    let ended = bring_while(&hub, &source, dir.path(), Wanted::Spine, OTHER).unwrap_err();
    assert!(matches!(ended, FetchError::Moved(..)), "{ended}");
    assert_names(&ended.to_string(), &[OTHER, "'deltafin setup --stream --model"]);
    assert!(!dir.path().join(".deltafin/stream.json").exists());
    bring(&source, dir.path(), Wanted::Spine).unwrap();
    bring(&source, dir.path(), Wanted::All).unwrap();
    assert_of(&[(OTHER, other(OTHER))], dir.path());
}

/// What is promised where a server says nothing of a file but its length.
#[test]
fn where_a_mirror_says_nothing_its_lengths_are_gone_by() {
    let (hub, source, dir) = mirror(Told::Nothing);
    bring(&source, dir.path(), Wanted::Spine).unwrap();
    hub.replace(SHARD, longer(SHARD));
    let refused = ask(dir.path(), SHARD).unwrap_err();
    assert_names(&refused, &[SHARD, "bytes where it had", "'deltafin setup --stream"]);
    bring(&source, dir.path(), Wanted::All).unwrap();
    assert_of(&[(SHARD, longer(SHARD))], dir.path());
}

/// What is damaged of a folder cannot be had from a mirror that has something else: all stays as it was, and runs.
#[test]
fn a_repair_that_the_mirror_cannot_give_changes_nothing() {
    for wanted in [Wanted::All, Wanted::Spine] {
        let (hub, source, dir) = mirror(Told::Tags);
        bring(&source, dir.path(), wanted.clone()).unwrap();
        let path = match &wanted {
            Wanted::All => dir.path().join(SHARD),
            _ => dir.path().join(format!("{SHARD}.part")),
        };
        // Of the header, which every shard has.
        let mut bytes = fs::read(&path).unwrap();
        let right = std::mem::replace(&mut bytes[20], b'?');
        fs::write(&path, bytes).unwrap();
        let look = || verify(dir.path(), true, &|_: Event<'_>| {}, &AtomicBool::new(false));
        let damage = look().unwrap().damage;
        assert_eq!(damage.len(), 1, "{damage:?}");
        let mend = || {
            let fitting = Order { wanted: Wanted::Fitting, ..order(&source, dir.path(), "") };
            let order = Order { endpoint: None, patience: HASTY, ..fitting };
            repair(&order, &damage, quiet(), &AtomicBool::new(false))
        };
        let before = contents(dir.path());
        let untouched = || is_finished(dir.path()) && contents(dir.path()) == before;
        hub.replace(OTHER, other(OTHER));
        let refused = mend().unwrap_err().to_string();
        assert_names(&refused, &[OTHER, "where it was", "deltafin setup"]);
        assert!(untouched());
        hub.replace(OTHER, files()[OTHER].clone());
        hub.misstep(Missteps::of(&[Misstep::Unavailable], u64::MAX));
        assert!(mend().is_err() && untouched());
        hub.misstep(Missteps::none());
        mend().unwrap();
        assert_eq!(look().unwrap().damage, []);
        assert_eq!(fs::read(&path).unwrap()[20], right);
    }
}

#[test]
fn a_hub_that_gives_another_commit_is_named_with_what_helps() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    let endpoint = hub.endpoint();
    let streaming = streaming(dir.path(), &endpoint, HASTY);
    let checkpoint = open_streamed(&streaming, quiet(), Arc::default()).unwrap();
    hub.answer_of("5eed0000000000000000000000000000000000bb");
    let spec = checkpoint.spec();
    let (layer, expert) =
        (spec.moe_layers().next().unwrap(), spec.moe.expert_ids().last().unwrap());
    let record = checkpoint.catalog.expert(layer, expert).record.pieces().to_vec();
    let distant = checkpoint.store.distant().unwrap();
    let refused = distant.bring(&record, &AtomicBool::new(false)).unwrap_err().to_string();
    let remedy = format!("setup --stream --source {}", source());
    assert_names(&refused, &["model-000", "another revision", "ask again later", &remedy]);
    hub.answer_of(deltafin_testkit::hub::REVISION);
    distant.bring(&record, &AtomicBool::new(false)).unwrap();
}
