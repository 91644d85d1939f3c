//! `setup`: from a source to a model that runs.

mod drafter;
mod progress;
mod report;
mod spine;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use deltafin_fetch::{self as fetch, FetchError, Kept, Order, Outlook, Patience, Source, Wanted};

use super::warm;
use crate::args::{CacheLimit, DrafterChoice, Given, Looked, ModelArg, Network, Setup, Sign, Warm};
use crate::awake;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::logins;
use crate::model_choice;
use crate::streamed;
use crate::terminal;
use crate::user_folder::user_folder;
use drafter::Drafter;
use progress::Progress;
use report::{Ready, shown};

/// Does it.
pub(crate) fn setup(asked: &Setup) -> Result<(), Failure> {
    let interrupts = Interrupts::install()?.and_terminations()?;
    let _awake = awake::keep(asked.may_sleep);
    let begun = asked.dir.clone().or_else(model_choice::remembered_before);
    if let Some(dir) = here_already(asked, begun.as_deref())? {
        return adopt(asked, &dir, interrupts.begin());
    }
    fetch_all(asked, begun.as_deref(), &interrupts)
}

/// Gets a checkpoint and its drafter from a source; `begun` is the folder that was named or is remembered.
fn fetch_all(asked: &Setup, begun: Option<&Path>, interrupts: &Interrupts) -> Result<(), Failure> {
    let source = logins::with_login(source(asked, begun));
    let dir = asked.dir.clone().map_or_else(|| usual_folder(&source, begun), Ok)?;
    let stop = interrupts.begin();
    let order = order(asked, &source, &dir);
    let (began, progress) = (Instant::now(), Arc::new(Progress::new(asked.json)));
    if !asked.json {
        terminal::say(&format!("asking {source} what there is"));
    }
    say_of_a_part(asked, &source, &dir)?;
    let drafter = Drafter::of(asked, &source, &dir)?;
    if asked.is_dry_run {
        let would = outlook(asked, &order, drafter.as_ref(), &progress, stop);
        progress.end();
        let (would, beside) = would?;
        report::outlook(asked, &dir, &would, beside.as_ref())?;
        interrupts.end();
        return match layers_of(asked, &would.extent).filter(|_| fetch::is_streamed(&dir)) {
            Some(layers) => warm_layers(asked, &dir, layers, interrupts),
            None => Ok(()),
        };
    }
    let beside = drafter.as_ref().map(|drafter| drafter.ahead(&order, progress.clone(), stop));
    let beside = beside.transpose()?.flatten();
    let order = Order { beside: beside.as_ref().map_or(0, report::missing), ..order };
    let installed = fetch::install(&order, progress.clone(), stop);
    progress.end();
    let kept = keep(asked, &source, &dir);
    let installed = installed.map_err(told)?;
    kept?;
    if let Wanted::Layers(_) = installed.extent {
        interrupts.end();
        // Where another model runs, it goes on being the one that does.
        if model_choice::remembered().ok().flatten().is_none() {
            remembered(&dir)?;
        }
        if let DrafterChoice::Named(named) = &asked.drafter {
            terminal::say(&format!("--drafter {named} has to be given again when the rest comes"));
        }
        return report::partial(asked, &dir, &installed);
    }
    let drafted = drafter.map(|drafter| {
        let progress = Arc::new(Progress::new(asked.json));
        let got = drafter.install(&order, beside.is_some(), progress.clone(), stop);
        progress.end();
        got
    });
    interrupts.end();
    let took = began.elapsed().as_secs_f64();
    if let Some(layers) = layers_of(asked, &installed.extent) {
        warm_layers(asked, &dir, layers, interrupts)?;
    }
    let limited = Network { cache_limit: asked.cache_limit, ..Network::unused() };
    let checkpoint = streamed::open_dir(&dir, &limited)?;
    keep_limit(asked, &dir)?;
    let words = report::words(&installed, took);
    report::done(asked, &checkpoint, &remembered(&dir)?, &words, installed.received)?;
    // The model runs without it, so it is remembered whatever becomes of this.
    drafted.unwrap_or(Ok(()))
}

