//! Two models on one text: how far apart what they expect is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use deltafin_engine::{EngineError, Flow, Session};
use serde_json::{Value, json};

use super::divergence::Divergence;
use super::perplexity::Surprise;
use super::timing::Timing;
use super::{Rows, Watch};
use crate::args::{self, Compare, Compared, Given, Passage};
use crate::failure::Failure;
use crate::input;
use crate::interrupt::{self, Interrupts};
use crate::load::{self, Loaded};
use crate::model_choice;
use crate::terminal;

/// Logits of one model that wait for the other's.
const BUFFER_BYTES: usize = 128 << 20;

/// Does it.
pub(super) fn compare(asked: &Compare) -> Result<(), Failure> {
    let (text, given) = match &asked.passage {
        Passage::Ids(ids) => (String::new(), ids.read()?),
        Passage::Text(path) if path.as_os_str() == "-" => (input::stdin_text()?, Vec::new()),
        Passage::Text(path) => (input::file_text(path)?, Vec::new()),
    };
    let interrupts = Interrupts::install()?;
    if asked.engine.memory().is_some() {
        terminal::say("each of the two has half of --memory");
    }
    let (a, b) = (load(asked, &asked.a, &given)?, load(asked, &asked.b, &given)?);
    let ids = match asked.passage {
        Passage::Ids(_) => given,
        Passage::Text(_) => ids_of(&text, &a, &b)?,
    };
    check(&ids, &a, &b)?;
    let began = Instant::now();
    let interrupted = interrupts.begin();
    let sums = interrupt::answering(interrupted, || Sums::over(&ids, &a, &b, interrupted));
    if interrupts.end() {
        return Err(Failure::Interrupted);
    }
    let sums = sums?;
    // Both ran in turns: the time is that of the comparison.
    let timing = [&a, &b].map(|loaded| Timing::new(loaded, ids.len(), began));
    if asked.engine.json {
        return terminal::print_line(&report(asked, &sums, ids.len(), &timing).to_string());
    }
    terminal::print_line(&words(&sums, ids.len()))?;
    if asked.engine.stats {
        timing.iter().for_each(|timing| terminal::note(&timing.words()));
    }
    Ok(())
}

fn load(asked: &Compare, compared: &Compared, ids: &[u32]) -> Result<Loaded, Failure> {
    // Both are in memory at a time, and the budget is for the whole program.
    let mut engine = asked.engine.halved();
    if let Some(spine) = &compared.spine {
        engine.spine = Some(spine.clone());
    }
    let model = model_choice::choose(Some(compared.model.clone()), Given::Typed)?;
    terminal::say(&format!("model: {model}"));
    let checkpoint = load::checkpoint(&model, &engine.network())?;
    args::check_ids(ids, checkpoint.spec().vocab)?;
    Loaded::of(model, checkpoint, &engine)
}

/// The text's ids, which both models have to agree on.
fn ids_of(text: &str, a: &Loaded, b: &Loaded) -> Result<Vec<u32>, Failure> {
    let ids = a.tokenizer()?.encode_text(text);
    if b.tokenizer()?.encode_text(text) != ids {
        return Err(Failure::new(
            "the two models split the text into different tokens: compare models with one tokenizer",
        ));
    }
    Ok(ids)
}

fn check(ids: &[u32], a: &Loaded, b: &Loaded) -> Result<(), Failure> {
    let (prompt, vocabs) = (ids.len(), [a, b].map(|loaded| loaded.engine.spec().vocab));
    if vocabs[0] != vocabs[1] {
        return Err(Failure::new(format!(
            "one model has a vocabulary of {}, the other of {}: they cannot be compared",
            vocabs[0], vocabs[1]
        )));
    }
    if prompt < 2 {
        return Err(Failure::new(format!("a comparison needs at least two tokens: got {prompt}")));
    }
    let narrow = if a.engine.context() <= b.engine.context() { a } else { b };
    let (context, short_of) = (narrow.engine.context(), narrow.engine.context_short_of());
    match prompt > context {
        true => Err(EngineError::PromptTooLong { prompt, context, short_of }.into()),
        false => Ok(()),
    }
}

/// What a comparison adds up.
struct Sums {
    divergence: Divergence,
    /// Nats per predicted token of either model.
    nats: [f64; 2],
}

impl Sums {
    /// Runs both models over the ids, a piece at a time.
    fn over(
        ids: &[u32],
        a: &Loaded,
        b: &Loaded,
        interrupted: &AtomicBool,
    ) -> Result<Sums, Failure> {
        let vocab = a.engine.spec().vocab;
        let piece_rows = (BUFFER_BYTES / 4 / vocab).clamp(1, a.engine.chunk());
        let mut sessions = [a.engine.session(), b.engine.session()];
        let mut rows = [Vec::new(), Vec::new()];
        let mut surprises = [Surprise::new(ids, vocab), Surprise::new(ids, vocab)];
        let mut divergence = Divergence::default();
        let mut progress = Rows::new(ids.len());
        for (number, piece) in ids.chunks(piece_rows).enumerate() {
            let first = number * piece_rows;
            progress.at(first);
            for ((session, rows), surprise) in
                sessions.iter_mut().zip(&mut rows).zip(&mut surprises)
            {
                evaluate(session, piece, interrupted, rows)?;
                surprise.take(first, rows);
            }
            let pairs = rows[0].chunks_exact(vocab).zip(rows[1].chunks_exact(vocab));
            pairs.for_each(|(a, b)| divergence.take(a, b));
        }
        let nats = surprises.map(|surprise| surprise.nats() / (ids.len() - 1) as f64);
        Ok(Sums { divergence, nats })
    }
}

/// The logits of a piece, `[rows, vocab]`.
fn evaluate(
    session: &mut Session<'_>,
    piece: &[u32],
    interrupted: &AtomicBool,
    rows: &mut Vec<f32>,
) -> Result<(), Failure> {
    rows.clear();
    let mut watch = Watch(interrupted);
    let flow = session.evaluate(piece, &mut watch, &mut |_| {}, &mut |_, values| {
        rows.extend_from_slice(values);
    })?;
    match flow == Flow::Interrupted || interrupted.load(Ordering::SeqCst) {
        true => Err(Failure::Interrupted),
        false => Ok(()),
    }
}

fn report(asked: &Compare, sums: &Sums, tokens: usize, timing: &[Timing; 2]) -> Value {
    let side = |compared: &Compared, nats: f64, timing: &Timing| {
        json!({
            "model": compared.to_string(),
            "perplexity": nats.exp(),
            "nats_per_token": nats,
            "stats": timing,
        })
    };
    json!({
        "tokens": tokens,
        "kl_mean": sums.divergence.mean(),
        "kl_max": sums.divergence.most(),
        "top1_agreement": sums.divergence.agreement(),
        "logit_difference_max": sums.divergence.difference(),
        "a": side(&asked.a, sums.nats[0], &timing[0]),
        "b": side(&asked.b, sums.nats[1], &timing[1]),
    })
}

fn words(sums: &Sums, tokens: usize) -> String {
    let Sums { divergence, nats } = sums;
    format!(
        "tokens            {tokens}\n\
         mean KL(A || B)   {:.3e} nats, at most {:.3e}\n\
         same top token    {:.2} %\n\
         perplexity        A {:.4}, B {:.4}\n\
         logits differ by  {:.3e} at most",
        divergence.mean(),
        divergence.most(),
        100.0 * divergence.agreement(),
        nats[0].exp(),
        nats[1].exp(),
        divergence.difference(),
    )
}
