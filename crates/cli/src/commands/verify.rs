//! `verify`: damage found, named, and mended.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use deltafin_checkpoint::Recipe;
use deltafin_checkpoint::pack::MANIFEST;
use deltafin_fetch::{self as fetch, Damage, Event, FetchError, Order, Patience, Verified};
use deltafin_setup::{ConvertError, Progress};
use deltafin_store::{SpineChoice, pack_dir};
use serde_json::json;

use crate::args::{Network, Verify};
use crate::damage;
use crate::drafter;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::logins;
use crate::model_choice::{self, Model};
use crate::stats::{bytes, seconds};
use crate::streamed;
use crate::terminal::{self, ProgressLine, Terminal};

/// Requests at once for what is mended.
const JOBS: usize = 4;
/// Lines about damage, at the most.
const NAMED: usize = 50;

/// Does it.
pub(crate) fn verify(asked: &Verify) -> Result<(), Failure> {
    let interrupts = Interrupts::install()?.and_terminations()?;
    let dir = match model_choice::choose(asked.model.model.clone(), asked.model.given)? {
        Model::Directory(dir) => dir,
        Model::Demo => return Err(Failure::new("the demo is part of this program; give a folder")),
    };
    let (began, stop) = (Instant::now(), interrupts.begin());
    let (mut found, mut received) = look_and_mend(&dir, asked, stop)?;
    let is_sure = asked.is_deep || !fetch::is_installed(&dir);
    let odd = (asked.repairs || found.damage.is_empty()).then(|| check(&dir).err()).flatten();
    match odd {
        None => {}
        Some(why) if is_sure => return Err(why),
        Some(why) if !asked.repairs => return Err(with_remedy(&dir, why)),
        Some(_) => {
            terminal::say(
                "a file has its size and makes no sense: every byte is held against its digest",
            );
            let deep = Verify { is_deep: true, ..asked.clone() };
            let (more, came) = look_and_mend(&dir, &deep, stop)?;
            received += came;
            found = Verified { damage: [found.damage, more.damage].concat(), ..more };
            check(&dir)?;
        }
    }
    interrupts.end();
    report(asked, &dir, &found, received, began)
}

/// Looks at the model and at the drafter beside it, and mends both if that was asked; with the bytes that came.
fn look_and_mend(
    dir: &Path,
    asked: &Verify,
    stop: &AtomicBool,
) -> Result<(Verified, u64), Failure> {
    let mut found = look(dir, asked, stop)?;
    let mut received = if asked.repairs { mend(dir, asked, &found.damage, stop)? } else { 0 };
    let beside = dir.join(drafter::FOLDER);
    if fetch::is_installed(&beside) {
        let more = look(&beside, asked, stop)?;
        received += if asked.repairs { mend(&beside, asked, &more.damage, stop)? } else { 0 };
        found.files += more.files;
        found.bytes += more.bytes;
        let named = |d: Damage| Damage { file: format!("{}/{}", drafter::FOLDER, d.file), ..d };
        found.damage.extend(more.damage.into_iter().map(named));
    }
    Ok((found, received))
}

fn with_remedy(dir: &Path, why: Failure) -> Failure {
    match why {
        Failure::Fault(why) => {
            let fix = format!("'deltafin verify --repair {}' mends it", dir.display());
            Failure::Fault(format!("{why}; {fix}"))
        }
        other => other,
    }
}

/// What is in order by its digests has to make sense as well.
fn check(dir: &Path) -> Result<(), Failure> {
    let checkpoint = streamed::open_dir(dir, &Network::unused())?;
    let is_there = |recipe: &Recipe| pack_dir(dir, *recipe).join(MANIFEST).exists();
    for recipe in Recipe::ALL.into_iter().filter(is_there) {
        checkpoint.clone().with_spine(&SpineChoice::Recipe(recipe))?;
    }
    let beside = dir.join(drafter::FOLDER);
    match beside.symlink_metadata().is_ok().then(|| drafter::check(&beside)) {
        Some(Err(why)) => {
            let remedy = "'deltafin setup --drafter SOURCE' brings one";
            Err(Failure::new(format!("no drafter: {why}; {remedy}, once this is removed")))
        }
        None | Some(Ok(())) => Ok(()),
    }
}

/// Whether nothing is left to be done of an installation, as far as there was one.
fn is_finished(dir: &Path) -> bool {
    !fetch::is_installed(dir) || fetch::is_finished(dir)
}

