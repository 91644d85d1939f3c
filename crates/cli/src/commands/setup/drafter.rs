//! The drafter: a small model trained to guess what the large one will say. It lies in the model's folder,
//! in one of its own, fetched and proven like the rest.
//!
//! ```text
//! --drafter SOURCE ──────────────────────────────┐
//! hf:moonshotai/Kimi-K3 ─► the one published for it ├─► MODEL/drafter
//! any other source      ─► SOURCE/drafter, if there ┘
//! ```

mod place;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use deltafin_fetch::{
    self as fetch, Event, FetchError, Order, Outlook, Patience, Prospect, Source, Spine, Wanted,
    Watch,
};
use serde_json::{Value, json};

use super::progress::Progress;
use super::told;
use crate::args::{DrafterChoice, Setup};
use crate::drafter::{FILES, FOLDER, check, judge};
use crate::failure::Failure;
use crate::stats::bytes;
use crate::terminal::{self, one_line};
use place::There;

/// The drafter that is published for the released model, at the revision that this program was made for.
const PUBLISHED: &str = "hf:Inferact/Kimi-K3-DSpark@cf6b8244620e7ea4b0651d214f28e89eac75bed6";
/// The repository of the released model.
const RELEASED: &str = "moonshotai/Kimi-K3";

/// A drafter to get.
#[derive(Debug)]
pub(super) struct Drafter {
    source: Source,
    /// Whether it was asked for: then it is a fault if it is not to be had.
    is_named: bool,
    /// Where it is to be.
    dir: PathBuf,
}

impl Drafter {
    /// The drafter that belongs to what comes from a source into a folder, unless none is to be had. Refuses one that
    /// was asked for where another is.
    pub(super) fn of(
        asked: &Setup,
        source: &Source,
        model: &Path,
    ) -> Result<Option<Drafter>, Failure> {
        let dir = model.join(FOLDER);
        let (source, is_named) = match &asked.drafter {
            DrafterChoice::None => return Ok(None),
            DrafterChoice::Named(named) => {
                place::check(named, &dir)?;
                (Some(named.clone()), true)
            }
            DrafterChoice::Usual => (usual_at(&dir, source), false),
        };
        Ok(source.map(|source| Drafter { source, is_named, dir }))
    }

    fn order<'o>(&'o self, model: &Order<'o>) -> Order<'o> {
        let (wanted, spine) = (Wanted::All, Spine::AsBegun);
        Order { source: &self.source, dir: &self.dir, wanted, spine, ..model.clone() }
    }

