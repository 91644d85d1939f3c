//! What setup says when it is done, or of what it would do.

use std::env;
use std::path::{Path, PathBuf};

use deltafin_fetch::{Installed, Outlook, Prospect, Wanted};
use deltafin_store::Checkpoint;
use serde_json::json;

use super::{drafter, spine};
use crate::args::Setup;
use crate::commands::transfer::event;
use crate::failure::Failure;
use crate::stats::{bytes, seconds};
use crate::terminal::{self, one_line};

/// Bytes that would come.
pub(super) fn missing(outlook: &Outlook) -> u64 {
    outlook.files.iter().map(|prospect| prospect.missing).sum()
}

/// A folder, for people.
pub(super) fn shown(dir: &Path) -> String {
    one_line(&dir.display().to_string()).into_owned()
}

/// How it came to be here.
pub(super) fn words(installed: &Installed, took: f64) -> String {
    match installed.received {
        0 if installed.extent == Wanted::Spine => {
            "ready already; experts come when they are needed".to_owned()
        }
        0 => "complete already".to_owned(),
        received => {
            let rate = bytes((received as f64 / took.max(1e-3)) as u64);
            let later = match installed.extent {
                Wanted::Spine => "; experts come when they are needed",
                _ => "",
            };
            format!("{} fetched in {}, {rate}/s{later}", bytes(received), seconds(took))
        }
    }
}

/// A folder that runs.
#[derive(Debug)]
pub(super) struct Ready {
    /// Its full path.
    pub(super) dir: PathBuf,
    /// Whether the other commands find it unnamed.
    pub(super) is_remembered: bool,
}

/// That a checkpoint is here and runs.
pub(super) fn done(
    asked: &Setup,
    checkpoint: &Checkpoint,
    ready: &Ready,
    how: &str,
    received: u64,
) -> Result<(), Failure> {
    let (layers, dir) = (checkpoint.spec().layers.len(), &ready.dir);
    if asked.json {
        let path = dir.display().to_string();
        let done = json!({"event": "done", "path": path, "layers": layers, "received": received});
        return terminal::print_line(&done.to_string());
    }
    terminal::print_line(&format!("{}: {layers} layers, {how}", shown(dir)))?;
    spine::say(checkpoint);
    if !ready.is_remembered {
        terminal::say(&format!("ready: deltafin chat --model '{}'", shown(dir)));
    } else if env::var_os("DELTAFIN_MODEL").is_none_or(|model| model.is_empty()) {
        terminal::say("ready: deltafin chat");
    }
    Ok(())
}

/// That what was asked for of it is here.
pub(super) fn partial(asked: &Setup, dir: &Path, installed: &Installed) -> Result<(), Failure> {
    if asked.json {
        return terminal::print_line(&event("partial", json!({"received": installed.received})));
    }
    let received = bytes(installed.received);
    terminal::print_line(&format!("{}: {received} fetched, as asked for", shown(dir)))?;
    terminal::say(&format!(
        "it runs when all of it is there: 'deltafin setup --full --model {}' gets the rest, and the drafter",
        shown(dir)
    ));
    Ok(())
}

/// What would be fetched.
pub(super) fn outlook(
    asked: &Setup,
    dir: &Path,
    outlook: &Outlook,
    drafter: Option<&Outlook>,
) -> Result<(), Failure> {
    let missing = missing(outlook);
    let total: u64 = outlook.files.iter().map(|prospect| prospect.file.bytes).sum();
    if asked.json {
        let file = |p: &Prospect| json!({"name": p.file.name, "bytes": p.file.bytes, "here": p.here, "missing": p.missing, "proof": p.file.proof.to_string()});
        let files: Vec<_> = outlook.files.iter().map(file).collect();
        let source = &outlook.source;
        return terminal::print_line(&event(
            "outlook",
            json!({"source": source, "path": dir.display().to_string(), "bytes": total, "missing": missing, "streams": outlook.extent == Wanted::Spine, "spine": spine::json(outlook.packed), "drafter": drafter::json(drafter), "files": files}),
        ));
    }
    for Prospect { file, missing, .. } in &outlook.files {
        let of = match file.bytes - missing {
            0 => String::new(),
            _ if *missing == 0 => "  here".to_owned(),
            _ => format!("  of {}", file.bytes),
        };
        terminal::print_line(&format!("{missing:>16}  {}{of}", one_line(&file.name)))?;
    }
    if outlook.extent == Wanted::Spine {
        terminal::print_line("experts come when they are needed (--full gets all of it)")?;
    }
    if let Some(forecast) = &outlook.packed {
        terminal::print_line(&spine::words(forecast))?;
    }
    if let Some(drafter) = drafter {
        terminal::print_line(&drafter::words(drafter))?;
    }
    let (files, missing, total) = (outlook.files.len(), bytes(missing), bytes(total));
    terminal::print_line(&format!(
        "{files} files of {}, {total}; {missing} to fetch into {}",
        outlook.source,
        shown(dir)
    ))
}