/// Looks at what setup installed; at any other folder as opening it does.
fn look(dir: &Path, asked: &Verify, stop: &AtomicBool) -> Result<Verified, Failure> {
    fetch::check_seen(dir)?;
    let is_foreign = !fetch::is_installed(dir);
    let opened = match is_foreign && (!asked.repairs || !dir.is_dir()) {
        true => Some(deltafin_store::open_dir(dir)?),
        false => None,
    };
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
        Some(checkpoint) if !asked.is_deep => {
            let files = checkpoint.store.shards().len();
            let packs = fetch::verify_packs(dir, false, &watch, stop).map_err(told)?;
            Ok(Verified { files: files + packs.files, ..packs })
        }
        Some(checkpoint) => {
            terminal::say(&format!(
                "{}: setup did not bring this, so no digests are known: what can be seen is whether the drive gives \
                 every byte; 'deltafin setup --source SOURCE --model DIR' holds it against a source",
                dir.display()
            ));
            let found = fetch::read_through(&*checkpoint.store, &watch, stop).map_err(told)?;
            let packs = fetch::verify_packs(dir, true, &watch, stop).map_err(told)?;
            Ok(Verified {
                files: found.files + packs.files,
                bytes: found.bytes + packs.bytes,
                damage: [found.damage, packs.damage].concat(),
            })
        }
        None if is_foreign => match fetch::verify_packs(dir, asked.is_deep, &watch, stop) {
            // Of all else nothing is known that it could be held against.
            Ok(packs) if packs.damage.is_empty() => {
                fetch::verify(dir, asked.is_deep, &watch, stop).map_err(told)
            }
            packs => packs.map_err(told),
        },
        None => fetch::verify(dir, asked.is_deep, &watch, stop).map_err(told),
    }
}

/// Makes good what is damaged; gives how many bytes came for that.
fn mend(dir: &Path, asked: &Verify, damage: &[Damage], stop: &AtomicBool) -> Result<u64, Failure> {
    let converted: BTreeSet<_> = damage.iter().filter_map(|damage| damage.converted).collect();
    let is_fetched = damage.iter().any(|damage| damage.converted.is_none()) || !is_finished(dir);
    let received = if is_fetched { fetch_again(dir, asked, damage, stop)? } else { 0 };
    for recipe in converted {
        let checkpoint = streamed::open_dir(dir, &Network::unused())?;
        let mut go_on = |_: Progress| match stop.load(Ordering::SeqCst) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        match deltafin_setup::convert(&checkpoint, recipe, &pack_dir(dir, recipe), &mut go_on) {
            Err(ConvertError::Interrupted { .. }) => return Err(Failure::Interrupted),
            made => drop(made?),
        }
    }
    Ok(received)
}

/// Fetches what is damaged again; gives how many bytes came.
fn fetch_again(
    dir: &Path,
    asked: &Verify,
    damage: &[Damage],
    stop: &AtomicBool,
) -> Result<u64, Failure> {
    let source = fetch::installed_from(dir).map(logins::with_login).ok_or_else(|| {
        Failure::new(format!("{}: it is not known where it came from", dir.display()))
    })?;
    let order = Order {
        endpoint: asked.endpoint.as_deref(),
        jobs: JOBS,
        patience: Patience::of(asked.patience),
        ..Order::new(&source, dir)
    };
    let watch = |event: Event<'_>| {
        if let Event::Waiting { name, why, wait } = event {
            let seconds = wait.as_secs_f64();
            terminal::say(&format!("{name}: {why}; asked again in {seconds:.1} s"));
        }
    };
    fetch::repair(&order, damage, Arc::new(watch), stop).map(|done| done.received).map_err(told)
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
        for line in damage::lines(damage).iter().take(NAMED) {
            terminal::print_line(line)?;
        }
        let depth = match asked.is_deep {
            true => format!("{} read in {}", bytes(*read), seconds(took)),
            false => "sizes and headers".to_owned(),
        };
        let outcome = match (damage.len(), asked.repairs) {
            (0, _) => "nothing is damaged".to_owned(),
            (n, true) => {
                let were = if n == 1 { "piece was" } else { "pieces were" };
                let fetched = bytes(received);
                format!("{n} {were} damaged and mended, {fetched} fetched")
            }
            (n, false) => match damage.iter().map(|damage| damage.converted).collect() {
                Some(recipes) => {
                    let recipes: BTreeSet<Recipe> = recipes;
                    let convert = recipes.iter().map(|r| format!("'deltafin convert --spine {r}'"));
                    let convert = convert.collect::<Vec<_>>().join(" and ");
                    format!("{}; --repair makes that again, as does {convert}", damaged(n))
                }
                None => format!("{}; --repair makes that good again", damaged(n)),
            },
        };
        terminal::print_line(&format!("{files} files, {depth}: {outcome}"))?;
    }
    if damage.is_empty() || asked.repairs { Ok(()) } else { Err(Failure::Reported) }
}

/// So many pieces are.
fn damaged(pieces: usize) -> String {
    match pieces {
        1 => "1 piece is damaged".to_owned(),
        n => format!("{n} pieces are damaged"),
    }
}