/// A folder that was begun with some layers goes on with these, and whoever may want all of it has to know.
fn say_of_a_part(asked: &Setup, source: &Source, dir: &Path) -> Result<(), Failure> {
    if asked.wanted != Wanted::Fitting || !is_from(dir, source) {
        return Ok(());
    }
    if let Some(layers) = fetch::begun_layers(dir)? {
        let (first, last) = (layers.start(), layers.end());
        terminal::say(&format!(
            "this folder was begun with --layers {first}-{last} and goes on with these; --full gets all of it, --stream \
             all but the experts"
        ));
    }
    Ok(())
}

/// Whether a folder came from a source, or is to.
fn is_from(dir: &Path, source: &Source) -> bool {
    fetch::installed_from(dir).is_some_and(|noted| noted.to_string() == source.to_string())
}

/// What is to come, and how.
fn order<'o>(asked: &'o Setup, source: &'o Source, dir: &'o Path) -> Order<'o> {
    Order {
        endpoint: asked.endpoint.as_deref(),
        jobs: asked.jobs,
        bytes_per_second: asked.bytes_per_second,
        wanted: asked.wanted.clone(),
        spine: asked.spine,
        layout: asked.layout,
        patience: patience(asked),
        ..Order::new(source, dir)
    }
}

/// What would come, and with it of the drafter.
fn outlook(
    asked: &Setup,
    order: &Order<'_>,
    drafter: Option<&Drafter>,
    progress: &Arc<Progress>,
    stop: &AtomicBool,
) -> Result<(Outlook, Option<Outlook>), Failure> {
    // The model first: where its source gives nothing, nothing else is asked.
    let would = fetch::list(order, progress.clone(), stop).map_err(told_of_outlook)?;
    if let Wanted::Layers(_) = would.extent {
        return Ok((would, None));
    }
    let beside = drafter.map(|drafter| drafter.outlook(order, progress.clone(), stop));
    let beside = beside.transpose()?.flatten();
    let is_choice = asked.wanted == Wanted::Fitting && !fetch::is_installed(order.dir);
    match beside.as_ref().map(report::missing) {
        Some(missing) if is_choice && would.extent == Wanted::All => {
            let order = Order { beside: missing, ..order.clone() };
            let would = fetch::list(&order, progress.clone(), stop).map_err(told_of_outlook)?;
            Ok((would, beside))
        }
        _ => Ok((would, beside)),
    }
}

/// The layers that were asked for, of a model whose experts come when they are needed.
fn layers_of(asked: &Setup, extent: &Wanted) -> Option<RangeInclusive<u32>> {
    match (&asked.wanted, extent) {
        (Wanted::Layers(layers), Wanted::Spine) => Some(layers.clone()),
        _ => None,
    }
}

/// Brings the experts of layers into a folder that is ready, and stays so.
fn warm_layers(
    asked: &Setup,
    dir: &Path,
    layers: RangeInclusive<u32>,
    interrupts: &Interrupts,
) -> Result<(), Failure> {
    let patience = asked.patience.map(|seconds| Duration::from_secs(seconds.into()));
    let network = Network { patience, endpoint: asked.endpoint.clone(), cache_limit: None };
    let model = Looked { model: Some(ModelArg::Directory(dir.to_owned())), given: Given::Typed };
    let asked = Warm {
        model,
        sign: Sign::Layers(layers),
        is_show: asked.is_dry_run,
        jobs: asked.jobs,
        bytes_per_second: asked.bytes_per_second,
        network,
        json: asked.json,
        may_sleep: asked.may_sleep,
    };
    warm::fetch_ahead(&asked, dir, interrupts)
}

/// The source that was given, or the one that the folder came from.
fn source(asked: &Setup, begun: Option<&Path>) -> Source {
    let noted = || begun.and_then(fetch::installed_from);
    asked.source.clone().or_else(noted).unwrap_or_else(Source::released)
}

