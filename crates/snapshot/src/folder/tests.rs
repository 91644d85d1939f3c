use super::*;
use crate::page::{PAGE_POSITIONS, Page};
use deltafin_checkpoint::{Config, Identity, Recipe};
use deltafin_model::Recurrent;
use deltafin_spec::ModelSpec;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

const CONFIG: &[u8] = include_bytes!("../../../testkit/fixtures/k3-micro/config.json");

fn origin() -> Origin {
    Origin { identity: Identity::from_bytes([5; 16]), recipe: Recipe::Bf16 }
}

fn spec() -> ModelSpec {
    Config::parse(CONFIG).unwrap().spec
}

/// A snapshot of `ids` whose values follow from them.
fn snapshot(spec: &ModelSpec, ids: &[u32]) -> Snapshot {
    let shape = Shape::of(spec);
    let page = |ids: &[u32]| {
        let rows = ids.iter().flat_map(|id| vec![*id as f32; shape.row]).collect();
        Arc::new(Page { ids: ids.into(), rows })
    };
    let values = vec![ids.iter().sum::<u32>() as f32; shape.recurrent];
    Snapshot {
        pages: ids.chunks(PAGE_POSITIONS).map(page).collect(),
        recurrent: Recurrent::new(ids.len(), values),
    }
}

struct Place {
    folder: Folder,
    lines: Arc<Mutex<Vec<String>>>,
}

fn place(path: &Path, bytes: u64) -> Place {
    let lines = Arc::<Mutex<Vec<String>>>::default();
    let own = lines.clone();
    let note = Box::new(move |line: &str| own.lock().unwrap().push(line.to_owned()));
    let options = FolderOptions { path: path.to_owned(), bytes };
    Place { folder: Folder::new(options, origin(), Shape::of(&spec()), note), lines }
}

impl Place {
    fn lens(&self, ids: &[u32]) -> Vec<usize> {
        self.folder.find(ids).iter().map(|found| found.positions).collect()
    }

    fn quiet(&self) {
        assert_eq!(*self.lines.lock().unwrap(), [""; 0]);
    }
}

fn ids(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|at| at * 7 + seed).collect()
}

