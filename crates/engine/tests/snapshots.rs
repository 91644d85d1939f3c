//! Going on from what was kept: the bits of a cold start, and as much reused as is promised.
#![allow(clippy::unwrap_used)]

use deltafin_engine::{
    Engine, EngineError, EngineOptions, Flow, FolderOptions, IsaKind, Limits, Mark, Recipe,
    Session, SnapshotMemory, generate, most_likely,
};
use deltafin_testkit::{Golden, open, open_as};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CHUNK: usize = 48;

fn options(snapshots: SnapshotMemory) -> EngineOptions {
    EngineOptions {
        context: NonZeroUsize::new(512),
        chunk: NonZeroUsize::new(CHUNK),
        threads: NonZeroUsize::new(2),
        snapshots,
        ..EngineOptions::default()
    }
}

fn engine_as(recipe: Recipe, snapshots: SnapshotMemory) -> Engine {
    Engine::open(open_as("k3-micro", recipe), options(snapshots)).unwrap()
}

fn engine(snapshots: SnapshotMemory) -> Engine {
    engine_as(Recipe::Bf16, snapshots)
}

fn roomy() -> SnapshotMemory {
    SnapshotMemory::Bytes(64 << 20)
}

/// A prompt of so many ids, its own for each seed from its first id on.
fn prompt(seed: u32, ids: usize) -> Vec<u32> {
    let vocab = open("k3-micro").spec().vocab as u32;
    (0..ids as u32).map(|at| (seed * 31 + 7 + at * (7919 + seed)) % vocab).collect()
}

/// What a prompt and three more ids gave.
#[derive(PartialEq)]
struct Told {
    bits: Vec<Vec<u32>>,
    ids: Vec<u32>,
}

const NEW: usize = 3;

