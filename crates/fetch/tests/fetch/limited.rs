//! Caches of experts that may not grow.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use deltafin_checkpoint::Span;
use deltafin_engine::Prefetch;
use deltafin_fetch::{Event, FetchError, Wanted, verify};
use deltafin_store::{Checkpoint, Distant, Heat};
use deltafin_testkit::hub::{Hub, Misstep, Missteps};
use deltafin_testkit::open;

use crate::streamed::{local, set_up, stream_within, text_of};
use crate::support::{HASTY, IMPATIENT, whole_hub};

/// A hub, and a folder that has all but the experts.
fn begun() -> (Hub, tempfile::TempDir) {
    // On the drive that the build is on: what has room in memory may not have holes.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let hub = whole_hub(Missteps::none());
    set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    (hub, dir)
}

fn limited(hub: &Hub, dir: &Path, limit: u64) -> Checkpoint {
    stream_within(hub, dir, IMPATIENT, Some(limit)).unwrap()
}

/// The smallest limit that works.
fn least(hub: &Hub, dir: &Path) -> u64 {
    match stream_within(hub, dir, IMPATIENT, Some(1)).unwrap_err() {
        FetchError::Limit { limit: 1, least, .. } => least,
        other => panic!("{other}"),
    }
}

/// Bytes of the drive that files in the making take.
fn taken(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let parts = entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "part"));
    parts.map(|entry| entry.metadata().unwrap().blocks() * 512).sum()
}

#[track_caller]
fn assert_sound(dir: &Path) {
    let found = verify(dir, true, &|_: Event<'_>| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!(found.damage, []);
    assert_eq!(fs::read_dir(dir.join(".deltafin/coming")).unwrap().count(), 0);
}

/// The records of a checkpoint's experts that may go, in the order of layers and experts.
fn records(checkpoint: &Checkpoint) -> Vec<Vec<Span>> {
    let spec = checkpoint.spec();
    let layers = spec.moe_layers();
    let experts = |layer| spec.moe.expert_ids().skip(1).map(move |expert| (layer, expert));
    let record =
        |(layer, expert)| checkpoint.catalog.expert(layer, expert).record.pieces().to_vec();
    layers.flat_map(experts).map(record).collect()
}

fn distant(checkpoint: &Checkpoint) -> Arc<dyn Distant> {
    checkpoint.store.distant().unwrap()
}

fn bring(distant: &dyn Distant, record: &[Span]) {
    distant.bring(record, &AtomicBool::new(false)).unwrap();
}

/// Which of these are here, as a program sees it that begins.
fn here(hub: &Hub, dir: &Path, records: &[Vec<Span>]) -> Vec<usize> {
    let distant = distant(&stream_within(hub, dir, IMPATIENT, None).unwrap());
    (0..records.len()).filter(|number| distant.is_here(&records[*number])).collect()
}

/// Says that it is over, also when a test fails.
struct Over<'t>(&'t AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn it_never_grows_beyond_its_limit_and_says_the_same() {
    let (hub, dir) = begun();
    let (wanted, begun, least) = (local(), taken(dir.path()), least(&hub, dir.path()));
    for (limit, prefetch) in
        [(least, Prefetch::Auto), (least, Prefetch::Off), (3 * least, Prefetch::Auto)]
    {
        let (most, over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    most.fetch_max(taken(dir.path()) - begun, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let _over = Over(&over);
            let checkpoint = limited(&hub, dir.path(), limit);
            let distant = distant(&checkpoint);
            let text = text_of(checkpoint, prefetch);
            assert!(text == wanted, "{limit} {prefetch:?}");
            assert!(distant.evicted().reads > 0, "{limit}");
        });
        let most = most.into_inner();
        assert!(0 < most && most <= limit, "{most} of {limit}");
        assert_sound(dir.path());
    }
    // What was taken away has to come again, and does.
    set_up(&hub, dir.path(), Wanted::All).unwrap();
    assert!(text_of(deltafin_store::open_dir(dir.path()).unwrap(), Prefetch::Off) == wanted);
}

#[test]
fn several_with_other_limits_share_a_cache() {
    let (hub, dir) = begun();
    hub.answer_late(Duration::from_millis(1));
    let (wanted, least) = (local(), least(&hub, dir.path()));
    thread::scope(|scope| {
        let run = |limit| {
            text_of(stream_within(&hub, dir.path(), IMPATIENT, limit).unwrap(), Prefetch::Auto)
        };
        let limits = [Some(least), Some(2 * least), None];
        for one in limits.map(|limit| scope.spawn(move || run(limit))) {
            assert!(one.join().unwrap() == wanted);
        }
    });
    assert_sound(dir.path());
}

#[test]
fn nobody_reads_the_hole_that_is_left() {
    let (hub, dir) = begun();
    let least = least(&hub, dir.path());
    let source = open("k3-micro");
    let reader = stream_within(&hub, dir.path(), IMPATIENT, None).unwrap();
    let records = records(&reader);
    let read = |checkpoint: &Checkpoint, record: &[Span]| {
        let span = record[0];
        let mut bytes = vec![0; span.len() as usize];
        checkpoint.store.read_exact(span, &mut bytes).unwrap();
        bytes
    };
    let wanted: Vec<_> = records.iter().map(|record| read(&source, record)).collect();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Takes away all that the others brought, again and again.
        scope.spawn(|| {
            let _over = Over(&over);
            let distant = distant(&limited(&hub, dir.path(), least));
            for record in records.iter().cycle().take(300) {
                bring(&*distant, record);
            }
        });
        for first in 0..2 {
            let (reader, wanted, records, over) = (&reader, &wanted, &records, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    for number in first..records.len().min(first + 6) {
                        assert!(read(reader, &records[number]) == wanted[number], "{number}");
                    }
                }
            });
        }
    });
    assert_sound(dir.path());
}

