//! A folder goes on with another source only where digests tell that it has the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use deltafin_fetch::{
    FetchError, Installed, Order, Source, Spine, Wanted, install, installed_from, list,
};
use deltafin_testkit::fixture;
use deltafin_testkit::hub::{Hub, Missteps, REPOSITORY, checkpoint_files};

use crate::support::{install_half, order, quiet, source, whole_hub};

fn files() -> Vec<(String, Vec<u8>)> {
    checkpoint_files(&fixture("k3-micro"))
}

/// The same names and lengths, with other bytes in these files.
fn other(is_other: impl Fn(&str) -> bool) -> Hub {
    let mut files = files();
    for (_, bytes) in files.iter_mut().filter(|(name, _)| is_other(name)) {
        *bytes.last_mut().unwrap() ^= 1;
    }
    Hub::serve(files, Missteps::none())
}

fn is_shard(name: &str) -> bool {
    name.ends_with(".safetensors")
}

fn mirror(hub: &Hub) -> Source {
    hub.mirror().parse().unwrap()
}

fn bring(source: &Source, dir: &Path, wanted: Wanted) -> Result<Installed, FetchError> {
    let order = Order { wanted, ..order(source, dir, "") };
    install(&Order { endpoint: None, ..order }, quiet(), &AtomicBool::new(false))
}

/// Half of a source, one piece after the other.
fn begin(hub: &Arc<Hub>, source: &Source, dir: &Path) {
    let order = Order { endpoint: None, jobs: 1, ..order(source, dir, "") };
    install_half(hub, &order);
}

/// Every file below a folder, notes included.
fn everything(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => all.extend(everything(&entry)),
            false => drop(all.insert(entry.clone(), fs::read(entry).unwrap())),
        }
    }
    all
}

#[track_caller]
fn assert_refused(dir: &Path, first: &Source, second: &Source) {
    let before = everything(dir);
    for wanted in [Wanted::Fitting, Wanted::All, Wanted::Spine, Wanted::Layers(1..=1)] {
        let order = Order { wanted: wanted.clone(), endpoint: None, ..order(second, dir, "") };
        let stop = AtomicBool::new(false);
        for refused in [
            bring(second, dir, wanted.clone()).unwrap_err(),
            list(&order, quiet(), &stop).unwrap_err(),
            install(&Order { spine: Spine::Released, ..order }, quiet(), &stop).unwrap_err(),
        ] {
            assert!(matches!(refused, FetchError::OtherSource { .. }), "{wanted:?}: {refused}");
            let line = refused.to_string();
            let names = [dir.display().to_string(), first.to_string(), second.to_string()];
            assert!(names.iter().all(|name| line.contains(name)), "{line}");
            assert!(line.contains("--model") && line.contains("remove"), "{line}");
        }
    }
    assert!(everything(dir) == before, "a refused source changed the folder");
    assert_eq!(installed_from(dir).as_ref(), Some(first));
}