/// Takes a prompt in, reusing what there is, with a mark before its last three ids, and generates. Returns
/// how many ids were reused.
fn turn(session: &mut Session<'_>, prompt: &[u32]) -> (usize, Told) {
    let reused = session.reuse(prompt);
    session.mark(&[Mark { position: prompt.len() - 3, lasting: true }]);
    let flow = session.prefill(&prompt[reused..], &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(flow, Flow::Done);
    let mut told = Told { bits: Vec::new(), ids: Vec::new() };
    for step in 0..NEW {
        told.bits.push(session.logits().iter().map(|logit| logit.to_bits()).collect());
        told.ids.push(session.greedy().unwrap());
        if step + 1 < NEW {
            session.advance(told.ids[step]).unwrap();
        }
    }
    session.keep();
    (reused, told)
}

fn cold(prompt: &[u32]) -> Told {
    let engine = engine(SnapshotMemory::None);
    let (reused, told) = turn(&mut engine.session(), prompt);
    assert_eq!(reused, 0);
    told
}

/// As cold, with so many ids reused.
#[track_caller]
fn check(session: &mut Session<'_>, prompt: &[u32], wanted_reused: usize) {
    let (reused, told) = turn(session, prompt);
    assert_eq!(reused, wanted_reused);
    assert!(told == cold(prompt), "other bits after {reused} reused ids");
}

#[test]
fn conversations_interleave_without_losing_each_other() {
    let engine = engine(roomy());
    let mut session = engine.session();
    let mut talks: Vec<Vec<u32>> = (0..3).map(|seed| prompt(seed, 100)).collect();
    for round in 0..3 {
        for talk in &mut talks {
            let held = if round == 0 { 0 } else { talk.len() - 21 };
            check(&mut session, talk, held);
            // The reply as it was taken in (its last id was not), then the next turn.
            let reply = session.ids()[talk.len()..].to_vec();
            assert_eq!(reply.len(), NEW - 1);
            talk.extend(reply);
            talk.extend(prompt(9, 21));
        }
    }
}

#[test]
fn a_reply_that_comes_back_changed_goes_on_from_before_it() {
    let engine = engine(roomy());
    let mut session = engine.session();
    let first = prompt(1, 130);
    check(&mut session, &first, 0);
    // Asked again, word for word.
    check(&mut session, &first, 127);
    // Another reply in its place.
    let edited = [&first[..], &prompt(5, 40)].concat();
    check(&mut session, &edited, 127);
    // A changed question falls back to nothing, for no boundary was marked before it.
    let mut changed = first.clone();
    changed[60] ^= 1;
    check(&mut session, &changed, 0);
    // And nothing of all that spoiled the first.
    check(&mut session, &first, 127);
}

#[test]
fn marks_inside_a_pass_cost_no_pass_and_are_all_reached() {
    let engine = engine(roomy());
    let mut session = engine.session();
    let long = prompt(2, 200);
    let marks = [150, 1, 64, 131, 199].map(|position| Mark { position, lasting: true });
    session.mark(&marks);
    let mut passes = Vec::new();
    let mut watch = |progress: deltafin_engine::Progress| {
        passes.push(progress.rows_done);
        ControlFlow::Continue(())
    };
    session.prefill(&long, &mut watch).unwrap();
    passes.dedup();
    assert_eq!(passes, [0, 48, 96, 144, 192]);
    // One id is as quickly taken in again as returned to, so nothing is kept there.
    check(&mut session, &long, 199);
    for (agree, wanted) in [(140, 131), (100, 64), (30, 0)] {
        let other = [&long[..agree], &[long[agree] ^ 1]].concat();
        check(&mut session, &other, wanted);
    }
}

/// What was complete when a client left is not lost.
#[test]
fn an_aborted_prompt_leaves_what_it_came_by_and_nothing_else() {
    let engine = engine(roomy());
    let mut session = engine.session();
    let long = prompt(3, 160);
    session.mark(&[40, 100, 158].map(|position| Mark { position, lasting: true }));
    let mut stop_in_the_third_pass = |progress: deltafin_engine::Progress| {
        let stop = progress.rows_done == 2 * CHUNK && progress.layer == 3;
        if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let flow = session.prefill(&long, &mut stop_in_the_third_pass).unwrap();
    assert_eq!(flow, Flow::Interrupted);
    assert!(session.ids().is_empty());
    session.keep();
    check(&mut session, &long, 40);
    check(&mut session, &prompt(4, 70), 0);
    check(&mut session, &long, 157);
}

#[test]
fn an_abandoned_reply_changes_no_later_one() {
    struct Leaves(usize);
    impl deltafin_engine::Listener for Leaves {
        fn prefill(&mut self, _: deltafin_engine::Progress) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }
        fn id(&mut self, _: u32) -> ControlFlow<()> {
            self.0 -= 1;
            if self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        fn choose(&mut self, logits: &[f32]) -> u32 {
            // Not what is likeliest, so that what it leaves behind is no common text.
            most_likely(logits).unwrap() ^ 1
        }
    }
    let engine = engine(roomy());
    let mut session = engine.session();
    let asked = prompt(6, 90);
    session.mark(&[Mark { position: 87, lasting: true }]);
    let reused = session.reuse(&asked);
    generate(&mut session, &asked[reused..], Limits::default(), &mut Leaves(4)).unwrap();
    session.keep();
    check(&mut session, &asked, 87);
}

/// A budget for about one, and one for none: only time is lost.
#[test]
fn little_memory_loses_snapshots_and_nothing_else() {
    let least = match Engine::open(open("k3-micro"), options(SnapshotMemory::Bytes(1))) {
        Err(error @ EngineError::SnapshotMemory { asked: 1, least }) => {
            assert!(error.to_string().contains("--snapshot-memory 1 "), "{error}");
            least
        }
        other => panic!("{:?}", other.map(|_| ())),
    };
    for bytes in [least, least * 2] {
        let engine = engine(SnapshotMemory::Bytes(bytes));
        assert_eq!(engine.snapshot_memory(), bytes);
        assert_eq!(engine.plan().unwrap().snapshots, bytes);
        let mut session = engine.session();
        for round in 0..2 {
            for seed in 0..3 {
                let prompt = prompt(seed, 150 + round);
                let (_, told) = turn(&mut session, &prompt);
                assert!(told == cold(&prompt));
            }
        }
        // The last one is always there.
        check(&mut session, &prompt(2, 151), 148);
    }
    let engine = engine(SnapshotMemory::None);
    let mut session = engine.session();
    check(&mut session, &prompt(2, 150), 0);
    check(&mut session, &prompt(2, 150), 0);
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn keep_in(engine: &Engine, path: &Path, bytes: u64) -> Lines {
    let lines = Lines::default();
    let own = lines.clone();
    let note = move |line: &str| own.0.lock().unwrap().push(line.to_owned());
    engine.keep_snapshots_in(FolderOptions { path: path.to_owned(), bytes }, note).unwrap();
    lines
}

fn files(path: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = path.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

const DRIVE: u64 = 64 << 20;

#[test]
fn a_restart_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("not yet there");
    let talk = prompt(1, 140);
    {
        let engine = engine(roomy());
        let lines = keep_in(&engine, &path, DRIVE);
        check(&mut engine.session(), &talk, 0);
        assert!(engine.snapshot_writes().unwrap().finish_within(Duration::from_secs(60)));
        assert_eq!(lines.taken(), [""; 0]);
    }
    assert_eq!(files(&path).len(), 2, "before the reply, and after it");
    let again = engine(roomy());
    let lines = keep_in(&again, &path, DRIVE);
    let mut session = again.session();
    check(&mut session, &talk, 137);
    check(&mut session, &prompt(2, 50), 0);
    let more = [&talk[..], &cold(&talk).ids[..NEW - 1], &prompt(7, 30)].concat();
    drop(session);
    check(&mut again.session(), &more, talk.len() + NEW - 1);
    assert_eq!(lines.taken(), [""; 0]);
}

#[test]
fn what_is_damaged_is_dropped_with_one_line_and_never_tried_twice() {
    let folder = tempfile::tempdir().unwrap();
    let talk = prompt(1, 140);
    {
        let engine = engine(roomy());
        keep_in(&engine, folder.path(), DRIVE);
        check(&mut engine.session(), &talk, 0);
    }
    let whole: Vec<_> = files(folder.path())
        .into_iter()
        .map(|path| (std::fs::read(&path).unwrap(), path))
        .collect();
    type Damage = fn(&mut Vec<u8>);
    let damages: [(Damage, &str); 5] = [
        (|bytes| bytes.truncate(bytes.len() / 2), "bytes where"),
        (|bytes| bytes.truncate(9), "within its head"),
        (|bytes| *bytes.last_mut().unwrap() ^= 1, "damaged"),
        (|bytes| bytes[5000] ^= 0x40, "damaged"),
        (|bytes| bytes[9] ^= 1, "another checkpoint"),
    ];
    for (damage, words) in damages {
        for (bytes, path) in &whole {
            let mut bytes = bytes.clone();
            damage(&mut bytes);
            std::fs::write(path, bytes).unwrap();
        }
        let engine = engine(roomy());
        let lines = keep_in(&engine, folder.path(), DRIVE);
        check(&mut engine.session(), &talk, 0);
        let told = lines.taken();
        // The one after the reply is no beginning of this prompt, so nobody looked at it.
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(words) && told[0].contains(".snapshot is dropped: "), "{told:?}");
        assert!(!told[0].contains('\n'));
    }
}

/// Neither another recipe's nor another checkpoint's state is ever taken, and none of them is harmed.
#[test]
fn a_folder_may_be_shared_by_everything() {
    let folder = tempfile::tempdir().unwrap();
    let talk = prompt(1, 140);
    for recipe in [Recipe::Bf16, Recipe::Int8] {
        let engine = engine_as(recipe, roomy());
        keep_in(&engine, folder.path(), DRIVE);
        let (reused, _) = turn(&mut engine.session(), &talk);
        assert_eq!(reused, 0, "{recipe}");
    }
    let calm = Engine::open(open("k3-calm"), options(roomy())).unwrap();
    keep_in(&calm, folder.path(), DRIVE);
    assert_eq!(turn(&mut calm.session(), &talk).0, 0);
    drop(calm);
    assert_eq!(files(folder.path()).len(), 6);
    for recipe in [Recipe::Bf16, Recipe::Int8] {
        let engine = engine_as(recipe, roomy());
        let lines = keep_in(&engine, folder.path(), DRIVE);
        assert_eq!(turn(&mut engine.session(), &talk).0, 137, "{recipe}");
        assert_eq!(lines.taken(), [""; 0]);
    }
}

/// One that is longer than this session's context is left alone.
#[test]
fn a_longer_context_s_snapshot_is_not_forced_into_a_shorter_one() {
    let folder = tempfile::tempdir().unwrap();
    let talk = prompt(1, 300);
    {
        let engine = engine(roomy());
        keep_in(&engine, folder.path(), DRIVE);
        turn(&mut engine.session(), &talk);
    }
    let context = NonZeroUsize::new(200);
    let options = EngineOptions { context, ..options(roomy()) };
    let engine = Engine::open(open("k3-micro"), options).unwrap();
    let lines = keep_in(&engine, folder.path(), DRIVE);
    let mut session = engine.session();
    assert_eq!(session.reuse(&talk), 0);
    check(&mut session, &talk[..150], 0);
    assert_eq!(lines.taken(), [""; 0]);
}

/// The bits of a state are part of the file format: where they change, files of before do not continue
/// the text of after. If this fails because the arithmetic changed, raise `VERSION` in
/// `deltafin-snapshot` and this digest with it.
#[test]
fn the_bits_of_a_state_belong_to_the_version_of_the_format() {
    let golden = Golden::load("k3-micro");
    let long = &golden.prompts.iter().find(|prompt| prompt.name == "long").unwrap().ids;
    for isa in [None, Some(IsaKind::Scalar)] {
        let folder = tempfile::tempdir().unwrap();
        {
            let options = EngineOptions { isa, ..options(roomy()) };
            let engine = Engine::open(open("k3-micro"), options).unwrap();
            keep_in(&engine, folder.path(), DRIVE);
            let mut session = engine.session();
            session.prefill(long, &mut |_| ControlFlow::Continue(())).unwrap();
            session.keep();
        }
        let [file] = &files(folder.path())[..] else { panic!("one file") };
        let bytes = std::fs::read(file).unwrap();
        let digest = &bytes[bytes.len() - 32..][..8];
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((bytes[7], digest.as_str()), (1, "1745b60c0fd191e2"), "{isa:?}");
    }
}

/// A client may cut a long reply, or change its end.
#[test]
fn a_long_reply_is_gone_on_from_in_its_middle() {
    const STRIDE: usize = 4096;
    let context = NonZeroUsize::new(STRIDE + 64);
    let engine = |snapshots| {
        let options = EngineOptions { context, chunk: None, ..options(snapshots) };
        Engine::open(open("k3-micro"), options).unwrap()
    };
    let mut ids = prompt(5, STRIDE - 8);
    let kept = engine(roomy());
    let mut session = kept.session();
    session.prefill(&ids, &mut |_| ControlFlow::Continue(())).unwrap();
    for _ in 0..12 {
        let id = session.greedy().unwrap();
        session.advance(id).unwrap();
        ids.push(id);
    }
    // Cut, and gone on from in another way.
    ids.truncate(STRIDE + 2);
    ids.push(ids[0] + 1);
    let told = |session: &mut Session<'_>, reused: usize| {
        session.prefill(&ids[reused..], &mut |_| ControlFlow::Continue(())).unwrap();
        session.logits().iter().map(|logit| logit.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(session.reuse(&ids), STRIDE);
    let continued = told(&mut session, STRIDE);
    assert!(continued == told(&mut engine(SnapshotMemory::None).session(), 0));
}
