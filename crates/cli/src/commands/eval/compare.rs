//! Two models on one text: how far apart what they expect is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use deltafin_engine::{Flow, Session};
use deltafin_store::Checkpoint;
use serde_json::{Value, json};

use super::divergence::Divergence;
use super::perplexity::Surprise;
use super::share::Share;
use super::timing::Timing;
use super::{Rows, Watch};
use crate::args::{Compare, Compared, EngineArgs, Given, IdsSource, Passage};
use crate::failure::Failure;
use crate::input::Source;
use crate::interrupt::{self, Interrupts};
use crate::load::{self, Loaded};
use crate::model_choice::{self, Model};
use crate::prompt::{self, Texts};
use crate::terminal;

/// Does it.
pub(super) fn compare(asked: &Compare) -> Result<(), Failure> {
    let unread = match &asked.passage {
        Passage::Ids(ids) => Unread::Ids(ids.open()?),
        Passage::Text(path) => Unread::Text(Source::file_or_stdin(path)?),
    };
    let interrupts = Interrupts::install()?;
    if asked.engine.memory().is_some() {
        terminal::say("each of the two has half of --memory, less what their logits take");
    }
    let share = Share::of(&asked.engine)?;
    let [a, b] = load(asked, share)?;
    check_vocabularies(&a, &b)?;
    let ids = unread.ids(&a, &b)?;
    let began = Instant::now();
    let interrupted = interrupts.begin();
    let sums = interrupt::answering(interrupted, || {
        Sums::over(&ids, &a, &b, share.waiting(), interrupted)
    });
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

/// Loads both, once it is known that both fit.
fn load(asked: &Compare, share: Share) -> Result<[Loaded; 2], Failure> {
    let (a, b) = (open(asked, &asked.a, share)?, open(asked, &asked.b, share)?);
    share.admit([(&a.1, &a.2), (&b.1, &b.2)])?;
    let loaded = |(model, checkpoint, engine)| Loaded::of_prepared(model, checkpoint, &engine);
    Ok([loaded(a)?, loaded(b)?])
}

/// Opens one of the two, and says how it is going to run.
fn open(
    asked: &Compare,
    compared: &Compared,
    share: Share,
) -> Result<(Model, Checkpoint, EngineArgs), Failure> {
    let mut engine = asked.engine.with_memory(share.each());
    if let Some(spine) = &compared.spine {
        engine.spine = Some(spine.clone());
    }
    let model = model_choice::choose(Some(compared.model.clone()), Given::Typed)?;
    terminal::say(&format!("model: {model}"));
    let checkpoint = load::prepared(load::checkpoint(&model, &engine.network())?, &engine)?;
    Ok((model, checkpoint, engine))
}

/// What is compared on, before anything is loaded.
enum Unread {
    Ids(IdsSource),
    Text(Source),
}

impl Unread {
    /// The ids, on which both models have to agree, and which have to fit into both contexts.
    fn ids(self, a: &Loaded, b: &Loaded) -> Result<Vec<u32>, Failure> {
        let narrow = if a.engine.context() <= b.engine.context() { a } else { b };
        let ids = match self {
            Unread::Ids(source) => prompt::ids(source, &narrow.engine)?,
            Unread::Text(source) => {
                let Texts { encoded: [of_a, of_b], .. } = prompt::texts(source, [a, b])?;
                let least = narrow.engine.context();
                let same = of_a.ids.iter().zip(&of_b.ids).take(least).all(|(a, b)| a == b);
                if of_a.count != of_b.count || !same {
                    return Err(Failure::new(
                        "the two models split the text into different tokens: compare models with \
                         one tokenizer",
                    ));
                }
                prompt::fitting(of_a, &narrow.engine)?
            }
        };
        match ids.len() {
            0 | 1 => {
                let few = ids.len();
                Err(Failure::new(format!("a comparison needs at least two tokens: got {few}")))
            }
            _ => Ok(ids),
        }
    }
}

fn check_vocabularies(a: &Loaded, b: &Loaded) -> Result<(), Failure> {
    let [a, b] = [a, b].map(|loaded| loaded.engine.spec().vocab);
    match a == b {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "one model has a vocabulary of {a}, the other of {b}: they cannot be compared"
        ))),
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
        waiting_bytes: u64,
        interrupted: &AtomicBool,
    ) -> Result<Sums, Failure> {
        let vocab = a.engine.spec().vocab;
        let piece_rows = (waiting_bytes as usize / 4 / vocab).clamp(1, a.engine.chunk());
        let mut sessions = [a.engine.session(), b.engine.session()];
        let mut rows = [(); 2].map(|()| Vec::with_capacity(piece_rows.min(ids.len()) * vocab));
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