/// How long the source is asked: who only looks has nothing that a lost network could cost.
fn patience(asked: &Setup) -> Patience {
    match (asked.patience, asked.is_dry_run) {
        (Some(seconds), _) => Patience::of(Duration::from_secs(seconds.into())),
        (None, true) => Patience::short(),
        (None, false) => Patience::default(),
    }
}

/// Keeps what was said that counts when the model runs. Also of a setup that did not finish: whoever goes on with
/// it need not say it again.
fn keep(asked: &Setup, source: &Source, dir: &Path) -> Result<(), Failure> {
    if is_from(dir, source) {
        logins::keep(source)?;
    }
    match asked.patience {
        Some(seconds) if fetch::is_installed(dir) => {
            Ok(Kept { patience: Some(seconds), ..Kept::read(dir)? }.write(dir)?)
        }
        _ => Ok(()),
    }
}

/// Keeps a limit of the cache with which the model was opened.
fn keep_limit(asked: &Setup, dir: &Path) -> Result<(), Failure> {
    match asked.cache_limit {
        Some(CacheLimit(cache_limit)) if fetch::is_streamed(dir) => {
            Ok(Kept { cache_limit, ..Kept::read(dir)? }.write(dir)?)
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
fn here_already(asked: &Setup, begun: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    if let Some(Source::Folder(folder)) = &asked.source {
        // What is not there is named when it is opened.
        if asked.dir.is_some() && folder.exists() {
            let remedy = match asked.given {
                Given::Environment => "unset DELTAFIN_MODEL",
                Given::Typed | Given::Nowhere => "leave out --model",
            };
            let folder = folder.display();
            return Err(Failure::new(format!(
                "{folder} is used where it is, nothing is copied; {remedy}"
            )));
        }
        return Ok(Some(folder.clone()));
    }
    let opens = |dir: &PathBuf| deltafin_store::open_dir(dir).is_ok();
    if asked.source.is_none() && !matches!(asked.wanted, Wanted::Layers(_)) {
        // What setup itself put there, it looks after itself.
        let foreign = begun.map(Path::to_owned);
        let foreign = foreign.filter(|dir| !fetch::is_installed(dir) && opens(dir));
        if foreign.is_some() {
            return Ok(foreign);
        }
    }
    let source = source(asked, begun);
    Ok(fetch::cached(&source).filter(|dir| asked.dir.is_none() && opens(dir)))
}

/// Uses a checkpoint where it is.
fn adopt(asked: &Setup, dir: &Path, stop: &AtomicBool) -> Result<(), Failure> {
    let checkpoint = deltafin_store::open_dir(dir)?;
    checkpoint.notices.iter().for_each(|notice| terminal::say(notice));
    if asked.is_dry_run {
        drafter::beside(asked, dir, stop)?;
        return terminal::print_line(&format!(
            "{} is complete; nothing would be fetched",
            shown(dir)
        ));
    }
    let checkpoint = spine::beside(asked.spine, checkpoint, stop)?;
    report::done(asked, &checkpoint, &remembered(dir)?, "here already, used where it is", 0)?;
    drafter::beside(asked, dir, stop)
}

/// The folder that was remembered, or one named after the checkpoint.
fn usual_folder(source: &Source, remembered: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(dir) = remembered.filter(|dir| is_from(dir, source)) {
        return Ok(dir.to_owned());
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

/// Remembers a folder for the other commands, or says why not.
fn remembered(dir: &Path) -> Result<Ready, Failure> {
    let dir = dir.canonicalize().map_err(|error| Failure::about(dir.display(), &error))?;
    let kept = model_choice::remember(&dir);
    if let Err(error) = &kept {
        let line = error.line().unwrap_or_default();
        terminal::note(&format!("{line}; give --model '{}' to the other commands", shown(&dir)));
    }
    Ok(Ready { dir, is_remembered: kept.is_ok() })
}
