//! Experts that are fetched before anybody needs them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use deltafin_engine::Prefetch;
use deltafin_fetch::{Amount, Coming, Likely, Plan, Wanted};
use deltafin_store::Checkpoint;
use deltafin_testkit::hub::{Misstep, Missteps};
use deltafin_testkit::open;

use crate::streamed::{assert_once, local, set_up, stream, text_of};
use crate::support::{HASTY, IMPATIENT, whole_hub};

static GO_ON: AtomicBool = AtomicBool::new(false);

fn plan(checkpoint: &Checkpoint, likely: &Likely) -> Plan {
    Plan::new(checkpoint, likely, u64::MAX)
}

fn all_layers(checkpoint: &Checkpoint) -> Likely {
    Likely::Layers(0..=checkpoint.spec().layers.len() as u32)
}

/// Counts as if each expert had been chosen as often as this says.
fn chosen(checkpoint: &Checkpoint, count: impl Fn(usize, usize) -> f64) -> Likely {
    let (layers, experts) = (checkpoint.spec().layers.len(), checkpoint.spec().moe.experts);
    let pairs = (0..layers).flat_map(|layer| (0..experts).map(move |expert| (layer, expert)));
    Likely::Chosen(pairs.map(|(layer, expert)| count(layer, expert)).collect())
}

#[test]
fn a_whole_model_comes_once_and_then_runs_without_a_source() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    let spine = set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    hub.answer_late(Duration::from_millis(3));
    let checkpoint = stream(&hub, dir.path(), IMPATIENT);
    let ahead = plan(&checkpoint, &all_layers(&checkpoint));
    let (total, came) = (ahead.total(), AtomicU64::new(0));
    assert!(total.here.records > 0, "the first expert of each layer is here");
    let sum = total.here.records + total.coming.records;
    assert_eq!(sum, total.likely.records);
    assert_eq!(ahead.coming().len() as u64, total.coming.records);
    let count = |_: &Coming| {
        came.fetch_add(1, Ordering::SeqCst);
    };
    ahead.fetch(&GO_ON, &count).unwrap();
    assert_eq!(came.into_inner(), total.coming.records);
    assert_eq!(hub.served().bytes(), spine + total.coming.bytes);
    assert_once(&hub);
    let again = plan(&checkpoint, &all_layers(&checkpoint));
    assert_eq!((again.coming().len(), again.total().here), (0, total.likely));
    hub.misstep(Missteps::of(&[Misstep::Unavailable], u64::MAX));
    assert!(text_of(stream(&hub, dir.path(), HASTY), Prefetch::Auto) == local());
}

#[test]
fn the_likeliest_come_first_and_only_as_many_as_there_is_room_for() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    let checkpoint = stream(&hub, dir.path(), IMPATIENT);
    // Of each layer three experts, the third more often than the second, and that than the first.
    let likely =
        chosen(&checkpoint, |_, expert| if expert < 3 { expert as f64 + 1.0 } else { 0.0 });
    let all = plan(&checkpoint, &likely).total();
    let layers = all.likely.records / 3;
    assert_eq!((all.here.records, all.coming.records), (layers, 2 * layers));
    assert_eq!((all.chosen, all.found), (6.0 * layers as f64, layers as f64));
    assert_eq!(all.found_then, all.chosen);
    let half = Plan::new(&checkpoint, &likely, all.coming.bytes / 2);
    assert!(half.coming().iter().all(|record| record.expert.index() == 2), "{:?}", half.coming());
    let mut sorted = half.coming().to_vec();
    sorted.sort_by_key(|record| record.layer);
    assert_eq!(half.coming(), sorted, "as they lie in the files");
    assert_eq!(half.left_out(), Amount { records: layers, bytes: all.coming.bytes / 2 });
    assert_eq!(half.total().found_then, 4.0 * layers as f64);
    let per_layer = half.shares().iter().all(|(_, share)| share.coming.records == 1);
    assert!(per_layer && half.shares().len() as u64 == layers, "{:?}", half.shares());
    half.fetch(&GO_ON, &|_| {}).unwrap();
    let rest = plan(&checkpoint, &likely);
    assert!(rest.coming().iter().all(|record| record.expert.index() == 1), "{:?}", rest.coming());
    // Nothing is likely, and nothing has room.
    assert!(plan(&checkpoint, &chosen(&checkpoint, |_, _| 0.0)).coming().is_empty());
    assert!(Plan::new(&checkpoint, &likely, 0).coming().is_empty());
}

#[test]
fn beside_models_that_run_no_record_comes_twice() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    hub.answer_late(Duration::from_millis(4));
    let wanted = local();
    thread::scope(|scope| {
        let run = || text_of(stream(&hub, dir.path(), IMPATIENT), Prefetch::Auto);
        let running = scope.spawn(run);
        for _ in 0..2 {
            scope.spawn(|| {
                let checkpoint = stream(&hub, dir.path(), IMPATIENT);
                plan(&checkpoint, &all_layers(&checkpoint)).fetch(&GO_ON, &|_| {}).unwrap();
            });
        }
        assert!(running.join().unwrap() == wanted);
    });
    assert_eq!(hub.served().bytes(), hub.bytes());
    assert_once(&hub);
}

#[test]
fn stopped_it_goes_on_where_it_was() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    let checkpoint = stream(&hub, dir.path(), IMPATIENT);
    let (ahead, stop) = (plan(&checkpoint, &all_layers(&checkpoint)), AtomicBool::new(false));
    hub.answer_late(Duration::from_millis(20));
    ahead.fetch(&stop, &|_| stop.store(true, Ordering::SeqCst)).unwrap();
    drop(checkpoint);
    let checkpoint = stream(&hub, dir.path(), IMPATIENT);
    let rest = plan(&checkpoint, &all_layers(&checkpoint));
    assert!(!rest.coming().is_empty() && rest.coming().len() < ahead.coming().len());
    rest.fetch(&GO_ON, &|_| {}).unwrap();
    let largest = ahead.coming().iter().map(|record| record.bytes).max().unwrap_or_default();
    let twice = hub.served().bytes() - hub.bytes();
    assert!(twice <= 4 * largest, "{twice} bytes came twice; four requests were on their way");
}

#[test]
fn a_source_that_gives_nothing_ends_it_and_what_came_stays() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    set_up(&hub, dir.path(), Wanted::Spine).unwrap();
    let checkpoint = stream(&hub, dir.path(), HASTY);
    let ahead = plan(&checkpoint, &all_layers(&checkpoint));
    let lost = |_: &Coming| hub.misstep(Missteps::of(&[Misstep::Unavailable], u64::MAX));
    let error = ahead.fetch(&GO_ON, &lost).unwrap_err().to_string();
    assert!(error.contains("503") && error.contains("model-000"), "{error}");
    hub.misstep(Missteps::none());
    let rest = plan(&checkpoint, &all_layers(&checkpoint));
    assert!(rest.coming().len() < ahead.coming().len());
    rest.fetch(&GO_ON, &|_| {}).unwrap();
    assert!(plan(&checkpoint, &all_layers(&checkpoint)).coming().is_empty());
}

#[test]
fn of_a_model_that_is_here_nothing_is_to_come() {
    let checkpoint = open("k3-micro");
    let ahead = plan(&checkpoint, &all_layers(&checkpoint));
    assert_eq!((ahead.coming().len(), ahead.total().here), (0, ahead.total().likely));
    ahead.fetch(&GO_ON, &|_| {}).unwrap();
}
