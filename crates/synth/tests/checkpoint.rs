//! What is written opens, computes, and is the same every time.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use deltafin_engine::{Engine, EngineOptions, LayerId, Observer, Silent};
use deltafin_spec::ModelSpec;
use deltafin_store::open_dir;
use deltafin_synth::{
    Content, Dimensions, Ended, Plan, Preset, Routing, SynthError, routes::Routes,
};

fn tiny(seed: u64) -> Plan {
    Plan::new(&Dimensions::of(Preset::Tiny), Routing::EVEN, seed).unwrap()
}

fn write(plan: &Plan, dir: &Path, content: Content) {
    let ended = plan.write(dir, content, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(ended, Ended::Complete);
}

/// Every file, by name.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    let mut files: Vec<_> = entries.map(read).collect();
    files.sort();
    files
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let made = |name: &str, seed| {
        write(&tiny(seed), &dir.path().join(name), Content::Weights);
        files(&dir.path().join(name))
    };
    let (first, again, other) = (made("a", 1), made("b", 1), made("c", 2));
    assert_eq!(first, again);
    let shards = first.iter().zip(&other).filter(|(one, _)| one.0.ends_with(".safetensors"));
    assert!(shards.clone().count() > 0);
    for (one, two) in shards {
        assert_eq!(one.1.len(), two.1.len());
        assert_ne!(one.1, two.1, "{}", one.0);
    }
}

#[test]
fn activations_stay_sane_over_hundreds_of_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let plan = tiny(7);
    write(&plan, dir.path(), Content::Weights);
    let engine = Engine::open(open_dir(dir.path()).unwrap(), EngineOptions::default()).unwrap();
    let vocab = plan.spec().vocab;
    let ids: Vec<u32> = (0..400).map(|position: u32| position * 7919 % vocab as u32).collect();
    let mut rows = Vec::new();
    let mut session = engine.session();
    session
        .evaluate(&ids, &mut Silent, &mut |_| {}, &mut |_, logits| {
            rows.extend(logits.chunks(vocab).map(|row| {
                let square = row.iter().map(|logit| logit * logit).sum::<f32>();
                (square / vocab as f32).sqrt()
            }));
        })
        .unwrap();
    assert_eq!(rows.len(), ids.len());
    assert!(rows.iter().all(|rms| (0.3..3.0).contains(rms)), "{rows:?}");
}

#[test]
fn holes_have_the_lengths_of_weights_and_open() {
    let dir = tempfile::tempdir().unwrap();
    let plan = tiny(1);
    write(&plan, dir.path(), Content::Holes);
    let lengths: u64 = plan
        .shards()
        .iter()
        .map(|shard| fs::metadata(dir.path().join(&shard.name)).unwrap().len())
        .sum();
    assert_eq!(lengths, plan.bytes());
    assert_eq!(open_dir(dir.path()).unwrap().spec(), plan.spec());
}

/// The numbers of the release; that such files open is a test of the store.
#[test]
fn the_full_size_has_the_released_files() {
    let plan = Plan::new(&Dimensions::of(Preset::K3), Routing::EVEN, 1).unwrap();
    assert_eq!(*plan.spec(), ModelSpec::k3());
    assert_eq!(plan.bytes(), 1_560_936_091_448);
    let dir = tempfile::tempdir().unwrap();
    write(&plan, dir.path(), Content::Holes);
    let len = |name| fs::metadata(dir.path().join(name)).unwrap().len();
    assert_eq!(len("generation_config.json"), 53);
    assert_eq!(len("model.safetensors.index.json"), 59_764_096);
}

#[test]
fn a_directory_with_something_in_it_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("letter"), "dear").unwrap();
    let refused = tiny(1).write(dir.path(), Content::Weights, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(SynthError::NotEmpty(_))), "{refused:?}");
    assert_eq!(files(dir.path()), [("letter".to_owned(), b"dear".to_vec())]);
}

