//! Reads that go wrong, whichever they are: the same text or one error that names the place, never
//! another text, never a wait without end. Once the fault is gone the next request on the same engine
//! is answered as ever, in the memory that was set aside.
//!
//! A bit that changes on its way is told by nobody but digests and sums: [`flipped`] says how far these go.
#![allow(clippy::unwrap_used)]

mod flipped;

use deltafin_engine::{
    Engine, EngineError, EngineOptions, IoMode, Layout, Prefetch, Recipe, Session, StreamedWeights,
};
use deltafin_store::{Checkpoint, open_dir};
use deltafin_stream::largest_unit_room;
use deltafin_testkit::{Fault, FaultyStore, Golden, Hits, fixture, open, open_as};
use std::fs::{self, OpenOptions};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// What one step takes only if it never ends.
const PATIENCE: Duration = Duration::from_secs(60);

const NEW_IDS: usize = 3;

/// Runs `test` on a thread of its own and gives up when a step of it does not end. It names its steps.
fn watched(test: impl FnOnce(&dyn Fn(String)) + Send + 'static) {
    let (step, steps) = channel();
    let thread = thread::spawn(move || test(&|words| step.send(words).unwrap()));
    let mut at = "the beginning".to_owned();
    loop {
        match steps.recv_timeout(PATIENCE) {
            Ok(words) => at = words,
            Err(RecvTimeoutError::Timeout) => panic!("hangs at {at}"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    thread.join().unwrap_or_else(|_| panic!("at {at}"));
}

/// The bits of all logits on the way, and the ids.
type Text = (Vec<Vec<u32>>, Vec<u32>);

fn text(session: &mut Session<'_>) -> Result<Text, EngineError> {
    let prompts = Golden::load("k3-micro").prompts;
    let prompt = prompts.into_iter().map(|p| p.ids).find(|ids| ids.len() >= 6).unwrap();
    session.reset();
    session.prefill(&prompt[..6], &mut |_| ControlFlow::Continue(()))?;
    let (mut bits, mut ids) = (Vec::new(), Vec::new());
    for _ in 0..NEW_IDS {
        bits.push(session.logits().iter().map(|logit| logit.to_bits()).collect());
        let id = session.greedy().unwrap();
        ids.push(id);
        session.advance(id)?;
    }
    Ok((bits, ids))
}

/// From nothing that stays to everything, with guesses where something can be guessed.
fn layouts(checkpoint: &Checkpoint) -> Vec<Layout> {
    let everything = Layout::everything(checkpoint.spec());
    let units = everything.resident.len();
    let least = Layout {
        resident: vec![false; units],
        stream_bytes: largest_unit_room(&checkpoint.catalog),
        expert_slots: 1,
        slot_bytes: None,
        cache: false,
        prefetch: Prefetch::Off,
    };
    let middle = Layout {
        resident: (0..units).map(|unit| unit % 3 == 0).collect(),
        stream_bytes: 2 * least.stream_bytes,
        expert_slots: 9,
        slot_bytes: None,
        cache: true,
        prefetch: Prefetch::Auto,
    };
    vec![least, middle, everything]
}

fn engine(checkpoint: Checkpoint, layout: &Layout, io: IoMode) -> Result<Engine, EngineError> {
    let spec = checkpoint.spec().clone();
    let weights = StreamedWeights::open(checkpoint, layout.clone(), io)?;
    let options = EngineOptions {
        threads: NonZeroUsize::new(2),
        chunk: NonZeroUsize::new(4),
        context: NonZeroUsize::new(64),
        ..EngineOptions::default()
    };
    Engine::with_weights(spec, weights, Vec::new(), options)
}

fn healthy_text(checkpoint: &Checkpoint, layout: &Layout) -> Text {
    let engine = engine(checkpoint.clone(), layout, IoMode::Auto).unwrap();
    text(&mut engine.session()).unwrap()
}

/// A model whose reads go wrong, and what it says when they do not.
struct Patient {
    checkpoint: Checkpoint,
    store: Arc<FaultyStore>,
    layout: Layout,
    io: IoMode,
    wanted: Text,
}

impl Patient {
    /// Opens it, badly if it comes to that, and has it say its text; then cures it and asks again.
    fn suffer(&self) -> Result<Text, EngineError> {
        let open = || engine(self.checkpoint.clone(), &self.layout, self.io);
        self.store.fall_ill();
        let refused = open().inspect_err(|error| self.names_the_place(error));
        self.store.heal();
        let engine = refused.or_else(|_| open()).unwrap();
        let (stream, mut session) = (engine.weights().stream(), engine.session());
        let (slots, arenas) = (stream.expert_slots(), stream.arenas().to_vec());

        self.store.fall_ill();
        let outcome = text(&mut session);
        self.store.heal();
        if outcome.is_err() {
            assert!(session.ids().is_empty() && session.logits().is_empty());
            assert!(text(&mut session).unwrap() == self.wanted, "another text after the fault");
        }
        assert_eq!(stream.expert_slots(), slots, "slots were lost");
        drop(session);
        drop(engine);
        for arena in arenas {
            assert_eq!(arena.free_bytes(), arena.len(), "memory was lost");
        }
        outcome
    }

    /// In one line, with the file and the offset; no offset yet where a drive is only tried.
    fn names_the_place(&self, error: &EngineError) {
        let (message, file) = (error.to_string(), [".safetensors", ".spine"]);
        assert!(file.iter().any(|kind| message.contains(kind)), "{message}");
        let tried = message.contains("reads cannot be had");
        assert!(tried || message.contains(" offset"), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

/// Each of these with each of those.
fn all_pairs_of<A: Clone, B: Clone>(these: &[A], those: &[B]) -> Vec<(A, B)> {
    let with = |a: &A| those.iter().map(move |b| (a.clone(), b.clone())).collect::<Vec<_>>();
    these.iter().flat_map(with).collect()
}

/// Some choice of reads, in every layout of a checkpoint: those of the shards in `within`.
fn each(
    checkpoint: Checkpoint,
    within: Range<usize>,
    faults: &'static [Fault],
    test: impl Fn(Fault, Hits, &Patient) + Send + 'static,
) {
    watched(move |at| {
        for layout in layouts(&checkpoint) {
            let wanted = healthy_text(&checkpoint, &layout);
            for &fault in faults {
                for (seed, every) in [(1, 1), (2, 2), (3, 7), (4, 60)] {
                    let hits = Hits { seed, every };
                    at(format!("{fault:?} {hits:?} {layout:?}"));
                    let inner = Arc::clone(&checkpoint.store);
                    let store = FaultyStore::new(inner, fault, hits).within(within.clone());
                    let store = Arc::new(store);
                    let mut checkpoint = checkpoint.clone();
                    checkpoint.store = Arc::clone(&store) as _;
                    let (layout, io, wanted) = (layout.clone(), IoMode::Auto, wanted.clone());
                    test(fault, hits, &Patient { checkpoint, store, layout, io, wanted });
                }
            }
        }
    });
}

fn same_text_or_error(fault: Fault, hits: Hits, patient: &Patient) {
    match patient.suffer() {
        Ok(got) => assert!(got == patient.wanted, "another text"),
        Err(error) => {
            assert!(!matches!(fault, Fault::Late(_)), "{error}");
            patient.names_the_place(&error);
        }
    }
    assert!(patient.store.struck() > 0 || hits.every > 1, "nothing was tested");
}

#[test]
fn a_read_that_goes_wrong_is_the_same_text_or_an_error_that_names_it() {
    each(open("k3-micro"), 0..usize::MAX, &Fault::HONEST, same_text_or_error);
}

#[test]
fn so_it_is_with_a_packed_spine() {
    let packed = open_as("k3-micro", Recipe::Int8);
    each(packed, 0..usize::MAX, &Fault::HONEST, same_text_or_error);
}

/// What the kernel itself says of a file: where a ring or a thread hears of it. Twice in a row it is
/// an error, once it is nobody's business but that of the drive.
#[test]
fn so_it_is_when_the_kernel_says_it() {
    watched(|at| {
        let plain = open("k3-micro");
        for (layout, io) in all_pairs_of(&layouts(&plain), &[IoMode::Uring, IoMode::Direct]) {
            if engine(plain.clone(), &layout, io).is_err() {
                continue; // This machine cannot read in this way.
            }
            let wanted = healthy_text(&plain, &layout);
            for (fault, (seed, every)) in all_pairs_of(&Fault::HONEST, &[(1, 1), (2, 2), (3, 7)]) {
                let hits = Hits { seed, every };
                at(format!("{io} {fault:?} {hits:?} {layout:?}"));
                let store = FaultyStore::new(Arc::clone(&plain.store), fault, hits).in_files();
                let store = Arc::new(store);
                let mut checkpoint = plain.clone();
                checkpoint.store = Arc::clone(&store) as _;
                let (layout, wanted) = (layout.clone(), wanted.clone());
                let patient = Patient { checkpoint, store, layout, io, wanted };
                same_text_or_error(fault, hits, &patient);
                if let Some(words) = kernel_says(fault).filter(|_| every == 1) {
                    let message = patient.suffer().unwrap_err().to_string();
                    assert!(message.contains(words), "{message}");
                }
            }
        }
    });
}

/// Where all reads go wrong, if that is told at all.
fn kernel_says(fault: Fault) -> Option<&'static str> {
    match fault {
        Fault::Short => Some("the file ends after"),
        Fault::FailsForEver => Some("failed twice: Bad file descriptor"),
        Fault::Vanished => Some("cannot be opened again to read"),
        _ => None,
    }
}

/// Each read fails the first time only: whatever ends a pass, the same session gets through at last.
#[test]
fn a_session_goes_on_when_its_reads_succeed_again() {
    each(open("k3-micro"), 0..usize::MAX, &[Fault::FailsOnce], |_, _, patient| {
        patient.store.heal();
        let (checkpoint, layout) = (patient.checkpoint.clone(), &patient.layout);
        let engine = engine(checkpoint, layout, IoMode::Auto).unwrap();
        patient.store.fall_ill();
        let mut session = engine.session();
        let got = loop {
            match text(&mut session) {
                Ok(got) => break got,
                // Every failure is of a read that had not failed before: this ends.
                Err(error) => patient.names_the_place(&error),
            }
        };
        assert!(got == patient.wanted, "another text after failures");
    });
}

/// Real files, in every way they can be read.
#[test]
fn a_shard_cut_in_use_is_named_in_every_mode_and_the_session_goes_on() {
    const SHARD: &str = "model-00005-of-000012.safetensors";
    watched(|at| {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for entry in fs::read_dir(fixture("k3-micro")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
        }
        let shard = dir.path().join(SHARD);
        let whole = fs::read(&shard).unwrap();
        let [least, middle, _] = layouts(&open_dir(dir.path()).unwrap()).try_into().unwrap();
        for io in [IoMode::Uring, IoMode::Direct, IoMode::Buffered] {
            for layout in [&least, &middle] {
                at(format!("{io} {layout:?}"));
                let Ok(engine) = engine(open_dir(dir.path()).unwrap(), layout, io) else {
                    assert_ne!(io, IoMode::Buffered);
                    continue;
                };
                let mut session = engine.session();
                let wanted = text(&mut session).unwrap();
                OpenOptions::new().write(true).open(&shard).unwrap().set_len(20_000).unwrap();
                let message = text(&mut session).unwrap_err().to_string();
                assert!(message.contains(SHARD) && message.contains(" at offset "), "{message}");
                fs::write(&shard, &whole).unwrap();
                assert!(text(&mut session).unwrap() == wanted);
            }
        }
    });
}