#[test]
fn a_mirror_without_digests_adds_nothing_to_what_another_gave() {
    let (one, two) = (Arc::new(whole_hub(Missteps::none())), other(is_shard));
    let (first, second) = (mirror(&one), mirror(&two));
    for wanted in [Wanted::Spine, Wanted::All, Wanted::Layers(1..=1)] {
        let dir = tempfile::tempdir().unwrap();
        bring(&first, dir.path(), wanted).unwrap();
        assert_refused(dir.path(), &first, &second);
        // The one that it came from goes on.
        bring(&first, dir.path(), Wanted::All).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    begin(&one, &first, dir.path());
    assert_refused(dir.path(), &first, &second);
}

#[test]
fn a_mirror_without_digests_adds_nothing_to_what_a_hub_gave() {
    let (one, two) = (whole_hub(Missteps::none()), other(is_shard));
    let (dir, source) = (tempfile::tempdir().unwrap(), source());
    let endpoint = one.endpoint();
    install(&order(&source, dir.path(), &endpoint), quiet(), &AtomicBool::new(false)).unwrap();
    assert_refused(dir.path(), &source, &mirror(&two));
}

/// What a source with digests has is told from anything else.
#[test]
fn a_source_with_digests_takes_over_and_fetches_only_what_differs() {
    let (one, two) = (whole_hub(Missteps::none()), other(|name| name.contains("00002")));
    let dir = tempfile::tempdir().unwrap();
    bring(&mirror(&one), dir.path(), Wanted::All).unwrap();
    let moved: Source = format!("hf:{REPOSITORY}").parse().unwrap();
    let endpoint = two.endpoint();
    let order = order(&moved, dir.path(), &endpoint);
    let installed = install(&order, quiet(), &AtomicBool::new(false)).unwrap();
    let differs = |name: &String| name.contains("00002");
    let (name, bytes) = files().into_iter().find(|(name, _)| differs(name)).unwrap();
    assert_eq!(installed.received, bytes.len() as u64);
    let last = fs::read(dir.path().join(name)).unwrap().pop().unwrap();
    assert_eq!(last, bytes.last().unwrap() ^ 1);
    assert_eq!(installed_from(dir.path()), Some(moved));
}

#[test]
fn a_folder_that_has_nothing_takes_any_source() {
    let (one, two) = (whole_hub(Missteps::none()), other(is_shard));
    let dir = tempfile::tempdir().unwrap();
    bring(&mirror(&one), dir.path(), Wanted::All).unwrap();
    for path in everything(dir.path()).into_keys().filter(|path| !path.ends_with("install.json")) {
        fs::remove_file(path).unwrap();
    }
    assert_eq!(installed_from(dir.path()), Some(mirror(&one)));
    bring(&mirror(&two), dir.path(), Wanted::All).unwrap();
    assert_eq!(installed_from(dir.path()), Some(mirror(&two)));
}

/// Lets a folder take another hub for the one that it came from, as if files had been replaced there.
fn replace(dir: &Path, from: &Hub, to: &Hub) {
    for name in ["stream.json", "install.json", "install.json.part"] {
        let path = dir.join(".deltafin").join(name);
        if let Ok(text) = fs::read_to_string(&path) {
            fs::write(&path, text.replace(&from.mirror(), &to.mirror())).unwrap();
        }
    }
}

#[test]
fn files_that_were_replaced_at_a_mirror_are_not_added_to_those_from_before() {
    let one = Arc::new(whole_hub(Missteps::none()));
    let two = other(|name| is_shard(name) || name == "config.json");
    let (streamed, begun) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    bring(&mirror(&one), streamed.path(), Wanted::Spine).unwrap();
    let first = mirror(&one);
    begin(&one, &first, begun.path());
    for dir in [streamed.path(), begun.path()] {
        replace(dir, &one, &two);
        let before = everything(dir);
        let refused = bring(&mirror(&two), dir, Wanted::All).unwrap_err();
        assert!(matches!(refused, FetchError::Replaced(_)), "{refused}");
        assert!(refused.to_string().contains(&two.mirror()), "{refused}");
        assert!(everything(dir) == before, "a refused source changed the folder");
    }
}

/// Where nothing is finished that was replaced, what is in the making comes anew, all of it.
#[test]
fn shards_that_were_replaced_at_a_mirror_come_anew() {
    let (one, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    bring(&mirror(&one), dir.path(), Wanted::Spine).unwrap();
    let is_begun = |name: &String| dir.path().join(format!("{name}.part")).exists();
    let names = files().into_iter().map(|(name, _)| name);
    let in_the_making: Vec<String> = names.filter(is_begun).collect();
    let two = other(|name| in_the_making.iter().any(|part| part == name));
    replace(dir.path(), &one, &two);
    bring(&mirror(&two), dir.path(), Wanted::All).unwrap();
    assert!(in_the_making.len() > 1, "{in_the_making:?}");
    for (name, mut bytes) in files().into_iter().filter(|(name, _)| in_the_making.contains(name)) {
        *bytes.last_mut().unwrap() ^= 1;
        assert!(fs::read(dir.path().join(&name)).unwrap() == bytes, "{name} is of two checkpoints");
    }
}
