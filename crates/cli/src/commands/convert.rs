//! `convert`: the spine in files of its own.

mod report;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use deltafin_engine::Recipe;
use deltafin_setup::{ConvertError, Progress};
use deltafin_store::{Checkpoint, SpineNote, pack_dir};

use self::report::report;
use crate::args::{Convert, Given, Network};
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::load;
use crate::model_choice;
use crate::stats::bytes;
use crate::terminal::{self, ProgressLine, Terminal};

/// Does it.
pub(crate) fn convert(asked: &Convert, given: Given) -> Result<(), Failure> {
    let interrupts = Interrupts::install()?;
    let model = model_choice::choose(asked.model.clone(), given)?;
    let checkpoint = load::checkpoint(&model, &Network::unused())?;
    let out = out(asked, &checkpoint)?;
    let began = Instant::now();
    let interrupted = interrupts.begin();
    let mut line = ProgressLine::new(Terminal::detect());
    let mut watch = |at: Progress| {
        line.update(|| progress(at, began));
        match interrupted.load(Ordering::SeqCst) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let converted = deltafin_setup::convert(&checkpoint, asked.recipe, &out, &mut watch);
    drop(line);
    interrupts.end();
    if converted.is_ok()
        && let Some(folder) = checkpoint.folder()
        && asked.recipe != Recipe::Bf16
        && out == pack_dir(folder, asked.recipe)
    {
        // What was chosen last is what runs without another word.
        SpineNote::forget_released(folder).map_err(|e| Failure::about(folder.display(), &e))?;
    }
    match converted {
        Ok(converted) => report(asked, &checkpoint, &converted, began.elapsed().as_secs_f64()),
        Err(stopped @ ConvertError::Interrupted { .. }) => {
            terminal::say(&stopped.to_string());
            Err(Failure::Interrupted)
        }
        Err(error) => Err(error.into()),
    }
}

fn out(asked: &Convert, checkpoint: &Checkpoint) -> Result<PathBuf, Failure> {
    let usual = || checkpoint.folder().map(|folder| pack_dir(folder, asked.recipe));
    let out = asked.out.clone().or_else(usual);
    out.ok_or_else(|| Failure::new("the built-in demo lies in no folder: give one with --out"))
}

fn progress(at: Progress, began: Instant) -> String {
    let Progress { part, parts_done, parts, bytes_done, bytes: total } = at;
    let rate = bytes_done as f64 / began.elapsed().as_secs_f64().max(1e-3);
    let left = total.saturating_sub(bytes_done) as f64 / rate.max(1.0);
    let (done, total, rate) = (bytes(bytes_done), bytes(total), bytes(rate as u64));
    let file = parts_done + 1;
    format!("{part} ({file} of {parts}): {done} of {total}, {rate}/s, {left:.0} s left")
}
