//! Streamed models on drives whose files have no holes: experts in one file for each layer.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use deltafin_checkpoint::Span;
use deltafin_engine::{Engine, EngineOptions, Prefetch};
use deltafin_fetch::{Event, FetchError, Layout, Order, Spine, Wanted, give_up, install, verify};
use deltafin_store::{Checkpoint, Distant};
use deltafin_testkit::hub::{Hub, Misstep, Missteps, checkpoint_files};
use deltafin_testkit::{fixture, open};

use crate::streamed::{assert_once, local, set_up, set_up_as, stream, stream_within, text_of};
use crate::support::{CALM, IMPATIENT, contents, order, quiet, whole_hub};

/// A hub, and a folder that has all but the experts.
fn begun() -> (Hub, tempfile::TempDir) {
    // On the drive that the build is on, for reads past the page cache.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let hub = whole_hub(Missteps::none());
    set_up_as(&hub, dir.path(), Wanted::Spine, Layout::Layers).unwrap();
    (hub, dir)
}

/// The layers' files.
fn stacks(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|e| e == "records")).collect()
}

fn stacked_bytes(dir: &Path) -> u64 {
    stacks(dir).iter().map(|path| fs::metadata(path).unwrap().len()).sum()
}

fn maps(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir.join(".deltafin")).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|e| e == "map")).collect()
}

/// Where records lie that are here: by layer, the first bytes, ascending.
fn noted(dir: &Path) -> BTreeMap<u32, Vec<u64>> {
    let mut noted = HashMap::new();
    for map in maps(dir) {
        for line in fs::read_to_string(&map).unwrap().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["gone", offset] => drop(noted.remove(&(map.clone(), offset.to_owned()))),
                [offset, _, _, layer, at] => {
                    let place = (layer.parse().unwrap(), at.parse().unwrap());
                    noted.insert((map.clone(), offset.to_owned()), place);
                }
                _ => {}
            }
        }
    }
    let mut by_layer: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    noted.into_values().for_each(|(layer, at)| by_layer.entry(layer).or_default().push(at));
    by_layer.values_mut().for_each(|places| places.sort_unstable());
    by_layer
}

#[track_caller]
fn assert_sound(dir: &Path) {
    let found = verify(dir, true, &|_: Event<'_>| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!(found.damage, []);
    assert_eq!(fs::read_dir(dir.join(".deltafin/coming")).unwrap().count(), 0);
    for places in noted(dir).values() {
        assert!(places.windows(2).all(|two| two[0] < two[1]), "two in one slot: {places:?}");
    }
}

/// The records of experts that may go.
fn records(checkpoint: &Checkpoint) -> Vec<Vec<Span>> {
    let spec = checkpoint.spec();
    let experts = |layer| spec.moe.expert_ids().skip(1).map(move |expert| (layer, expert));
    let record =
        |(layer, expert)| checkpoint.catalog.expert(layer, expert).record.pieces().to_vec();
    spec.moe_layers().flat_map(experts).map(record).collect()
}

fn distant(checkpoint: &Checkpoint) -> Arc<dyn Distant> {
    checkpoint.store.distant().unwrap()
}

fn least(hub: &Hub, dir: &Path) -> u64 {
    match stream_within(hub, dir, IMPATIENT, Some(1)).unwrap_err() {
        FetchError::Limit { least, .. } => least,
        other => panic!("{other}"),
    }
}

/// As on a drive without holes: all else is here, and whoever asked fetches the layers' experts then.
#[test]
fn layers_alone_are_no_part_of_a_folder_that_lies_layer_by_layer() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    set_up_as(&hub, dir.path(), Wanted::Layers(2..=3), Layout::Layers).unwrap();
    assert!(dir.path().join(".deltafin/stream.json").exists());
    assert!(text_of(stream(&hub, dir.path(), IMPATIENT), Prefetch::Off) == local());
    assert!(!stacks(dir.path()).is_empty());
}