/// Sets when the snapshot of these ids was last used.
fn used_at(place: &Place, ids: &[u32], seconds: u64) {
    let name = Names::new(origin(), place.folder.shape, ids).of(ids.len());
    let file = File::options().write(true).open(place.folder.options.path.join(name)).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

#[test]
fn what_is_saved_is_found_by_what_continues_it() {
    let (spec, dir) = (spec(), tempfile::tempdir().unwrap());
    let place = place(&dir.path().join("a/b"), u64::MAX);
    assert!(place.lens(&ids(1, 200)).is_empty(), "a folder that is not there");
    for len in [64, 100, 130] {
        place.folder.save(&snapshot(&spec, &ids(1, len)));
    }
    place.folder.save(&snapshot(&spec, &ids(2, 90)));
    assert_eq!(place.lens(&ids(1, 200)), [130, 100, 64]);
    assert_eq!(place.lens(&ids(1, 130)), [100, 64], "something has to be left");
    assert!(place.lens(&ids(3, 200)).is_empty());
    let mut state = State::new(&spec, 150);
    let wanted = ids(1, 131);
    let found = &place.folder.find(&wanted)[0];
    assert!(place.folder.load(found, &wanted, &mut state));
    assert_eq!(state.len(), 130);
    assert!(state.recurrent() == snapshot(&spec, &ids(1, 130)).recurrent);
    let row_len = place.folder.shape.row;
    let mut rows = vec![0.0; 130 * row_len];
    state.read_latent(0..130, &mut rows);
    assert!(
        rows.chunks(row_len).zip(&wanted).all(|(row, id)| row.iter().all(|v| *v == *id as f32))
    );
    place.quiet();
}

#[test]
fn the_budget_holds_and_what_was_used_least_recently_goes() {
    let (spec, dir) = (spec(), tempfile::tempdir().unwrap());
    let each = Shape::of(&spec).file_bytes(90).unwrap();
    let place = place(dir.path(), 3 * each + each / 2);
    let all = || -> u64 {
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum()
    };
    for seed in 0..3 {
        place.folder.save(&snapshot(&spec, &ids(seed, 90)));
        used_at(&place, &ids(seed, 90), 1000 + u64::from(seed));
    }
    // Reading the oldest makes it the newest.
    let wanted = ids(0, 91);
    let found = &place.folder.find(&wanted)[0];
    assert!(place.folder.load(found, &wanted, &mut State::new(&spec, 100)));
    place.folder.save(&snapshot(&spec, &ids(3, 90)));
    assert!(all() <= place.folder.options.bytes);
    let is_there = |seed| !place.lens(&ids(seed, 91)).is_empty();
    assert_eq!([0, 1, 2, 3].map(is_there), [true, false, true, true]);
    // What is larger than the whole budget pushes nobody out.
    place.folder.save(&snapshot(&spec, &vec![1; 100_000]));
    assert_eq!([0, 1, 2, 3].map(is_there), [true, false, true, true]);
    place.quiet();
}

#[test]
fn files_of_others_are_neither_counted_nor_removed() {
    let (spec, dir) = (spec(), tempfile::tempdir().unwrap());
    let each = Shape::of(&spec).file_bytes(90).unwrap();
    fs::write(dir.path().join("notes.txt"), vec![0; 4 * each as usize]).unwrap();
    fs::write(dir.path().join("1-x.snapshot"), "someone else's").unwrap();
    let place = place(dir.path(), each);
    for seed in 0..2 {
        place.folder.save(&snapshot(&spec, &ids(seed, 90)));
        used_at(&place, &ids(seed, 90), 1000);
    }
    assert!(place.lens(&ids(0, 91)).is_empty() && !place.lens(&ids(1, 91)).is_empty());
    assert!(dir.path().join("notes.txt").exists() && dir.path().join("1-x.snapshot").exists());
    place.quiet();
}

/// What a program that was killed had begun goes after an hour; what another one is writing stays.
#[test]
fn unfinished_files_are_left_alone_until_nobody_can_be_writing_them() {
    let (spec, dir) = (spec(), tempfile::tempdir().unwrap());
    let place = place(dir.path(), u64::MAX);
    let name = Names::new(origin(), place.folder.shape, &[1]).of(1);
    let [old, new] = [1, 2].map(|pid| dir.path().join(format!("{name}.{pid}-0.part")));
    fs::write(&new, "being written").unwrap();
    fs::write(&old, "left behind").unwrap();
    let file = File::options().write(true).open(&old).unwrap();
    file.set_modified(SystemTime::now() - LEFT_BEHIND * 2).unwrap();
    place.folder.save(&snapshot(&spec, &ids(0, 90)));
    assert!(new.exists() && !old.exists());
    assert!(place.lens(&[1, 2]).is_empty());
    place.quiet();
}

#[test]
fn what_cannot_be_removed_is_still_not_tried_twice_and_what_vanished_is_no_fault() {
    let (spec, dir) = (spec(), tempfile::tempdir().unwrap());
    let place = place(dir.path(), u64::MAX);
    let wanted = ids(1, 91);
    let name = Names::new(origin(), place.folder.shape, &wanted).of(90);
    // A folder of that name cannot be removed as a file.
    fs::create_dir(dir.path().join(&name)).unwrap();
    let mut state = State::new(&spec, 100);
    let found = place.folder.find(&wanted);
    assert!(!place.folder.load(&found[0], &wanted, &mut state));
    assert!(place.lens(&wanted).is_empty());
    assert_eq!(place.lines.lock().unwrap().len(), 1);

    place.lines.lock().unwrap().clear();
    let other = ids(2, 91);
    place.folder.save(&snapshot(&spec, &ids(2, 90)));
    let found = place.folder.find(&other);
    fs::remove_file(dir.path().join(&found[0].name)).unwrap();
    assert!(!place.folder.load(&found[0], &other, &mut state));
    place.quiet();
}

#[test]
fn a_place_that_cannot_be_written_is_told_and_no_reason_to_stop() {
    let (spec, dir) = (spec(), tempfile::tempdir().unwrap());
    let path = dir.path().join("file");
    fs::write(&path, "in the way").unwrap();
    let place = place(&path, u64::MAX);
    for seed in 0..2 {
        place.folder.save(&snapshot(&spec, &ids(seed, 90)));
        assert!(place.lens(&ids(seed, 91)).is_empty());
    }
    let lines = std::mem::take(&mut *place.lines.lock().unwrap());
    assert!(lines.len() == 1 && lines[0].starts_with("cannot keep a snapshot in "), "{lines:?}");
    // It is told again where it came back.
    fs::remove_file(&path).unwrap();
    place.folder.save(&snapshot(&spec, &ids(0, 90)));
    place.quiet();
    fs::remove_dir_all(&path).unwrap();
    fs::write(&path, "in the way").unwrap();
    place.folder.save(&snapshot(&spec, &ids(0, 90)));
    assert_eq!(place.lines.lock().unwrap().len(), 1);
}

#[test]
fn what_earlier_runs_left_keeps_to_a_smaller_budget() {
    let (spec, dir) = (spec(), tempfile::tempdir().unwrap());
    let wide = place(dir.path(), u64::MAX);
    let each = wide.folder.shape.file_bytes(90).unwrap();
    for seed in 1..4 {
        wide.folder.save(&snapshot(&spec, &ids(seed, 90)));
        used_at(&wide, &ids(seed, 90), u64::from(seed));
    }
    let narrow = place(dir.path(), 2 * each);
    narrow.folder.begin();
    let left = [1, 2, 3].map(|seed| narrow.lens(&ids(seed, 91)).len());
    assert_eq!(left, [0, 1, 1]);
    narrow.quiet();
    // Nothing fits, and that is told.
    let none = place(dir.path(), 10);
    none.folder.begin();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let lines = none.lines.lock().unwrap();
    assert!(lines.len() == 1 && lines[0].contains("allow more"), "{lines:?}");
}

/// Two programs that save, load and make room in one folder at once: every load is whole or finds
/// nothing, and nobody complains.
#[test]
fn two_at_once_do_not_hurt_each_other() {
    let (spec, dir) = (spec(), tempfile::tempdir().unwrap());
    let each = Shape::of(&spec).file_bytes(90).unwrap();
    std::thread::scope(|scope| {
        for turn in 0..2u32 {
            let (spec, path) = (&spec, dir.path());
            scope.spawn(move || {
                let place = place(path, 4 * each);
                let mut state = State::new(spec, 100);
                for round in 0..60 {
                    let seed = (round * 5 + turn) % 7;
                    place.folder.save(&snapshot(spec, &ids(seed, 90)));
                    let wanted = ids((seed + 3) % 7, 91);
                    for found in place.folder.find(&wanted) {
                        if place.folder.load(&found, &wanted, &mut state) {
                            let whole = snapshot(spec, &wanted[..90]);
                            assert!(state.recurrent() == whole.recurrent);
                        }
                    }
                }
                place.quiet();
            });
        }
    });
    let left = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter_map(|name| name.into_string().ok()).collect();
    assert!(left.iter().all(|name| name::positions(name) == Some(90)), "{left:?}");
    assert!(left.len() <= 5, "{left:?}");
}

#[test]
fn nobody_else_may_read_what_was_said() {
    use std::os::unix::fs::PermissionsExt as _;
    let (spec, dir) = (spec(), tempfile::tempdir().unwrap());
    let path = dir.path().join("own");
    let place = place(&path, u64::MAX);
    place.folder.save(&snapshot(&spec, &ids(0, 90)));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    let file = fs::read_dir(&path).unwrap().next().unwrap().unwrap().path();
    assert_eq!(mode(&file), 0o600);
}

#[test]
fn a_drive_is_never_filled() {
    let (spec, dir) = (spec(), tempfile::tempdir().unwrap());
    let mut place = place(dir.path(), u64::MAX);
    let each = place.folder.shape.file_bytes(100).unwrap();
    assert!(each < 1 << 20);
    place.folder.save(&snapshot(&spec, &ids(1, 100)));
    used_at(&place, &ids(1, 100), 1);
    // Room for the new one and what stays free, only if the old one goes.
    place.folder.free_bytes = |_| Ok(LEFT_FREE + 1);
    place.folder.save(&snapshot(&spec, &ids(2, 100)));
    assert_eq!((place.lens(&ids(1, 200)), place.lens(&ids(2, 200))), (vec![], vec![100]));
    place.quiet();
    // Room for nothing: what is there stays, and one line is enough.
    place.folder.free_bytes = |_| Ok(1 << 10);
    for seed in 3..6 {
        place.folder.save(&snapshot(&spec, &ids(seed, 100)));
        assert!(place.lens(&ids(seed, 200)).is_empty());
    }
    assert_eq!(place.lens(&ids(2, 200)), [100]);
    let lines = std::mem::take(&mut *place.lines.lock().unwrap());
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("1024 MiB") && line.contains("make room"), "{line}");
    // Until there was room, and there is none again.
    place.folder.free_bytes = |_| Ok(u64::MAX);
    place.folder.save(&snapshot(&spec, &ids(3, 100)));
    assert_eq!(place.lens(&ids(3, 200)), [100]);
    place.folder.free_bytes = |_| Ok(0);
    place.folder.save(&snapshot(&spec, &ids(4, 100)));
    assert_eq!(place.lines.lock().unwrap().len(), 1);
}
