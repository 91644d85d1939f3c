//! `eval`: the numbers behind the tokens.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use deltafin_engine::{LayerId, ModelSpec, Observer, Silent, Tap};
use deltafin_spec::FfnKind;
use serde_json::{Value, json};

use crate::args::{EngineArgs, Eval, Given, Logits, Ppl};
use crate::failure::Failure;
use crate::input;
use crate::load::Loaded;
use crate::safetensors::{Element, Tensor, Writer};
use crate::stats;
use crate::terminal::{self, ProgressLine, Terminal};

/// Does it.
pub(crate) fn eval(eval: Eval, given: Given) -> Result<(), Failure> {
    match eval {
        Eval::Logits(asked) => logits(&asked, given),
        Eval::Ppl(asked) => perplexity(&asked, given),
    }
}

/// Writes the logits of every position, and what else was asked for.
fn logits(asked: &Logits, given: Given) -> Result<(), Failure> {
    let ids = asked.ids.read()?;
    let loaded = Loaded::open(&asked.engine, given)?;
    let spec = loaded.engine.spec();
    let recording = Recording::create(&asked.out, spec, ids.len(), asked.hidden)?;
    let began = Instant::now();
    recording.fill(&loaded, &ids)?;
    let report = json!({
        "tokens": ids.len(),
        "vocab": spec.vocab,
        "layers": spec.layers.len(),
        "out": asked.out.display().to_string(),
        "stats": timing(&loaded, ids.len(), began),
    });
    say(&asked.engine, &report, || format!("{} positions to {}", ids.len(), asked.out.display()))
}

/// Prints how well the model expects a text.
fn perplexity(asked: &Ppl, given: Given) -> Result<(), Failure> {
    let text = match asked.text.to_str() {
        Some("-") => input::stdin_text()?,
        _ => input::file_text(&asked.text)?,
    };
    let loaded = Loaded::open(&asked.engine, given)?;
    let ids = loaded.tokenizer()?.encode_text(&text);
    if ids.len() < 2 {
        return Err(Failure::new(format!(
            "perplexity needs a text of at least two tokens: this one has {}",
            ids.len()
        )));
    }
    let began = Instant::now();
    let mut surprise = Surprise::new(&ids, loaded.engine.spec().vocab);
    let mut progress = Rows::new(ids.len());
    loaded.engine.session().evaluate(
        &ids,
        &mut Silent,
        &mut |first| progress.at(first),
        &mut |first, rows| surprise.take(first, rows),
    )?;
    drop(progress);
    let nats = surprise.nats / (ids.len() - 1) as f64;
    let report = json!({
        "perplexity": nats.exp(),
        "nats_per_token": nats,
        "tokens": ids.len(),
        "predicted": ids.len() - 1,
        "bytes": text.len(),
        "stats": timing(&loaded, ids.len(), began),
    });
    say(&asked.engine, &report, || {
        format!(
            "perplexity {:.4}, {nats:.4} nats per token over {} predicted tokens",
            nats.exp(),
            ids.len() - 1
        )
    })
}

/// Prints the report as JSON, or its words; and the timing where it was asked for.
fn say(engine: &EngineArgs, report: &Value, words: impl FnOnce() -> String) -> Result<(), Failure> {
    if engine.json {
        return terminal::print_line(&report.to_string());
    }
    terminal::print_line(&words())?;
    if engine.stats {
        terminal::note(&report["stats"].to_string());
    }
    Ok(())
}

fn timing(loaded: &Loaded, tokens: usize, began: Instant) -> Value {
    let seconds = began.elapsed().as_secs_f64();
    json!({
        "seconds": seconds,
        "tokens_per_second": tokens as f64 / seconds,
        "peak_memory_bytes": stats::peak_memory_bytes(),
        "recipe": loaded.engine.recipe(),
        "device": "cpu",
        "isa": loaded.engine.isa().name(),
        "threads": loaded.engine.threads(),
        "chunk": loaded.engine.chunk(),
    })
}

/// Rows on the progress line.
struct Rows {
    line: ProgressLine,
    total: usize,
}

impl Rows {
    fn new(total: usize) -> Rows {
        Rows { line: ProgressLine::new(Terminal::detect()), total }
    }

    fn at(&mut self, first: usize) {
        let total = self.total;
        self.line.update(|| format!("position {first} of {total}"));
    }
}

/// Sums how unexpected each token was, in nats.
struct Surprise<'a> {
    ids: &'a [u32],
    vocab: usize,
    nats: f64,
}

