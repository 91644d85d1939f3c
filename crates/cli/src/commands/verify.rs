//! `verify`: damage found, named, and mended.

use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use deltafin_fetch::{
    self as fetch, Damage, Event, FetchError, Order, Patience, Spine, Verified, Wanted,
};
use serde_json::json;

use crate::args::{Network, Verify};
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::logins;
use crate::model_choice::{self, Model};
use crate::stats::{bytes, seconds};
use crate::streamed;
use crate::terminal::{self, ProgressLine, Terminal, one_line};

/// Requests at once for what is mended.
const JOBS: usize = 4;
/// Damage that is told piece by piece.
const NAMED: usize = 50;

/// Does it.
pub(crate) fn verify(asked: &Verify) -> Result<(), Failure> {
    let interrupts = Interrupts::install()?.and_terminations()?;
    let dir = match model_choice::choose(asked.model.model.clone(), asked.model.given)? {
        Model::Directory(dir) => dir,
        Model::Demo => return Err(Failure::new("the demo is part of this program; give a folder")),
    };
    let (began, stop) = (Instant::now(), interrupts.begin());
    let found = look(&dir, asked, stop)?;
    let received = match asked.repairs && !(found.damage.is_empty() && is_finished(&dir)) {
        true => mend(&dir, asked, &found.damage, stop)?,
        false => 0,
    };
    interrupts.end();
    if asked.repairs || found.damage.is_empty() {
        // What is in order by its digests has to make sense as well.
        streamed::open_dir(&dir, &Network::unused())?;
    }
    report(asked, &dir, &found, received, began)
}

/// Whether nothing is left to be done of an installation, as far as there was one.
fn is_finished(dir: &Path) -> bool {
    !fetch::is_installed(dir) || fetch::is_finished(dir)
}

/// Looks at what setup installed; at any other folder as opening it does.
fn look(dir: &Path, asked: &Verify, stop: &AtomicBool) -> Result<Verified, Failure> {
    let is_foreign = !fetch::is_installed(dir);
    let opened = match is_foreign && (!asked.repairs || !dir.is_dir()) {
        true => Some(deltafin_store::open_dir(dir)?),
        false => None,
    };
    if let Some(checkpoint) = opened.as_ref().filter(|_| !asked.is_deep) {
        return Ok(Verified { files: checkpoint.store.shards().len(), ..Verified::default() });
    }
    let line = Mutex::new(ProgressLine::new(Terminal::detect()));
    let (done, total, began) = (AtomicU64::new(0), AtomicU64::new(0), Instant::now());
    let watch = |event: Event<'_>| match event {
        Event::Plan { bytes, .. } => total.store(bytes, Ordering::Relaxed),
        Event::Kept { bytes: more } => {
            let done = done.fetch_add(more, Ordering::Relaxed) + more;
            let total = total.load(Ordering::Relaxed);
            let Ok(mut line) = line.try_lock() else { return };
            line.update(|| {
                let rate = done as f64 / began.elapsed().as_secs_f64().max(1e-3);
                let left = total.saturating_sub(done) as f64 / rate.max(1.0);
                let rate = bytes(rate as u64);
                format!("{} of {} read, {rate}/s, {left:.0} s left", bytes(done), bytes(total))
            });
        }
        _ => {}
    };
    match opened {
        Some(checkpoint) => {
            terminal::say(&format!(
                "{}: setup did not bring this, so no digests are known: what can be seen is whether the drive gives \
                 every byte; 'deltafin setup --source SOURCE --model DIR' holds it against a source",
                dir.display()
            ));
            fetch::read_through(&*checkpoint.store, &watch, stop).map_err(told)
        }
        None => fetch::verify(dir, asked.is_deep, &watch, stop).map_err(told),
    }
}

/// Fetches what is damaged again; gives how many bytes came.
fn mend(dir: &Path, asked: &Verify, damage: &[Damage], stop: &AtomicBool) -> Result<u64, Failure> {
    let source = fetch::installed_from(dir).map(logins::with_login).ok_or_else(|| {
        Failure::new(format!("{}: it is not known where it came from", dir.display()))
    })?;
    fetch::give_up(dir, damage).map_err(told)?;
    let order = Order {
        source: &source,
        dir,
        endpoint: asked.endpoint.as_deref(),
        jobs: JOBS,
        bytes_per_second: None,
        wanted: Wanted::Fitting,
        spine: Spine::AsBegun,
        patience: Patience { give_up: asked.patience, ..Patience::default() },
    };
    let watch = |event: Event<'_>| {
        if let Event::Waiting { name, why, wait } = event {
            let seconds = wait.as_secs_f64();
            terminal::say(&format!("{name}: {why}; asked again in {seconds:.1} s"));
        }
    };
    fetch::install(&order, Arc::new(watch), stop).map(|done| done.received).map_err(told)
}

fn told(error: FetchError) -> Failure {
    match error {
        FetchError::Interrupted => Failure::Interrupted,
        error => error.into(),
    }
}

fn report(
    asked: &Verify,
    dir: &Path,
    found: &Verified,
    received: u64,
    began: Instant,
) -> Result<(), Failure> {
    let Verified { files, bytes: read, damage } = found;
    let took = began.elapsed().as_secs_f64();
    if asked.json {
        let piece =
            |d: &Damage| json!({"file": d.file, "offset": d.offset, "bytes": d.bytes, "of": d.of});
        let damage: Vec<_> = damage.iter().map(piece).collect();
        let report = json!({
            "path": dir.display().to_string(), "files": files, "read": read, "damage": damage,
            "repaired": asked.repairs, "received": received, "seconds": took,
        });
        terminal::print_line(&report.to_string())?;
    } else {
        for Damage { file, offset, bytes, of } in damage.iter().take(NAMED) {
            let file = one_line(file);
            terminal::print_line(&format!("{file}: {of}: {bytes} bytes at {offset} are damaged"))?;
        }
        let depth = match asked.is_deep {
            true => format!("{} read in {}", bytes(*read), seconds(took)),
            false => "sizes and headers".to_owned(),
        };
        let outcome = match (damage.len(), asked.repairs) {
            (0, _) => "nothing is damaged".to_owned(),
            (n, true) => {
                format!("{n} pieces were damaged and are mended, {} fetched", bytes(received))
            }
            (n, false) => format!("{n} pieces are damaged; --repair fetches them again"),
        };
        terminal::print_line(&format!("{files} files, {depth}: {outcome}"))?;
    }
    if damage.is_empty() || asked.repairs { Ok(()) } else { Err(Failure::Reported) }
}