/// Where experts lie in the shards they are written as they come.
#[test]
fn records_that_are_on_their_way_are_a_part_of_the_plan() {
    let (hub, dir) = begun();
    let checkpoint = stream(&hub, dir.path(), IMPATIENT);
    let record = records(&checkpoint).iter().map(|record| record[0].len()).max().unwrap();
    let planned = |checkpoint: Checkpoint| {
        let engine = Engine::open(checkpoint, EngineOptions::default()).unwrap();
        engine.plan().unwrap().besides
    };
    let besides = planned(checkpoint);
    assert!((4 * record..4 * (record + 2 * 4096)).contains(&besides), "{besides} for {record}");
    assert_eq!(planned(open("k3-micro")), 0);
    let shards = tempfile::tempdir().unwrap();
    set_up(&hub, shards.path(), Wanted::Spine).unwrap();
    assert_eq!(planned(stream(&hub, shards.path(), IMPATIENT)), 0);
}

#[test]
fn a_limit_that_was_lowered_holds_before_anything_else_comes() {
    let (hub, dir) = begun();
    let all = stream(&hub, dir.path(), IMPATIENT);
    records(&all).iter().for_each(|record| {
        distant(&all).bring(record, &AtomicBool::new(false)).unwrap();
    });
    drop(all);
    let limit = 2 * least(&hub, dir.path());
    assert!(stacked_bytes(dir.path()) > limit);
    let checkpoint = stream_within(&hub, dir.path(), IMPATIENT, Some(limit)).unwrap();
    assert!(distant(&checkpoint).trim().unwrap().reads > 0);
    assert!(stacked_bytes(dir.path()) <= limit);
    assert_sound(dir.path());
    assert!(text_of(checkpoint, Prefetch::Off) == local());
}

#[test]
fn it_says_the_same_each_record_comes_once_and_files_grow_by_what_is_there() {
    let (hub, dir) = begun();
    let spine = hub.served().bytes();
    hub.answer_late(Duration::from_millis(4));
    assert!(text_of(stream(&hub, dir.path(), CALM), Prefetch::Auto) == local());
    assert_once(&hub);
    let came = hub.served().bytes();
    assert!(came > spine);
    // Slots follow each other from the first on, and the file ends with the last.
    for (layer, places) in noted(dir.path()) {
        let file = dir.path().join(format!("experts-{layer:03}.records"));
        let length = fs::metadata(file).unwrap().len();
        let slot = length / places.len() as u64;
        assert!(slot.is_multiple_of(4096) && slot * places.len() as u64 == length, "{length}");
        let slots: Vec<u64> = places.iter().map(|at| at / slot).collect();
        assert_eq!(slots, (0..places.len() as u64).collect::<Vec<_>>());
    }
    let is_part = |name: &String| name.ends_with(".safetensors.part");
    assert!(!contents(dir.path()).keys().any(is_part));
    // What came is here for good, however it is opened, and setup has nothing to do.
    assert!(text_of(stream(&hub, dir.path(), IMPATIENT), Prefetch::Off) == local());
    assert_eq!(set_up(&hub, dir.path(), Wanted::Fitting).unwrap(), 0);
    assert_eq!(hub.served().bytes(), came);
    assert_sound(dir.path());
}

#[test]
fn whatever_the_network_does_to_two_at_a_time_they_say_the_same() {
    for kind in [Misstep::Cut, Misstep::Unavailable, Misstep::Stall] {
        let (hub, dir) = begun();
        hub.misstep(Missteps::of(&[kind], 3));
        thread::scope(|scope| {
            let run = || text_of(stream(&hub, dir.path(), IMPATIENT), Prefetch::Auto);
            for one in [scope.spawn(run), scope.spawn(run)] {
                assert!(one.join().unwrap() == local(), "{kind:?}");
            }
        });
        assert_eq!(hub.missteps_made(), 3, "{kind:?}");
        assert_sound(dir.path());
    }
}

#[test]
fn within_a_limit_slots_are_used_again_and_it_says_the_same() {
    let (hub, dir) = begun();
    let (wanted, least) = (local(), least(&hub, dir.path()));
    for (limit, prefetch) in [(least, Prefetch::Auto), (3 * least, Prefetch::Off)] {
        let (most, over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    most.fetch_max(stacked_bytes(dir.path()), Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let checkpoint = stream_within(&hub, dir.path(), IMPATIENT, Some(limit)).unwrap();
            let distant = distant(&checkpoint);
            let text = thread::spawn(move || text_of(checkpoint, prefetch)).join();
            over.store(true, Ordering::Relaxed);
            assert!(text.unwrap() == wanted, "{limit} {prefetch:?}");
            assert!(distant.evicted().reads > 0, "{limit}");
        });
        let most = most.into_inner();
        assert!(0 < most && most <= limit, "{most} of {limit}");
        assert_sound(dir.path());
    }
}

