//! What a session's watcher sees of its passes.
#![allow(clippy::unwrap_used)]

use deltafin_engine::{Engine, EngineOptions, Ids, LayerId, Observer, Part, PassPlan, Silent};
use deltafin_testkit::{DemoGolden, open};
use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::rc::Rc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Its first position, its rows, and whether they are a prompt's.
    Pass(usize, usize, Ids),
    Layer(usize),
    Part(Part),
}

#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<Seen>>>);

impl Observer for Log {
    fn pass(&mut self, position: usize, pass: PassPlan) {
        self.0.borrow_mut().push(Seen::Pass(position, pass.rows, pass.ids));
    }

    fn part(&mut self, part: Part) {
        self.0.borrow_mut().push(Seen::Part(part));
    }

    fn layer(&mut self, layer: LayerId) -> ControlFlow<()> {
        self.0.borrow_mut().push(Seen::Layer(layer.index()));
        ControlFlow::Continue(())
    }
}

/// What is seen of one call, which starts from an empty log.
fn seen(log: &Log, call: impl FnOnce()) -> Vec<Seen> {
    log.0.borrow_mut().clear();
    call();
    log.0.borrow().clone()
}

/// Passes, with the logits of the last row where they end in them.
fn check(seen: &[Seen], layers: usize, kind: Ids, passes: &[(usize, usize)]) {
    let starts: Vec<Seen> = passes.iter().map(|&(at, rows)| Seen::Pass(at, rows, kind)).collect();
    let only_starts: Vec<Seen> =
        seen.iter().copied().filter(|s| matches!(s, Seen::Pass(..))).collect();
    assert_eq!(only_starts, starts);
    for (i, event) in seen.iter().enumerate() {
        let next = seen.get(i + 1);
        match event {
            Seen::Pass(..) => assert_eq!(next, Some(&Seen::Part(Part::Embedding))),
            Seen::Layer(_) => assert_eq!(next, Some(&Seen::Part(Part::SpineWait))),
            Seen::Part(Part::Attention) => {
                assert_eq!(next, Some(&Seen::Part(Part::AttentionSpine)));
            }
            Seen::Part(_) => {}
        }
    }
    let each = seen.iter().filter(|s| **s == Seen::Part(Part::Experts)).count();
    assert!(each >= passes.len(), "{each} visits to experts");
    let visited: Vec<usize> =
        seen.iter().filter_map(|s| if let Seen::Layer(l) = s { Some(*l) } else { None }).collect();
    let wanted: Vec<usize> = passes.iter().flat_map(|_| 0..layers).collect();
    assert_eq!(visited, wanted);
    assert_eq!(seen.last(), Some(&Seen::Part(Part::Outside)));
}

#[test]
fn every_part_of_every_pass_is_told() {
    let prompt = &DemoGolden::load().prompts[0].ids;
    let options = EngineOptions { chunk: NonZeroUsize::new(4), ..EngineOptions::default() };
    let engine = Engine::open(open("demo"), options).unwrap();
    let layers = engine.spec().layers.len();
    let log = Log::default();
    let mut session = engine.session();
    session.watch(Box::new(log.clone()));
    let go_on = &mut |_| ControlFlow::Continue(());

    let rows = prompt.len();
    let chunks: Vec<(usize, usize)> =
        (0..rows).step_by(4).map(|at| (at, 4.min(rows - at))).collect();
    let prefill = seen(&log, || {
        session.prefill(prompt, go_on).unwrap();
    });
    check(&prefill, layers, Ids::Prompt, &chunks);
    let heads = prefill.iter().filter(|s| **s == Seen::Part(Part::Head)).count();
    assert_eq!(heads, chunks.len() + 1, "each pass's end, and the logits");

    let step = seen(&log, || session.advance(prompt[0]).unwrap());
    check(&step, layers, Ids::Reply, &[(rows, 1)]);

    session.reset();
    let evaluated = seen(&log, || {
        session.evaluate(prompt, &mut Silent, &mut |_| {}, &mut |_, _| {}).unwrap();
    });
    check(&evaluated, layers, Ids::Prompt, &chunks);
}

#[test]
fn a_pass_that_is_stopped_is_over() {
    let prompt = &DemoGolden::load().prompts[0].ids;
    let engine = Engine::open(open("demo"), EngineOptions::default()).unwrap();
    let log = Log::default();
    let mut session = engine.session();
    session.watch(Box::new(log.clone()));
    let stopped = seen(&log, || {
        session.prefill(prompt, &mut |_| ControlFlow::Break(())).unwrap();
    });
    assert_eq!(
        stopped,
        [
            Seen::Pass(0, prompt.len(), Ids::Prompt),
            Seen::Part(Part::Embedding),
            Seen::Part(Part::Outside),
        ]
    );
}
