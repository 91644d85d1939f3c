//! `setup`: from a source to a model that runs.

mod drafter;
mod progress;
mod spine;

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use deltafin_fetch::{
    self as fetch, FetchError, Installed, Kept, Order, Outlook, Patience, Prospect, Source, Wanted,
};
use deltafin_store::Checkpoint;
use serde_json::json;

use super::transfer::event;
use crate::args::{Network, Setup};
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::logins;
use crate::model_choice;
use crate::stats::{bytes, seconds};
use crate::streamed;
use crate::terminal::{self, one_line};
use crate::user_folder::user_folder;
use drafter::Drafter;
use progress::Progress;

/// Does it.
pub(crate) fn setup(asked: &Setup) -> Result<(), Failure> {
    let interrupts = Interrupts::install()?.and_terminations()?;
    if let Some(dir) = here_already(asked)? {
        return adopt(asked, &dir, interrupts.begin());
    }
    fetch_all(asked, &interrupts)
}

/// Gets a checkpoint and its drafter from a source.
fn fetch_all(asked: &Setup, interrupts: &Interrupts) -> Result<(), Failure> {
    let source = logins::with_login(source(asked));
    let dir = asked.dir.clone().map_or_else(|| usual_folder(&source), Ok)?;
    let stop = interrupts.begin();
    let order = Order {
        source: &source,
        dir: &dir,
        endpoint: asked.endpoint.as_deref(),
        jobs: asked.jobs,
        bytes_per_second: asked.bytes_per_second,
        wanted: asked.wanted.clone(),
        spine: asked.spine,
        patience: patience(asked),
    };
    let (began, progress) = (Instant::now(), Arc::new(Progress::new(asked.json)));
    if !asked.json {
        terminal::say(&format!("asking {source} what there is"));
    }
    let drafter = Drafter::of(asked, &source, &dir);
    let beside = drafter.as_ref().map(|drafter| drafter.outlook(&order, progress.clone(), stop));
    let beside = beside.transpose().map_err(told)?.flatten();
    if asked.is_dry_run {
        let outlook = fetch::list(&order, progress.clone(), stop);
        progress.end();
        return report_outlook(asked, &dir, &outlook.map_err(told_of_outlook)?, beside.as_ref());
    }
    let installed = fetch::install(&order, progress.clone(), stop);
    progress.end();
    let kept = keep(asked, &source, &dir);
    let installed = installed.map_err(told)?;
    kept?;
    if let Wanted::Layers(_) = installed.extent {
        interrupts.end();
        return report_partial(asked, &dir, &installed);
    }
    let drafter = drafter.filter(|drafter| beside.is_some() || drafter.is_local());
    let drafted = drafter.map(|drafter| {
        let progress = Arc::new(Progress::new(asked.json));
        let got = drafter.install(&order, progress.clone(), stop);
        progress.end();
        got
    });
    interrupts.end();
    let checkpoint = streamed::open_dir(&dir, &Network::unused())?;
    let took = began.elapsed().as_secs_f64();
    report(asked, &checkpoint, &remembered(&dir)?, &words(&installed, took), installed.received)?;
    // The model runs without it, so it is remembered whatever becomes of this.
    drafted.unwrap_or(Ok(Ok(()))).map_err(told)?
}

fn missing(outlook: &Outlook) -> u64 {
    outlook.files.iter().map(|prospect| prospect.missing).sum()
}

/// The source that was given, or the one that the folder came from.
fn source(asked: &Setup) -> Source {
    let begun = || asked.dir.as_deref().and_then(fetch::installed_from);
    asked.source.clone().or_else(begun).unwrap_or_else(Source::released)
}

/// How long the source is asked: who only looks has nothing that a lost network could cost.
fn patience(asked: &Setup) -> Patience {
    match (asked.patience, asked.is_dry_run) {
        (Some(seconds), _) => {
            let give_up = Duration::from_secs(seconds.into());
            Patience { give_up, ..Patience::default() }
        }
        (None, true) => Patience::short(),
        (None, false) => Patience::default(),
    }
}

/// Keeps what was said that counts when the model runs. Also of a setup that did not finish: whoever goes on with
/// it need not say it again.
fn keep(asked: &Setup, source: &Source, dir: &Path) -> Result<(), Failure> {
    if fetch::installed_from(dir).is_some_and(|noted| noted.to_string() == source.to_string()) {
        logins::keep(source)?;
    }
    match asked.patience {
        Some(seconds) if fetch::is_installed(dir) => {
            Ok(Kept { patience: Some(seconds) }.write(dir)?)
        }
        _ => Ok(()),
    }
}

fn told_of_outlook(error: FetchError) -> Failure {
    match error {
        FetchError::Interrupted => {
            terminal::say("interrupted; nothing was fetched");
            Failure::Interrupted
        }
        error => error.into(),
    }
}