/// Heat that a test makes up.
struct Made(Vec<f32>, usize);

impl Heat for Made {
    fn heat(&self) -> (Vec<f32>, usize) {
        (self.0.clone(), self.1)
    }
}

#[test]
fn the_coldest_goes_first_and_of_equals_what_was_used_longest_ago() {
    let (hub, dir) = begun();
    let limit = least(&hub, dir.path());
    let checkpoint = limited(&hub, dir.path(), limit);
    let (spec, records) = (checkpoint.spec().clone(), records(&checkpoint));
    let distant = distant(&checkpoint);
    // As many of one layer as have room.
    let mut room = 0;
    while distant.evicted().reads == 0 {
        bring(&*distant, &records[room]);
        room += 1;
    }
    assert!((2..spec.moe.experts).contains(&room), "{room}");
    assert_eq!(here(&hub, dir.path(), &records), (1..room).collect::<Vec<_>>(), "the first went");
    // Used again, it outlasts its neighbour.
    drop(distant.hold_here(&records[1]).unwrap());
    bring(&*distant, &records[room]);
    let left = here(&hub, dir.path(), &records);
    assert!(left.contains(&1) && !left.contains(&2), "{left:?}");
    // Used often, it outlasts what was used last.
    let first = spec.moe_layers().next().unwrap().index() * spec.moe.experts;
    let mut counts = vec![0.0; spec.layers.len() * spec.moe.experts];
    counts[first + 2] = 1.0;
    let heat: Arc<dyn Heat> = Arc::new(Made(counts, spec.moe.experts));
    distant.go_by(Arc::downgrade(&heat) as Weak<dyn Heat>);
    for record in &records[room + 1..2 * room + 2] {
        bring(&*distant, record);
    }
    assert!(here(&hub, dir.path(), &records).contains(&1));
    // What is being read stays, however cold.
    let cold = *here(&hub, dir.path(), &records).iter().find(|number| **number != 1).unwrap();
    let hold = distant.hold_here(&records[cold]).unwrap();
    for record in &records[..room + 2] {
        bring(&*distant, record);
    }
    assert!(distant.was_kept(&records[cold], &hold));
    assert_eq!(distant.evicted().reads, fs_evictions(dir.path()));
}

#[test]
fn a_limit_that_was_lowered_holds_before_anything_else_comes_and_the_hottest_stays() {
    let (hub, dir) = begun();
    let (begun, limit) = (taken(dir.path()), 2 * least(&hub, dir.path()));
    let all = stream_within(&hub, dir.path(), IMPATIENT, None).unwrap();
    let records = records(&all);
    records.iter().for_each(|record| bring(&*distant(&all), record));
    assert!(taken(dir.path()) - begun > limit);
    // What another process reads stays with it; here nobody does.
    drop(all);
    let checkpoint = limited(&hub, dir.path(), limit);
    let (spec, distant) = (checkpoint.spec().clone(), distant(&checkpoint));
    let last = spec.moe_layers().last().unwrap().index();
    let mut counts = vec![0.0; spec.layers.len() * spec.moe.experts];
    *counts[..(last + 1) * spec.moe.experts].last_mut().unwrap() = 1.0;
    counts[spec.moe_layers().next().unwrap().index() * spec.moe.experts + 1] = 2.0;
    let heat: Arc<dyn Heat> = Arc::new(Made(counts, spec.moe.experts));
    distant.go_by(Arc::downgrade(&heat) as Weak<dyn Heat>);
    let (gone, served) = (distant.trim().unwrap(), hub.served().bytes());
    let left = here(&hub, dir.path(), &records);
    assert_eq!(gone.reads as usize + left.len(), records.len());
    assert!(left.contains(&0) && left.contains(&(records.len() - 1)), "{left:?}");
    let taken = taken(dir.path()) - begun;
    assert!(0 < taken && taken <= limit, "{taken} of {limit}");
    assert_eq!((distant.trim().unwrap().reads, hub.served().bytes()), (0, served));
    assert_sound(dir.path());
    assert!(text_of(checkpoint, Prefetch::Off) == local());
}