#[test]
fn nothing_is_left_of_a_checkpoint_that_was_stopped() {
    let dir = tempfile::tempdir().unwrap();
    for (name, pieces) in [("at the first shard", 1), ("at the third", 60)] {
        let out = dir.path().join(name);
        let mut left = pieces;
        let ended = tiny(1).write(&out, Content::Weights, &mut |_| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(ended.unwrap(), Ended::Stopped);
        assert!(!out.exists(), "{name}");
    }
}

#[derive(Default)]
struct Count(Routes);

impl Observer for Count {
    fn route(&mut self, layer: LayerId, _row: usize, experts: &[u32], _weights: &[f32]) {
        self.0.push(layer.index(), experts);
    }
}

/// Of a small model with as many experts as K3 has.
fn routes(routing: Routing) -> Routes {
    let dims = Dimensions { experts: Some(896), top_k: Some(16), ..Dimensions::of(Preset::Tiny) };
    let dir = tempfile::tempdir().unwrap();
    write(&Plan::new(&dims, routing, 1).unwrap(), dir.path(), Content::Weights);
    let engine = Engine::open(open_dir(dir.path()).unwrap(), EngineOptions::default()).unwrap();
    // Spread over the vocabulary without a pattern.
    let ids: Vec<u32> =
        (0..256).map(|position: u32| position.wrapping_mul(2_654_435_761) >> 23).collect();
    let mut count = Count::default();
    engine.session().evaluate(&ids, &mut count, &mut |_| {}, &mut |_, _| {}).unwrap();
    count.0
}

#[test]
fn skew_and_overlap_do_what_they_say() {
    let even = routes(Routing { skew: 0.0, overlap: 0.0 });
    let skewed = routes(Routing { skew: 0.5, overlap: 0.0 });
    let lasting = routes(Routing { skew: 0.0, overlap: 0.6 });
    let repeats = |routes: &Routes| 2.0 - routes.union(2).unwrap();
    let hottest = |routes: &Routes| routes.hottest(0.03, 896).unwrap();
    assert!(repeats(&even) < 0.1, "{}", repeats(&even));
    assert!(hottest(&skewed) > 2.0 * hottest(&even), "{} {}", hottest(&even), hottest(&skewed));
    assert!(repeats(&lasting) > repeats(&even) + 0.05, "{} {}", repeats(&even), repeats(&lasting));
    // Lasting is not popular: over a text, as many experts are wanted as before.
    assert!(hottest(&lasting) < 1.5 * hottest(&even), "{} {}", hottest(&even), hottest(&lasting));
}

#[test]
fn routes_are_near_those_published_for_k3() {
    let routes = routes(Routing::LIKE_K3);
    let (two, eight) = (routes.union(2).unwrap(), routes.union(8).unwrap());
    let hottest = routes.hottest(0.3, 896).unwrap();
    assert!((1.6..1.8).contains(&two), "published 1.7: {two}");
    assert!((4.0..4.6).contains(&eight), "published 4.3: {eight}");
    assert!((0.8..1.0).contains(&hottest), "published 0.86: {hottest}");
}

/// Fewer columns and heads than are set aside for slow ones.
#[test]
fn narrow_models_can_have_any_routing() {
    let dims = Dimensions { experts: Some(9), top_k: Some(2), ..Dimensions::of(Preset::Tiny) };
    for (skew, overlap) in [(0.0, 1.0), (10.0, 0.0), (10.0, 1.0)] {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan::new(&dims, Routing { skew, overlap }, 1).unwrap();
        write(&plan, dir.path(), Content::Weights);
        let engine = Engine::open(open_dir(dir.path()).unwrap(), EngineOptions::default()).unwrap();
        let mut finite = 0;
        let mut logits =
            |_, rows: &[f32]| finite += usize::from(rows.iter().all(|l| l.is_finite()));
        engine.session().evaluate(&[1, 2, 3], &mut Silent, &mut |_| {}, &mut logits).unwrap();
        assert_eq!(finite, 1, "skew {skew}, overlap {overlap}");
    }
}