fn told(error: FetchError) -> Failure {
    match error {
        FetchError::Interrupted => {
            terminal::say(&error.to_string());
            Failure::Interrupted
        }
        error => error.into(),
    }
}

/// A checkpoint that is on this machine: the folder that was given as the source, what lies where it is to
/// be installed, or the hub's cache.
fn here_already(asked: &Setup) -> Result<Option<PathBuf>, Failure> {
    if let Some(Source::Folder(folder)) = &asked.source {
        if asked.dir.is_some() {
            return Err(Failure::new(format!(
                "{} is used where it is, nothing is copied; leave out --model",
                folder.display()
            )));
        }
        return Ok(Some(folder.clone()));
    }
    let opens = |dir: &PathBuf| deltafin_store::open_dir(dir).is_ok();
    if asked.source.is_none() && !matches!(asked.wanted, Wanted::Layers(_)) {
        let there = asked.dir.clone().map_or_else(model_choice::remembered, |dir| Ok(Some(dir)))?;
        // What setup itself put there, it looks after itself.
        let foreign = there.filter(|dir| !fetch::is_installed(dir) && opens(dir));
        if foreign.is_some() {
            return Ok(foreign);
        }
    }
    let source = source(asked);
    Ok(fetch::cached(&source).filter(|dir| asked.dir.is_none() && opens(dir)))
}

/// Uses a checkpoint where it is.
fn adopt(asked: &Setup, dir: &Path, stop: &AtomicBool) -> Result<(), Failure> {
    let checkpoint = deltafin_store::open_dir(dir)?;
    checkpoint.notices.iter().for_each(|notice| terminal::say(notice));
    if asked.is_dry_run {
        return terminal::print_line(&format!(
            "{} is complete; nothing would be fetched",
            shown(dir)
        ));
    }
    let checkpoint = spine::beside(asked.spine, checkpoint, stop)?;
    report(asked, &checkpoint, &remembered(dir)?, "here already, used where it is", 0)?;
    drafter::beside(asked, dir, stop)
}

/// The folder that was remembered, or one named after the checkpoint.
fn usual_folder(source: &Source) -> Result<PathBuf, Failure> {
    if let Some(dir) = model_choice::remembered()?.filter(|dir| {
        fetch::installed_from(dir).is_some_and(|noted| noted.to_string() == source.to_string())
    }) {
        return Ok(dir);
    }
    let name = match source {
        Source::Hub { repository, .. } => repository.rsplit('/').next().unwrap_or("model"),
        Source::Web(_) | Source::Bucket(_) | Source::Folder(_) => "model",
    };
    let data = user_folder("XDG_DATA_HOME", ".local/share");
    let data =
        data.ok_or_else(|| Failure::new("no home folder is known: give a folder with --model"))?;
    Ok(data.join("deltafin").join(name))
}

/// Remembers a folder for the other commands; says so, or why not. Gives its full path.
fn remembered(dir: &Path) -> Result<PathBuf, Failure> {
    let full = dir.canonicalize().map_err(|error| Failure::about(dir.display(), &error))?;
    if let Err(error) = model_choice::remember(&full) {
        let line = error.line().unwrap_or_default();
        terminal::note(&format!("{line}; give --model '{}' to the other commands", shown(&full)));
    }
    Ok(full)
}

fn shown(dir: &Path) -> String {
    one_line(&dir.display().to_string()).into_owned()
}

fn words(installed: &Installed, took: f64) -> String {
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

fn report(
    asked: &Setup,
    checkpoint: &Checkpoint,
    dir: &Path,
    how: &str,
    received: u64,
) -> Result<(), Failure> {
    let layers = checkpoint.spec().layers.len();
    if asked.json {
        let path = dir.display().to_string();
        let done = json!({"event": "done", "path": path, "layers": layers, "received": received});
        return terminal::print_line(&done.to_string());
    }
    terminal::print_line(&format!("{}: {layers} layers, {how}", shown(dir)))?;
    spine::say(checkpoint);
    if env::var_os("DELTAFIN_MODEL").is_none_or(|model| model.is_empty()) {
        terminal::say("ready: deltafin chat");
    }
    Ok(())
}

fn report_partial(asked: &Setup, dir: &Path, installed: &Installed) -> Result<(), Failure> {
    if asked.json {
        return terminal::print_line(&event("partial", json!({"received": installed.received})));
    }
    let received = bytes(installed.received);
    terminal::print_line(&format!("{}: {received} fetched, as asked for", shown(dir)))?;
    terminal::say("it runs when all of it is there: deltafin setup without --layers gets the rest");
    Ok(())
}

fn report_outlook(
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