/// Lines of the maps that take something back.
fn fs_evictions(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir.join(".deltafin")).unwrap().map(|entry| entry.unwrap().path());
    let maps = entries.filter(|path| path.extension().is_some_and(|e| e == "map"));
    let texts = maps.map(|path| fs::read_to_string(path).unwrap());
    texts.map(|text| text.lines().filter(|line| line.starts_with("gone ")).count() as u64).sum()
}

/// The file of a record, where it begins, and the name of its claim.
fn place(checkpoint: &Checkpoint, record: &[Span]) -> (String, u64, String) {
    let name = checkpoint.store.shards()[record[0].shard().index()].name.clone();
    let claim = format!(".deltafin/coming/{name}.{}", record[0].offset());
    (name, record[0].offset(), claim)
}

#[test]
fn what_was_ended_between_two_steps_is_gone_on_from() {
    let (hub, dir) = begun();
    let (begun, wanted) = (taken(dir.path()), local());
    let limit = 2 * least(&hub, dir.path());
    let checkpoint = limited(&hub, dir.path(), limit);
    let (records, distant) = (records(&checkpoint), distant(&checkpoint));
    for record in &records[..3] {
        bring(&*distant, record);
    }
    drop((distant, checkpoint));
    let checkpoint = stream_within(&hub, dir.path(), IMPATIENT, None).unwrap();
    // Claimed, to be taken away, and no more than that.
    fs::write(dir.path().join(place(&checkpoint, &records[0]).2), "").unwrap();
    // Taken back in the map, and its bytes still there.
    let (name, offset, claim) = place(&checkpoint, &records[1]);
    fs::write(dir.path().join(&claim), "").unwrap();
    let map = dir.path().join(format!(".deltafin/{name}.map"));
    let text = fs::read_to_string(&map).unwrap();
    fs::write(&map, format!("{text}gone {offset}\n")).unwrap();
    // On its way, and half of it written.
    let (name, offset, claim) = place(&checkpoint, &records[5]);
    fs::write(dir.path().join(&claim), "").unwrap();
    let part = File::options().write(true).open(dir.path().join(format!("{name}.part"))).unwrap();
    part.write_all_at(&[9; 5000], offset).unwrap();
    part.sync_all().unwrap();
    drop(checkpoint);
    assert_eq!(here(&hub, dir.path(), &records), [0, 2]);
    // The next one that makes room tidies up.
    let checkpoint = limited(&hub, dir.path(), limit);
    bring(&*self::distant(&checkpoint), &records[6]);
    assert_eq!(here(&hub, dir.path(), &records), [0, 2, 6]);
    assert!(taken(dir.path()) - begun <= limit);
    let mut bytes = [1; 64];
    let part = File::open(dir.path().join(format!("{name}.part"))).unwrap();
    part.read_exact_at(&mut bytes, offset + 2048).unwrap();
    assert_eq!(bytes, [0; 64], "what was half written is a hole");
    assert_sound(dir.path());
    assert!(text_of(checkpoint, Prefetch::Off) == wanted);
}

#[test]
fn what_came_in_part_takes_no_room() {
    let (hub, dir) = begun();
    let begun = taken(dir.path());
    let checkpoint = stream_within(&hub, dir.path(), HASTY, None).unwrap();
    let (records, distant) = (records(&checkpoint), distant(&checkpoint));
    hub.misstep(Missteps::of(&[Misstep::Cut], u64::MAX));
    let stopped = distant.bring(&records[0], &AtomicBool::new(false));
    if stopped.is_err() {
        assert_eq!(taken(dir.path()), begun);
    }
    hub.misstep(Missteps::none());
    bring(&*distant, &records[0]);
    assert!(taken(dir.path()) > begun);
}

#[test]
fn a_map_of_the_version_before_is_gone_on_with() {
    let (hub, dir) = begun();
    let maps = || {
        let entries = fs::read_dir(dir.path().join(".deltafin")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|e| e == "map"))
    };
    let text = text_of(stream_within(&hub, dir.path(), IMPATIENT, None).unwrap(), Prefetch::Off);
    for map in maps() {
        let second = fs::read_to_string(&map).unwrap();
        fs::write(&map, second.replacen("deltafin map 2", "deltafin map 1", 1)).unwrap();
    }
    let limit = least(&hub, dir.path());
    assert!(text_of(limited(&hub, dir.path(), limit), Prefetch::Off) == text);
    for map in maps() {
        let text = fs::read_to_string(&map).unwrap();
        let has_gone = text.lines().any(|line| line.starts_with("gone "));
        assert!(!has_gone || text.starts_with("deltafin map 2\n"), "{text}");
    }
    assert_sound(dir.path());
}
