//! `bench routes`: what a cache of experts can hope for.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use deltafin_engine::{Engine, LayerId, Observer};
use deltafin_spec::MoeSpec;
use deltafin_synth::routes::Routes;
use serde::Serialize;

use super::prompt::prompt;
use crate::args::{BenchRoutes, Given};
use crate::failure::Failure;
use crate::load::Loaded;
use crate::recorded::{self, Head};
use crate::terminal::{self, ProgressLine, Terminal};

/// 40 GB of K3's experts, of which 82,432 take 1446 GB.
const PINNED: f64 = 40.0 / 1446.456;
/// The part of the experts that is called hot.
const HOT: f64 = 0.3;

/// Counts the routes of two texts.
pub(crate) fn routes(asked: &BenchRoutes, given: Given) -> Result<(), Failure> {
    let report = match asked.from.first() {
        Some(file) => recorded(file, asked.from.get(1).map(PathBuf::as_path))?,
        None => run(asked, given)?,
    };
    if asked.engine.json {
        return terminal::print_line(&serde_json::to_string(&report)?);
    }
    terminal::print_line(&report.words())
}

/// Those of two random texts.
fn run(asked: &BenchRoutes, given: Given) -> Result<Report, Failure> {
    let loaded = Loaded::open(&asked.engine, given)?;
    let MoeSpec { experts, top_k, .. } = loaded.engine.spec().moe;
    let engine = &loaded.engine;
    let text = |stream| of_text(engine, &prompt(engine, asked.seed, stream, asked.prompt)?);
    Ok(Report::new(experts, top_k, &text(0)?, Some(&text(1)?)))
}

/// Those of files.
fn recorded(seen: &Path, unseen: Option<&Path>) -> Result<Report, Failure> {
    let (head, routes) = routes_in(seen)?;
    let unseen = unseen.map(|path| of_the_same(path, &head)).transpose()?;
    Ok(Report::new(head.experts, head.top_k, &routes, unseen.as_ref()))
}

/// What a file begins with, and its routes.
fn routes_in(path: &Path) -> Result<(Head, Routes), Failure> {
    let mut routes = Routes::default();
    let head = recorded::read(path, |layer, experts| routes.push(layer, experts))?;
    Ok((head, routes))
}

/// Routes of a model with as many experts as that of the other file.
fn of_the_same(path: &Path, wanted: &Head) -> Result<Routes, Failure> {
    let (head, routes) = routes_in(path)?;
    if head == *wanted {
        return Ok(routes);
    }
    let path = path.display();
    Err(Failure::new(format!("{path}: its routes are of a model with other layers or experts")))
}

/// The routes that the engine takes through a text.
fn of_text(engine: &Engine, ids: &[u32]) -> Result<Routes, Failure> {
    let counted = Rc::new(RefCell::new(Counted(Routes::default())));
    let mut session = engine.session();
    session.watch(Box::new(Rc::clone(&counted)));
    let mut line = ProgressLine::new(Terminal::detect());
    session.prefill(ids, &mut |at| {
        line.update(|| {
            format!("{} of {} ids, layer {}", at.rows_done, at.rows_total, at.layer + 1)
        });
        ControlFlow::Continue(())
    })?;
    Ok(std::mem::take(&mut counted.borrow_mut().0))
}

struct Counted(Routes);

impl Observer for Counted {
    fn route(&mut self, layer: LayerId, _row: usize, experts: &[u32], _weights: &[f32]) {
        self.0.push(layer.index(), experts);
    }
}

/// Means over the layers that have experts; nothing where the text is too short to tell.
#[derive(Debug, Serialize)]
struct Report {
    tokens: usize,
    experts: usize,
    top_k: usize,
    repeated_in_next_token: Option<f64>,
    experts_of_2_tokens: Option<f64>,
    experts_of_8_tokens: Option<f64>,
    routes_to_hottest_30_percent: Option<f64>,
    pinned_experts: f64,
    routes_to_pinned_in_unseen_text: Option<f64>,
}

impl Report {
    fn new(experts: usize, top_k: usize, seen: &Routes, unseen: Option<&Routes>) -> Report {
        Report {
            tokens: seen.rows(),
            experts,
            top_k,
            repeated_in_next_token: seen.union(2).map(|union| 2.0 - union),
            experts_of_2_tokens: seen.union(2),
            experts_of_8_tokens: seen.union(8),
            routes_to_hottest_30_percent: seen.hottest(HOT, experts),
            pinned_experts: PINNED,
            routes_to_pinned_in_unseen_text: unseen
                .and_then(|text| seen.pin(text, PINNED, experts)),
        }
    }

    fn words(&self) -> String {
        let Report { tokens, experts, top_k, .. } = self;
        let percent = |value: Option<f64>| shown(value.map(|value| 100.0 * value), " %");
        let times = |value| shown(value, "");
        let pinned =
            format!("routes to the hottest {:.1} %, in unseen text", 100.0 * self.pinned_experts);
        let head = format!("{top_k} of {experts} experts a layer, {tokens} tokens");
        let lines = [
            (
                "of a token's experts repeated in the next",
                percent(self.repeated_in_next_token),
                "31 %",
            ),
            ("experts of two tokens, in those of one", times(self.experts_of_2_tokens), "1.7"),
            ("experts of eight tokens, in those of one", times(self.experts_of_8_tokens), "4.3"),
            (
                "routes to the hottest 30 % of experts",
                percent(self.routes_to_hottest_30_percent),
                "86 %",
            ),
            (pinned.as_str(), percent(self.routes_to_pinned_in_unseen_text), "41 %"),
        ];
        let line = |(what, here, published): &(&str, String, &str)| {
            format!("\n{what:<46}{here:>10}{published:>12}")
        };
        format!("{head:<46}{:>10}{:>12}", "here", "K3")
            + &lines.iter().map(line).collect::<String>()
    }
}

/// With two places; a dash where nothing could be told.
fn shown(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}{unit}"))
}