    /// What will come, before anything of the model does. One that was asked for and is none, or is not to be had, is
    /// refused. For any other nobody waits long, or says anything yet.
    pub(super) fn ahead(
        &self,
        model: &Order<'_>,
        watch: Arc<dyn Watch>,
        stop: &AtomicBool,
    ) -> Result<Option<Outlook>, Failure> {
        if self.is_named {
            return self.outlook(model, watch, stop);
        }
        let short = Patience::short();
        let is_shorter = model.patience.give_up < short.give_up;
        let patience = if is_shorter { model.patience } else { short };
        let order = Order { patience, ..model.clone() };
        match self.look(&order, Arc::new(|_: Event<'_>| {}), stop) {
            Err(Lack::Interrupted) => Err(told(FetchError::Interrupted)),
            found => Ok(found.unwrap_or_default()),
        }
    }

    /// What would come. Nothing where it is here, or is not to be had, which is said.
    pub(super) fn outlook(
        &self,
        model: &Order<'_>,
        watch: Arc<dyn Watch>,
        stop: &AtomicBool,
    ) -> Result<Option<Outlook>, Failure> {
        match self.look(model, watch, stop) {
            Ok(outlook) => Ok(outlook),
            Err(Lack::Interrupted) => Err(told(FetchError::Interrupted)),
            Err(Lack::Because(why)) if self.is_named => Err(no(&why)),
            Err(Lack::Because(why)) => {
                let why = one_line(&why);
                terminal::say(&format!("no drafter: {why}; --drafter SOURCE names another"));
                Ok(None)
            }
        }
    }

    /// What would come of a drafter that is one; nothing where it is here.
    fn look(
        &self,
        model: &Order<'_>,
        watch: Arc<dyn Watch>,
        stop: &AtomicBool,
    ) -> Result<Option<Outlook>, Lack> {
        if let Some(dir) = self.local() {
            return check(&dir).map(|()| None).map_err(Lack::Because);
        }
        let order = self.order(model);
        let outlook = fetch::list(&order, watch.clone(), stop)?;
        let [config, weights] = fetch::glance(&order, FILES, watch, stop)?;
        let judged = judge(config.as_ref(), weights.as_ref());
        judged.map_err(|why| Lack::Because(format!("{}: {why}", self.source)))?;
        Ok(Some(outlook))
    }

    /// A folder of this machine that it is in.
    fn local(&self) -> Option<PathBuf> {
        match &self.source {
            Source::Folder(dir) => Some(dir.clone()),
            // What was fetched is looked after, whatever else is on this machine.
            _ if matches!(There::of(&self.dir), There::Installed(_)) => None,
            source => fetch::cached(source).filter(|dir| check(dir).is_ok()),
        }
    }

    /// Brings it here, or makes a link to it. `is_known` says that it was looked at, and is to come.
    pub(super) fn install(
        &self,
        model: &Order<'_>,
        is_known: bool,
        watch: Arc<dyn Watch>,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let is_coming = is_known || self.outlook(model, watch.clone(), stop)?.is_some();
        match self.local() {
            Some(dir) => check(&dir).map_err(|why| no(&why)).and_then(|()| self.link(&dir)),
            None if is_coming => {
                place::clear(&self.source, &self.dir)?;
                fetch::install(&self.order(model), watch, stop).map(drop).map_err(told)
            }
            None => Ok(()),
        }
    }

    /// A drafter that is on this machine is used where it is.
    fn link(&self, to: &Path) -> Result<(), Failure> {
        let to = to.canonicalize().map_err(|error| Failure::about(to.display(), &error))?;
        if self.dir.canonicalize().is_ok_and(|there| there == to) {
            return Ok(());
        }
        place::clear(&self.source, &self.dir)?;
        symlink(to, &self.dir).map_err(|error| Failure::about(self.dir.display(), &error))
    }
}

/// What was fetched before is looked after; what else is there is left as it is, with a word. Where nothing is, the
/// drafter of the source.
fn usual_at(dir: &Path, source: &Source) -> Option<Source> {
    match There::of(dir) {
        There::Installed(begun) => Some(begun),
        There::Nothing => {
            let usual = usual(source);
            if usual.is_none() {
                terminal::say(&format!(
                    "no drafter is known for {source}; --drafter SOURCE names one"
                ));
            }
            usual
        }
        There::Link(_) | There::Foreign => {
            terminal::say(&match check(dir) {
                Ok(()) => used(dir),
                Err(why) => {
                    format!("no drafter: {}; --drafter SOURCE names another", one_line(&why))
                }
            });
            None
        }
    }
}

fn used(dir: &Path) -> String {
    format!("drafter: {}, used where it is", dir.display())
}

fn no(why: &str) -> Failure {
    Failure::new(format!("no drafter: {why}"))
}

/// Why there is no drafter.
enum Lack {
    Interrupted,
    Because(String),
}

impl From<FetchError> for Lack {
    fn from(error: FetchError) -> Lack {
        match error {
            FetchError::Interrupted => Lack::Interrupted,
            error => Lack::Because(error.to_string()),
        }
    }
}

/// What would come, for people.
pub(super) fn words(outlook: &Outlook) -> String {
    let total: u64 = outlook.files.iter().map(|prospect| prospect.file.bytes).sum();
    let (total, missing, source) =
        (bytes(total), bytes(super::report::missing(outlook)), one_line(&outlook.source));
    format!("drafter from {source}, {total}; {missing} to fetch (--no-drafter leaves it out)")
}

/// The same for programs; nothing where none would come.
pub(super) fn json(outlook: Option<&Outlook>) -> Value {
    outlook.map_or(Value::Null, |outlook| {
        let file = |p: &Prospect| json!({"name": p.file.name, "bytes": p.file.bytes, "missing": p.missing});
        let files: Vec<_> = outlook.files.iter().map(file).collect();
        json!({"source": outlook.source, "missing": super::report::missing(outlook), "files": files})
    })
}

/// The drafter of a checkpoint that setup did not fetch: one that lies in it is used where it is, one that
/// was asked for is fetched or linked to. A dry run looks at it alone.
pub(super) fn beside(asked: &Setup, model: &Path, stop: &AtomicBool) -> Result<(), Failure> {
    let dir = model.join(FOLDER);
    let DrafterChoice::Named(source) = &asked.drafter else {
        let is_there = dir.symlink_metadata().is_ok();
        if asked.drafter == DrafterChoice::Usual && is_there && !asked.is_dry_run {
            check(&dir).map_err(|why| no(&why))?;
            terminal::say(&used(&dir));
        }
        return Ok(());
    };
    place::check(source, &dir)?;
    let drafter = Drafter { source: source.clone(), is_named: true, dir };
    let order = Order { wanted: Wanted::All, ..super::order(asked, source, model) };
    let progress = Arc::new(Progress::new(asked.json));
    let got = match asked.is_dry_run {
        true => drafter.outlook(&order, progress.clone(), stop).map(drop),
        false => drafter.install(&order, false, progress.clone(), stop),
    };
    progress.end();
    got
}

/// The drafter of a source, as far as one is known.
fn usual(source: &Source) -> Option<Source> {
    match source {
        Source::Hub { repository, .. } if repository == RELEASED => PUBLISHED.parse().ok(),
        Source::Hub { .. } => None,
        Source::Folder(dir) => {
            let dir = dir.join(FOLDER);
            dir.is_dir().then_some(Source::Folder(dir))
        }
        // Their notation is that of a folder with a slash at its end.
        Source::Web(url) | Source::Bucket(url) => format!("{url}{FOLDER}/").parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_leads_to_its_drafter() {
        let of = |source: &str| usual(&source.parse().unwrap()).map(|found| found.to_string());
        assert_eq!(of("hf:moonshotai/Kimi-K3@v1").as_deref(), Some(PUBLISHED));
        assert_eq!(of("hf:somebody/else"), None);
        assert_eq!(of("https://h/k3").as_deref(), Some("https://h/k3/drafter/"));
        assert_eq!(of("s3://bucket/k3/").as_deref(), Some("s3://bucket/k3/drafter/"));
        assert_eq!(of("/no/such/folder"), None);
    }
}