impl<'a> Surprise<'a> {
    fn new(ids: &'a [u32], vocab: usize) -> Surprise<'a> {
        Surprise { ids, vocab, nats: 0.0 }
    }

    /// Logits of the rows from `first` on; each row predicts the id after it.
    fn take(&mut self, first: usize, rows: &[f32]) {
        for (row, next) in rows.chunks_exact(self.vocab).zip(self.ids.iter().skip(first + 1)) {
            self.nats += surprise(row, *next as usize);
        }
    }
}

/// The negative log probability of one id, summed in `f64` around the largest logit.
fn surprise(logits: &[f32], id: usize) -> f64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - most).exp()).sum();
    sum.ln() - f64::from(logits[id] - most)
}

/// A file being filled with what passes by.
struct Recording {
    file: Writer,
    hidden: bool,
    /// For each layer, its place among the route tensors.
    routes: Vec<Option<usize>>,
    layers: usize,
    first: usize,
    failure: Option<Failure>,
}

impl Recording {
    fn create(
        path: &Path,
        spec: &ModelSpec,
        positions: usize,
        hidden: bool,
    ) -> Result<Recording, Failure> {
        let tensor =
            |name: String, element, width| Tensor { name, element, rows: positions, width };
        let mut tensors = vec![tensor("logits".to_owned(), Element::F32, spec.vocab)];
        let mut routes = vec![None; spec.layers.len()];
        if hidden {
            for layer in 0..spec.layers.len() {
                tensors.push(tensor(format!("hidden.{layer}"), Element::F32, spec.hidden));
            }
            for (layer, place) in routes.iter_mut().enumerate() {
                if spec.layers[layer].ffn == FfnKind::Moe {
                    *place = Some(tensors.len());
                    tensors.push(tensor(format!("route.{layer}"), Element::I32, spec.moe.top_k));
                }
            }
        }
        let file = Writer::create(path, tensors)?;
        let layers = spec.layers.len();
        Ok(Recording { file, hidden, routes, layers, first: 0, failure: None })
    }

    fn fill(self, loaded: &Loaded, ids: &[u32]) -> Result<(), Failure> {
        // The three callbacks take turns at one file.
        let recording = std::cell::RefCell::new(self);
        let mut progress = Rows::new(ids.len());
        let done = loaded.engine.session().evaluate(
            ids,
            &mut Shared(&recording),
            &mut |first| {
                recording.borrow_mut().first = first;
                progress.at(first);
            },
            &mut |first, rows| recording.borrow_mut().logits(first, rows),
        );
        let recording = recording.into_inner();
        match recording.failure {
            Some(failure) => Err(failure),
            None => {
                done?;
                recording.file.finish()
            }
        }
    }

    fn logits(&mut self, first: usize, rows: &[f32]) {
        let written = self.file.rows(0, first, rows);
        self.keep(written);
    }

    /// Remembers the first failure: the callbacks cannot return one.
    fn keep(&mut self, written: Result<(), Failure>) {
        if let Err(failure) = written {
            self.failure.get_or_insert(failure);
        }
    }
}

/// The recording, as an observer of passes.
struct Shared<'a>(&'a std::cell::RefCell<Recording>);

impl Observer for Shared<'_> {
    fn layer(&mut self, _layer: LayerId) -> ControlFlow<()> {
        match self.0.borrow().failure {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }

    fn rows(&mut self, layer: LayerId, tap: Tap, first: usize, values: &[f32]) {
        let mut recording = self.0.borrow_mut();
        if recording.hidden && tap == Tap::Hidden && layer.index() < recording.layers {
            let row = recording.first + first;
            let written = recording.file.rows(1 + layer.index(), row, values);
            recording.keep(written);
        }
    }

    fn route(&mut self, layer: LayerId, row: usize, experts: &[u32], _weights: &[f32]) {
        let mut recording = self.0.borrow_mut();
        let Some(place) = recording.routes[layer.index()] else { return };
        let row = recording.first + row;
        let experts: Vec<i32> = experts.iter().map(|&expert| expert as i32).collect();
        let written = recording.file.numbers(place, row, &experts);
        recording.keep(written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_logits_are_a_fair_choice() {
        assert!((surprise(&[2.0; 8], 3) - 8f64.ln()).abs() < 1e-12);
        assert!(surprise(&[1e4, 0.0], 0).abs() < 1e-12);
    }

    #[test]
    fn each_row_predicts_the_next_id() {
        let mut sum = Surprise::new(&[0, 1, 0], 2);
        sum.take(0, &[0.0, 0.0, 5.0, 5.0]);
        sum.take(2, &[9.0, 0.0]);
        assert!((sum.nats - 2.0 * 2f64.ln()).abs() < 1e-12);
    }
}