#[test]
fn nobody_reads_a_slot_that_has_another_record() {
    let (hub, dir) = begun();
    let least = least(&hub, dir.path());
    let source = open("k3-micro");
    let reader = stream_within(&hub, dir.path(), IMPATIENT, None).unwrap();
    let records = records(&reader);
    let read = |checkpoint: &Checkpoint, record: &[Span]| {
        let mut bytes = vec![0; record[0].len() as usize];
        checkpoint.store.read_exact(record[0], &mut bytes).unwrap();
        bytes
    };
    let wanted: Vec<_> = records.iter().map(|record| read(&source, record)).collect();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (reader, wanted, records, over, read) = (&reader, &wanted, &records, &over, &read);
        let taking = scope.spawn(|| {
            let distant =
                distant(&stream_within(&hub, dir.path(), IMPATIENT, Some(least)).unwrap());
            for record in records.iter().cycle().take(150) {
                distant.bring(record, &AtomicBool::new(false)).unwrap();
            }
        });
        for first in 0..2 {
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    for number in first..records.len().min(first + 6) {
                        assert!(read(reader, &records[number]) == wanted[number], "{number}");
                    }
                }
            });
        }
        let taken = taking.join();
        over.store(true, Ordering::Relaxed);
        taken.unwrap();
    });
    assert_sound(dir.path());
}

#[test]
fn what_was_ended_in_between_loses_what_was_in_flight_alone() {
    let (hub, dir) = begun();
    let checkpoint = stream(&hub, dir.path(), CALM);
    let record = &records(&checkpoint)[0];
    distant(&checkpoint).bring(record, &AtomicBool::new(false)).unwrap();
    drop(checkpoint);
    let came = hub.served().bytes();
    // A record half written, not noted; a line of the map half written; a claim.
    let append = |path: &Path, bytes: &[u8]| {
        OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
    };
    stacks(dir.path()).iter().for_each(|stack| append(stack, &[7; 700]));
    maps(dir.path()).iter().for_each(|map| append(map, b"812352 17 ab"));
    fs::write(dir.path().join(".deltafin/coming/model-00004-of-000012.safetensors.8"), "").unwrap();
    assert!(text_of(stream(&hub, dir.path(), CALM), Prefetch::Off) == local());
    assert!(hub.served().bytes() > came);
    assert_once(&hub);
    let found = verify(dir.path(), true, &|_: Event<'_>| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!(found.damage, []);
}

#[test]
fn it_becomes_whole_and_a_stopped_upgrade_goes_on() {
    let (hub, dir) = begun();
    let hub = Arc::new(hub);
    let wanted = text_of(stream(&hub, dir.path(), CALM), Prefetch::Off);
    let came = hub.served().ranges;
    // Stopped on the way: some shards are whole by then, the others lie as they did.
    let (endpoint, source) = (hub.endpoint(), crate::support::source());
    let (stop, kept) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let (heard, giver) = (stop.clone(), hub.clone());
    let watch = move |event: Event<'_>| {
        if let Event::Done { name } = event
            && name.ends_with(".safetensors")
            && kept.fetch_add(1, Ordering::Relaxed) == 2
        {
            // It gives no more, so that nothing ends before it is stopped.
            giver.misstep(Missteps::of(&[Misstep::Silence], u64::MAX));
            heard.store(true, Ordering::Relaxed);
        }
    };
    hub.answer_late(Duration::from_millis(9));
    let whole = Order { wanted: Wanted::All, ..order(&source, dir.path(), &endpoint) };
    install(&whole, Arc::new(watch), &stop).unwrap_err();
    hub.misstep(Missteps::none());
    set_up(&hub, dir.path(), Wanted::All).unwrap();
    for (name, ranges) in came {
        let all = &hub.served().ranges[&name];
        let times = |range| all.iter().filter(|other| **other == range).count();
        assert!(ranges.iter().all(|range| times(*range) == 1), "{name}: {all:?}");
    }
    let files = checkpoint_files(&fixture("k3-micro"));
    assert_eq!(contents(dir.path()), files.into_iter().collect());
    assert!(text_of(deltafin_store::open_dir(dir.path()).unwrap(), Prefetch::Off) == wanted);
}

