//! What `convert` says in the end.

use deltafin_setup::Converted;
use deltafin_store::{Checkpoint, pack_dir};
use serde_json::{Value, json};

use crate::args::Convert;
use crate::failure::Failure;
use crate::stats::{bytes, seconds};
use crate::terminal::{self, one_line};

/// Matrices that are named one by one when they are kept as released.
const NAMED: usize = 10;

/// Says it; `took` is in seconds.
pub(super) fn report(
    asked: &Convert,
    checkpoint: &Checkpoint,
    converted: &Converted,
    took: f64,
) -> Result<(), Failure> {
    say_kept(&converted.kept);
    if asked.json {
        return terminal::print_line(&for_machines(converted, took).to_string());
    }
    let Converted { path, recipe, files, bytes: size, .. } = converted;
    let (place, size, made) = (path.display().to_string(), bytes(*size), made(converted, took));
    let place = one_line(&place);
    terminal::print_line(&format!("{recipe} spine in {place}: {files} files, {size}; {made}"))?;
    let usual = checkpoint.folder().map(|folder| pack_dir(folder, *recipe));
    if usual.as_ref() != Some(path) {
        terminal::say(&format!("use it with --spine '{place}'"));
    }
    Ok(())
}

/// Names what was not converted.
fn say_kept(kept: &[String]) {
    for name in kept.iter().take(NAMED) {
        terminal::say(&format!("{name} stays as released: a row's scale does not fit into f16"));
    }
    if kept.len() > NAMED {
        terminal::say(&format!("and {} more matrices like it", kept.len() - NAMED));
    }
}

fn for_machines(converted: &Converted, took: f64) -> Value {
    let Converted { path, recipe, files, found, manifest_mended, .. } = converted;
    let Converted { bytes, source_bytes, kept, .. } = converted;
    json!({
        "path": path.display().to_string(),
        "recipe": recipe.name(),
        "files": files,
        "found": found,
        "manifest_mended": manifest_mended,
        "bytes": bytes,
        "source_bytes": source_bytes,
        "seconds": took,
        "kept": kept,
    })
}

/// What was done, in words.
fn made(converted: &Converted, took: f64) -> String {
    let Converted { files, found, manifest_mended, source_bytes, .. } = converted;
    match files - found {
        0 if *manifest_mended => "every byte proven, and the manifest mended".to_owned(),
        0 => "complete already, and every byte proven".to_owned(),
        made => {
            let rate = bytes((*source_bytes as f64 / took) as u64);
            let source = bytes(*source_bytes);
            format!("{made} made from {source} in {}, {rate}/s", seconds(took))
        }
    }
}
