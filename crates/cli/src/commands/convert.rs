//! `convert`: the spine in files of its own.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use deltafin_engine::Recipe;
use deltafin_setup::{ConvertError, Converted, Progress};
use deltafin_store::{Checkpoint, SpineNote, pack_dir};
use serde_json::json;

use crate::args::{Convert, Given, Network};
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::load;
use crate::model_choice;
use crate::stats::{bytes, seconds};
use crate::terminal::{self, ProgressLine, Terminal, one_line};

/// Matrices that are named one by one when they are kept as released.
const NAMED: usize = 10;

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

fn report(
    asked: &Convert,
    checkpoint: &Checkpoint,
    converted: &Converted,
    took: f64,
) -> Result<(), Failure> {
    let Converted { path, recipe, files, found, manifest_mended, .. } = converted;
    let Converted { bytes: size, source_bytes, kept, .. } = converted;
    for name in kept.iter().take(NAMED) {
        terminal::say(&format!("{name} stays as released: a row's scale does not fit into f16"));
    }
    if kept.len() > NAMED {
        terminal::say(&format!("and {} more matrices like it", kept.len() - NAMED));
    }
    if asked.json {
        let report = json!({
            "path": path.display().to_string(),
            "recipe": recipe.name(),
            "files": files,
            "found": found,
            "manifest_mended": manifest_mended,
            "bytes": size,
            "source_bytes": source_bytes,
            "seconds": took,
            "kept": kept,
        });
        return terminal::print_line(&report.to_string());
    }
    let (place, size) = (path.display().to_string(), bytes(*size));
    let place = one_line(&place);
    let made = match files - found {
        0 if *manifest_mended => "every byte proven, and the manifest mended".to_owned(),
        0 => "complete already, and every byte proven".to_owned(),
        made => {
            let rate = bytes((*source_bytes as f64 / took) as u64);
            let source = bytes(*source_bytes);
            format!("{made} made from {source} in {}, {rate}/s", seconds(took))
        }
    };
    terminal::print_line(&format!("{recipe} spine in {place}: {files} files, {size}; {made}"))?;
    let usual = checkpoint.folder().map(|folder| pack_dir(folder, *recipe));
    if usual.as_ref() != Some(path) {
        terminal::say(&format!("use it with --spine '{place}'"));
    }
    Ok(())
}