#[test]
fn what_is_damaged_here_is_found_and_comes_again() {
    let (hub, dir) = begun();
    let wanted = text_of(stream(&hub, dir.path(), IMPATIENT), Prefetch::Off);
    let look = || verify(dir.path(), true, &|_: Event<'_>| {}, &AtomicBool::new(false)).unwrap();
    let (layer, places) = noted(dir.path()).pop_last().unwrap();
    let stack = dir.path().join(format!("experts-{layer:03}.records"));
    let base = |number| dir.path().join(format!("model-0000{number}-of-000012.safetensors.base"));
    // An expert, a header, and what every token uses.
    for (path, at) in [(&stack, places[0] as usize + 3), (&base(3), 9000), (&base(5), 100_000)] {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    let damage = look().damage;
    let words: Vec<&str> = damage.iter().map(|one| one.of.as_str()).collect();
    assert_eq!(words.len(), 3, "{words:?}");
    assert_eq!(words[0], "its header");
    assert!(words[1].ends_with("what every token uses"), "{words:?}");
    assert!(words[2].starts_with(&format!("layer {layer}, expert")), "{words:?}");
    let (lost, before) = (damage.iter().map(|one| one.bytes).sum::<u64>(), hub.served().bytes());
    give_up(dir.path(), &damage).unwrap();
    set_up(&hub, dir.path(), Wanted::Fitting).unwrap();
    assert!(text_of(stream(&hub, dir.path(), IMPATIENT), Prefetch::Off) == wanted);
    assert_eq!(hub.served().bytes() - before, lost);
    assert_sound(dir.path());
}

/// Takes the line of the piece that begins at an offset of a shard out of its map.
fn forget(dir: &Path, name: &str, offset: u64) {
    let map = dir.join(format!(".deltafin/{name}.map"));
    let (text, line) = (fs::read_to_string(&map).unwrap(), format!("{offset} "));
    let kept: String = text.split_inclusive('\n').filter(|l| !l.starts_with(&line)).collect();
    assert!(kept.len() < text.len(), "{name} {offset}");
    fs::write(&map, kept).unwrap();
}

#[test]
fn what_a_base_lost_comes_again_to_its_place_there() {
    let (hub, dir) = begun();
    let before = contents(dir.path());
    let source = open("k3-micro");
    let layer = source.spec().moe_layers().last().unwrap();
    let first = source.spec().moe.expert_ids().next().unwrap();
    let record = source.catalog.expert(layer, first).record.pieces()[0];
    let name = source.store.shards()[record.shard().index()].name.clone();
    forget(dir.path(), &name, record.offset());
    let checkpoint = stream(&hub, dir.path(), IMPATIENT);
    assert!(!distant(&checkpoint).is_here(&[record]));
    let read = |checkpoint: &Checkpoint| {
        let mut bytes = vec![0; record.len() as usize];
        checkpoint.store.read_exact(record, &mut bytes).unwrap();
        bytes
    };
    assert!(read(&checkpoint) == read(&source));
    let (now, base) = (contents(dir.path()), format!("{name}.base"));
    assert!(now[&base] == before[&base], "written over other weights");
    assert_sound(dir.path());
}

#[test]
fn a_piece_that_a_map_lost_is_named_and_comes_again() {
    let (hub, dir) = begun();
    let source = open("k3-micro");
    let layer = source.spec().layer_ids().last().unwrap();
    let piece = source.catalog.spine(layer).record().pieces()[0];
    let name = source.store.shards()[piece.shard().index()].name.clone();
    let look = || verify(dir.path(), false, &|_: Event<'_>| {}, &AtomicBool::new(false)).unwrap();
    for is_repaired in [true, false] {
        let before = hub.served().bytes();
        forget(dir.path(), &name, piece.offset());
        let damage = look().damage;
        assert_eq!((damage.len(), damage[0].offset), (1, piece.offset()), "{damage:?}");
        assert!(damage[0].of.ends_with("what every token uses, not in its map"), "{damage:?}");
        if is_repaired {
            give_up(dir.path(), &damage).unwrap();
        }
        set_up(&hub, dir.path(), Wanted::Fitting).unwrap();
        assert_eq!(hub.served().bytes() - before, damage[0].bytes);
        assert_sound_after(&hub, dir.path());
    }
}

/// It opens, and every byte is what it was.
#[track_caller]
fn assert_sound_after(hub: &Hub, dir: &Path) {
    drop(stream(hub, dir, IMPATIENT));
    assert_sound(dir);
}

#[test]
fn a_layers_file_that_was_cut_or_lost_is_named_and_its_experts_come_again() {
    let (hub, dir) = begun();
    let wanted = text_of(stream(&hub, dir.path(), IMPATIENT), Prefetch::Off);
    let look = |is_deep| {
        verify(dir.path(), is_deep, &|_: Event<'_>| {}, &AtomicBool::new(false)).unwrap().damage
    };
    let (layer, places) = noted(dir.path()).pop_last().unwrap();
    let stack = dir.path().join(format!("experts-{layer:03}.records"));
    let cut = || OpenOptions::new().write(true).open(&stack).unwrap().set_len(places[0] + 9);
    for (is_lost, count) in [(true, places.len()), (false, places.len())] {
        if is_lost { fs::remove_file(&stack) } else { cut() }.unwrap();
        let (shallow, deep) = (look(false), look(true));
        assert_eq!((shallow.len(), &shallow), (count, &deep));
        let words = format!("experts-{layer:03}.records ends before it");
        assert!(shallow.iter().all(|damage| damage.of.ends_with(&words)), "{shallow:?}");
        let refused = stream_within(&hub, dir.path(), IMPATIENT, None).unwrap_err().to_string();
        assert!(refused.contains(&stack.display().to_string()), "{refused}");
        assert!(refused.contains("deltafin verify --deep --repair"), "{refused}");
        give_up(dir.path(), &shallow).unwrap();
        set_up(&hub, dir.path(), Wanted::Fitting).unwrap();
        assert!(text_of(stream(&hub, dir.path(), IMPATIENT), Prefetch::Off) == wanted);
        assert_sound(dir.path());
    }
}

#[test]
fn a_folder_stays_as_it_was_begun_and_a_packed_spine_is_the_same() {
    let (hub, dir) = begun();
    let other = tempfile::tempdir().unwrap();
    let (endpoint, source) = (hub.endpoint(), crate::support::source());
    let packed = |dir: &Path, layout| {
        let spine = Spine::Int8 { keeps_released: false };
        let order =
            Order { spine, layout, wanted: Wanted::Spine, ..order(&source, dir, &endpoint) };
        install(&order, quiet(), &AtomicBool::new(false)).unwrap();
        contents(&dir.join("spine-int8"))
    };
    // Neither is told again how to lie, or told otherwise, and both keep to it.
    let released = set_up(&hub, other.path(), Wanted::Spine).unwrap();
    assert!(released > 0);
    assert!(packed(dir.path(), Layout::Auto) == packed(other.path(), Layout::Layers));
    let is_base = |entry: fs::DirEntry| entry.path().extension().is_some_and(|e| e == "base");
    assert!(fs::read_dir(dir.path()).unwrap().any(|entry| is_base(entry.unwrap())));
    assert!(!fs::read_dir(other.path()).unwrap().any(|entry| is_base(entry.unwrap())));
    assert!(text_of(stream(&hub, dir.path(), IMPATIENT), Prefetch::Off) == local());
    // A shard that began to become whole stands among them.
    let name = "model-00004-of-000012.safetensors";
    for of in [format!("{name}.part"), format!(".deltafin/{name}.map")] {
        fs::copy(other.path().join(&of), dir.path().join(&of)).unwrap();
    }
    fs::rename(
        dir.path().join(".deltafin/stream.json"),
        dir.path().join(".deltafin/install.json.part"),
    )
    .unwrap();
    let refused = set_up(&hub, dir.path(), Wanted::Spine).unwrap_err();
    assert!(matches!(refused, FetchError::Begun { .. }), "{refused}");
}
