//! A profile accounts for every moment of a session's passes, and changes nothing.
#![allow(clippy::unwrap_used)]

use deltafin_engine::{Engine, EngineOptions, Part, Phase, Profile, Section, Use};
use deltafin_testkit::{Golden, open};
use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::{Duration, Instant};

const STEPS: usize = 5;

fn engine(options: EngineOptions) -> Engine {
    Engine::open(open("k3-micro"), options).unwrap()
}

/// Slots for two experts that do not stay, so that all have to be read again and again.
fn scarce() -> EngineOptions {
    EngineOptions {
        slabs: NonZeroUsize::new(2),
        cache: false,
        chunk: NonZeroUsize::new(4),
        ..EngineOptions::default()
    }
}

fn decode(session: &mut deltafin_engine::Session<'_>, prompt: &[u32]) -> Vec<u32> {
    session.prefill(prompt, &mut |_| ControlFlow::Continue(())).unwrap();
    for _ in 0..STEPS {
        let id = session.greedy().unwrap();
        session.advance(id).unwrap();
    }
    session.logits().iter().map(|logit| logit.to_bits()).collect()
}

#[test]
fn the_cells_add_up_to_the_time_of_the_passes() {
    let prompt = &Golden::load("k3-micro").prompts[0].ids;
    for options in [EngineOptions::default(), scarce()] {
        let engine = engine(options);
        let stream = engine.weights().stream();
        let profile = Rc::new(RefCell::new(Profile::new(engine.spec(), Some(stream))));
        let mut session = engine.session();
        session.watch(Box::new(Rc::clone(&profile)));
        let start = Instant::now();
        decode(&mut session, prompt);
        let outside = start.elapsed();
        let report = profile.borrow_mut().report();

        let phases: Vec<Phase> = report.phases.iter().map(|phase| phase.phase).collect();
        assert_eq!(phases, [Phase::Prefill, Phase::Decode]);
        for phase in &report.phases {
            assert!(phase.wall > Duration::ZERO && phase.wall <= phase.elapsed);
            assert_eq!(phase.times.total(), phase.wall, "{:?}", phase.phase);
            let reading = [Part::SpineWait, Part::ExpertWait, Part::Embedding];
            let reading: Duration = reading.iter().map(|part| phase.times.part(*part)).sum();
            assert!(phase.times.part(Part::Embedding) > Duration::ZERO);
            assert_eq!(phase.times.compute() + reading, phase.wall);
            assert_eq!(phase.times.part(Part::Outside), Duration::ZERO);
        }
        assert!(report.phases.iter().map(|phase| phase.elapsed).sum::<Duration>() <= outside);
        let rows: Vec<u64> = report.phases.iter().map(|phase| phase.rows).collect();
        assert_eq!(rows, [prompt.len() as u64, STEPS as u64]);
        let counters = stream.counters();
        assert_eq!(report.phases[0].used, counters.prefill);
        assert_eq!(report.phases[1].used, counters.decode);
        assert!(profile.borrow_mut().report().phases.is_empty(), "it began anew");
    }
}

/// A prompt is one however few rows its passes have.
#[test]
fn a_prompt_taken_in_one_by_one_counts_as_a_prompt() {
    let prompt = &Golden::load("k3-micro").prompts[0].ids;
    let engine = engine(EngineOptions { chunk: NonZeroUsize::new(1), ..scarce() });
    let stream = engine.weights().stream();
    let profile = Rc::new(RefCell::new(Profile::new(engine.spec(), Some(stream))));
    let mut session = engine.session();
    session.watch(Box::new(Rc::clone(&profile)));
    session.prefill(prompt, &mut |_| ControlFlow::Continue(())).unwrap();
    let report = profile.borrow_mut().report();
    let [only] = &report.phases[..] else { panic!("{:?}", report.phases) };
    let passes = prompt.len() as u64;
    assert_eq!((only.phase, only.passes, only.rows), (Phase::Prefill, passes, passes));
    let counters = stream.counters();
    assert_eq!((counters.prefill.passes, counters.decode), (passes, Use::default()));

    session.advance(prompt[0]).unwrap();
    let counters = stream.counters();
    assert_eq!((counters.prefill.passes, counters.decode.passes), (passes, 1));
}

#[test]
fn each_part_is_found_where_it_belongs() {
    let prompt = &Golden::load("k3-micro").prompts[0].ids;
    let engine = engine(EngineOptions::default());
    let profile = Profile::new(engine.spec(), Some(engine.weights().stream()));
    let profile = Rc::new(RefCell::new(profile));
    let mut session = engine.session();
    session.watch(Box::new(Rc::clone(&profile)));
    decode(&mut session, prompt);
    for phase in profile.borrow_mut().report().phases {
        let spent = |section, part| phase.times.at(section, part) > Duration::ZERO;
        for section in Section::ALL {
            let attention = matches!(section, Section::Kda | Section::Mla);
            assert_eq!(spent(section, Part::Attention), attention, "{section:?}");
            assert_eq!(spent(section, Part::AttentionSpine), attention, "{section:?}");
            assert_eq!(spent(section, Part::Experts), section == Section::Moe, "{section:?}");
            assert_eq!(spent(section, Part::Head), section == Section::Ends, "{section:?}");
        }
    }
}

#[test]
fn the_critical_path_has_what_was_measured() {
    let prompt = &Golden::load("k3-micro").prompts[0].ids;
    let engine = engine(scarce());
    let profile = Profile::new(engine.spec(), Some(engine.weights().stream()));
    let profile = Rc::new(RefCell::new(profile));
    let mut session = engine.session();
    session.watch(Box::new(Rc::clone(&profile)));
    decode(&mut session, prompt);
    for phase in profile.borrow_mut().report().phases {
        let critical = phase.critical;
        assert!(phase.used.missed_bytes > 0 && critical.drive > Duration::ZERO, "{phase:?}");
        assert!(critical.path >= critical.drive.max(critical.compute), "{phase:?}");
        assert!(critical.compute <= phase.times.compute() + Duration::from_micros(1), "{phase:?}");
        assert!(phase.drives.iter().any(|drive| drive.bytes > 0), "{phase:?}");
    }
}

#[test]
fn a_profile_changes_no_bit() {
    let prompt = &Golden::load("k3-micro").prompts[0].ids;
    let engine = engine(scarce());
    let alone = decode(&mut engine.session(), prompt);
    let mut session = engine.session();
    session.watch(Box::new(Profile::new(engine.spec(), Some(engine.weights().stream()))));
    assert_eq!(decode(&mut session, prompt), alone);
}
