//! `warm`: experts of a streamed model, before they are needed.

mod progress;
mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltafin_fetch::{self as fetch, Likely, Plan};
use deltafin_spec::ModelSpec;
use deltafin_store::Checkpoint;
use serde_json::json;

use super::transfer::event;
use crate::args::{Sign, Warm};
use crate::awake;
use crate::failure::Failure;
use crate::gathered::Gathered;
use crate::interrupt::Interrupts;
use crate::learned;
use crate::model_choice::{self, Model};
use crate::recorded;
use crate::stats::{bytes, seconds};
use crate::streamed::{self, Pull};
use crate::terminal;
use progress::Progress;

/// Does it.
pub(crate) fn warm(asked: &Warm) -> Result<(), Failure> {
    let interrupts = Interrupts::install()?.and_terminations()?;
    let dir = match model_choice::choose(asked.model.model.clone(), asked.model.given)? {
        Model::Demo => return all_here(asked, "the demo is inside this program"),
        Model::Directory(dir) => dir,
    };
    fetch::check_seen(&dir)?;
    if !fetch::is_streamed(&dir) {
        deltafin_store::open_dir(&dir)?;
        return all_here(asked, &format!("{}: all experts are here", dir.display()));
    }
    let _awake = awake::keep(asked.may_sleep);
    fetch_ahead(asked, &dir, &interrupts)
}

/// Does it in a folder that has all but experts.
pub(super) fn fetch_ahead(
    asked: &Warm,
    dir: &Path,
    interrupts: &Interrupts,
) -> Result<(), Failure> {
    let stop = interrupts.begin();
    let progress = Arc::new(Progress::new(asked.json));
    let pull = Pull { jobs: asked.jobs, bytes_per_second: asked.bytes_per_second };
    let checkpoint = streamed::open_to_pull(dir, &asked.network, pull, progress.clone())?;
    let likely = likely(&asked.sign, &checkpoint)?;
    let limit = streamed::cache_limit(dir, &asked.network)?;
    let room = room_within(limit, &checkpoint, fetch::room_ahead(dir)?);
    let plan = Plan::new(&checkpoint, &likely, room);
    report_plan(asked, &plan)?;
    match (asked.is_show, plan.coming().is_empty()) {
        (true, _) => return Ok(()),
        (false, true) if asked.json => return nothing_came(),
        (false, true) => return Ok(()),
        (false, false) => {}
    }
    plan.check_kept(dir)?;
    progress.begin(plan.total().coming);
    let fetched = plan.fetch(stop, &|record| progress.came(record.bytes));
    let outcome = match (interrupts.end(), &fetched) {
        (true, _) => Outcome::Interrupted,
        (false, Err(_)) => Outcome::Failed,
        (false, Ok(())) => Outcome::Done,
    };
    report(asked, dir, &progress, outcome)?;
    match outcome {
        Outcome::Interrupted => Err(Failure::Interrupted),
        Outcome::Failed | Outcome::Done => Ok(fetched?),
    }
}

/// Of so much room, what a limit of the cache leaves: what is here is not taken away for what is only likely.
fn room_within(limit: Option<u64>, checkpoint: &Checkpoint, room: u64) -> u64 {
    let Some(limit) = limit else { return room };
    let here = Gathered::of(checkpoint).map_or(0, |gathered| gathered.bytes());
    // A record takes some more on the drive than it has bytes.
    room.min((limit - limit / 64).saturating_sub(here))
}

/// There is nothing to do.
fn all_here(asked: &Warm, why: &str) -> Result<(), Failure> {
    if asked.json {
        return nothing_came();
    }
    terminal::print_line(&format!("{why}; nothing is to be fetched"))
}

/// The end for programs, where nothing had to come.
fn nothing_came() -> Result<(), Failure> {
    let nothing = json!({"records": 0, "received": 0, "seconds": 0.0});
    terminal::print_line(&event("done", nothing))
}

/// Which experts are likely to be needed.
fn likely(sign: &Sign, checkpoint: &Checkpoint) -> Result<Likely, Failure> {
    match sign {
        Sign::Layers(layers) => {
            let last = checkpoint.spec().layers.len().saturating_sub(1);
            match *layers.end() as usize > last {
                true => Err(Failure::new(format!("--layers: the model has layers 0 to {last}"))),
                false => Ok(Likely::Layers(layers.clone())),
            }
        }
        Sign::Heat => match learned::counts(checkpoint)? {
            counts if counts.iter().all(|count| *count <= 0.0) => Err(Failure::new(
                "no earlier run has shown which experts are used; run the model first, or give --trace or --layers",
            )),
            counts => Ok(Likely::Chosen(counts.into_iter().map(f64::from).collect())),
        },
        Sign::Traces(files) => chosen_in(files, checkpoint.spec()).map(Likely::Chosen),
    }
}

/// How often each expert was chosen in recorded routes.
fn chosen_in(files: &[PathBuf], spec: &ModelSpec) -> Result<Vec<f64>, Failure> {
    let (layers, experts) = (spec.layers.len(), spec.moe.experts);
    let mut counts = vec![0.0; layers * experts];
    for file in files {
        let head = recorded::read(file, |layer, chosen| {
            for expert in chosen {
                // Where there is none the file is another model's, which is refused below.
                if let Some(count) = counts.get_mut(layer * experts + *expert as usize) {
                    *count += 1.0;
                }
            }
        })?;
        if (head.layers, head.experts, head.top_k) != (layers, experts, spec.moe.top_k) {
            return Err(Failure::new(format!(
                "{}: its routes are of a model with {} layers of {} experts; this one has {layers} of {experts}",
                file.display(),
                head.layers,
                head.experts
            )));
        }
    }
    Ok(counts)
}

fn report_plan(asked: &Warm, plan: &Plan) -> Result<(), Failure> {
    if asked.json {
        return terminal::print_line(&event("plan", words::object(plan)));
    }
    terminal::print_line(&words::table(plan))
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Failed,
    Interrupted,
}

fn report(asked: &Warm, dir: &Path, progress: &Progress, outcome: Outcome) -> Result<(), Failure> {
    let (here, received, took) = progress.end();
    let records = here.records;
    if asked.json {
        let name = match outcome {
            Outcome::Done => "done",
            Outcome::Failed => "failed",
            Outcome::Interrupted => "interrupted",
        };
        let more = json!({"records": records, "received": received, "seconds": took});
        return terminal::print_line(&event(name, more));
    }
    let rate = bytes((received as f64 / took.max(1e-3)) as u64);
    let (size, took, dir) = (bytes(received), seconds(took), dir.display());
    let came = if records == 1 { "expert more is" } else { "experts more are" };
    terminal::print_line(&format!(
        "{dir}: {records} {came} here, {size} fetched in {took}, {rate}/s"
    ))?;
    if outcome == Outcome::Interrupted {
        terminal::say("interrupted; what is here is kept, the same command goes on");
    }
    Ok(())
}
