//! The drafter: a small model trained to guess what the large one will say. It lies in the model's folder,
//! in one of its own, fetched and proven like the rest.
//!
//! ```text
//! --drafter SOURCE ──────────────────────────────┐
//! hf:moonshotai/Kimi-K3 ─► the one published for it ├─► MODEL/drafter
//! any other source      ─► SOURCE/drafter, if there ┘
//! ```

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use deltafin_fetch::{
    self as fetch, FetchError, Order, Outlook, Prospect, Source, Spine, Wanted, Watch,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::progress::Progress;
use crate::args::{DrafterChoice, Setup};
use crate::failure::Failure;
use crate::stats::bytes;
use crate::terminal::{self, one_line};

/// The drafter that is published for the released model, at the revision that this program was made for.
const PUBLISHED: &str = "hf:Inferact/Kimi-K3-DSpark@cf6b8244620e7ea4b0651d214f28e89eac75bed6";
/// The repository of the released model.
const RELEASED: &str = "moonshotai/Kimi-K3";
/// Where it is beside a model, here and at a source.
const FOLDER: &str = "drafter";
/// What its configuration has to name.
const ARCHITECTURE: &str = "K3DSparkModel";
/// The published configuration has 1.2 KB.
const CONFIG_BYTES_MAX: u64 = 1 << 20;
const FILES: [&str; 2] = ["config.json", "model.safetensors"];

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
    /// The drafter that belongs to what comes from a source into a folder, unless none is to be had.
    pub(super) fn of(asked: &Setup, source: &Source, model: &Path) -> Option<Drafter> {
        let dir = model.join(FOLDER);
        let (source, is_named) = match &asked.drafter {
            DrafterChoice::None => return None,
            DrafterChoice::Named(named) => (named.clone(), true),
            DrafterChoice::Usual => {
                // What was fetched before is looked after.
                let begun = fetch::installed_from(&dir);
                match begun.or_else(|| usual(source)) {
                    Some(usual) => (usual, false),
                    None => {
                        terminal::say(&format!(
                            "no drafter is known for {source}; --drafter SOURCE names one"
                        ));
                        return None;
                    }
                }
            }
        };
        Some(Drafter { source, is_named, dir })
    }

    fn order<'o>(&'o self, model: &Order<'o>) -> Order<'o> {
        let (wanted, spine) = (Wanted::All, Spine::AsBegun);
        Order { source: &self.source, dir: &self.dir, wanted, spine, ..model.clone() }
    }

    /// What would come. Nothing where it is here, or is not to be had, which is said.
    pub(super) fn outlook(
        &self,
        model: &Order<'_>,
        watch: Arc<dyn Watch>,
        stop: &AtomicBool,
    ) -> Result<Option<Outlook>, FetchError> {
        if self.local().is_some() {
            return Ok(None);
        }
        match fetch::list(&self.order(model), watch, stop) {
            Ok(outlook) => Ok(Some(outlook)),
            Err(error @ FetchError::Source { .. }) if !self.is_named => {
                let why = one_line(&error.to_string()).into_owned();
                terminal::say(&format!("no drafter: {why}; --drafter SOURCE names another"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A folder of this machine that it is in.
    fn local(&self) -> Option<PathBuf> {
        match &self.source {
            Source::Folder(dir) => Some(dir.clone()),
            source => fetch::cached(source).filter(|dir| check(dir).is_ok()),
        }
    }

    /// Brings it here, or makes a link to it.
    pub(super) fn install(
        &self,
        model: &Order<'_>,
        watch: Arc<dyn Watch>,
        stop: &AtomicBool,
    ) -> Result<Result<(), Failure>, FetchError> {
        if let Some(dir) = self.local() {
            return Ok(check(&dir).and_then(|()| link(&dir, &self.dir)));
        }
        fetch::install(&self.order(model), watch, stop)?;
        Ok(check(&self.dir))
    }

    /// Whether it is on this machine, and nothing has to be fetched.
    pub(super) fn is_local(&self) -> bool {
        self.local().is_some()
    }
}

/// What would come, for people.
pub(super) fn words(outlook: &Outlook) -> String {
    let total: u64 = outlook.files.iter().map(|prospect| prospect.file.bytes).sum();
    let (total, missing, source) =
        (bytes(total), bytes(super::missing(outlook)), one_line(&outlook.source));
    format!("drafter from {source}, {total}; {missing} to fetch (--no-drafter leaves it out)")
}

/// The same for programs; nothing where none would come.
pub(super) fn json(outlook: Option<&Outlook>) -> Value {
    outlook.map_or(Value::Null, |outlook| {
        let file = |p: &Prospect| json!({"name": p.file.name, "bytes": p.file.bytes, "missing": p.missing});
        let files: Vec<_> = outlook.files.iter().map(file).collect();
        json!({"source": outlook.source, "missing": super::missing(outlook), "files": files})
    })
}

/// The drafter of a checkpoint that setup did not fetch: one that lies in it is used where it is, one that
/// was asked for is fetched or linked to.
pub(super) fn beside(asked: &Setup, model: &Path, stop: &AtomicBool) -> Result<(), Failure> {
    let DrafterChoice::Named(source) = &asked.drafter else {
        let dir = model.join(FOLDER);
        if asked.drafter == DrafterChoice::Usual && dir.exists() {
            check(&dir)?;
            terminal::say(&format!("drafter: {}, used where it is", dir.display()));
        }
        return Ok(());
    };
    let dir = model.join(FOLDER);
    let drafter = Drafter { source: source.clone(), is_named: true, dir };
    let order = Order {
        source,
        dir: model,
        endpoint: asked.endpoint.as_deref(),
        jobs: asked.jobs,
        bytes_per_second: asked.bytes_per_second,
        wanted: Wanted::All,
        spine: Spine::AsBegun,
        patience: super::patience(asked),
    };
    let progress = Arc::new(Progress::new(asked.json));
    let got = drafter.install(&order, progress.clone(), stop);
    progress.end();
    got.map_err(super::told)?
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

/// Refuses a folder that has no drafter of the kind this program knows.
fn check(dir: &Path) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Config {
        architectures: Vec<String>,
    }
    let no = |why: String| Failure::new(format!("{}: no drafter: {why}", dir.display()));
    if let Some(gone) = FILES.iter().find(|name| !dir.join(name).is_file()) {
        return Err(no(format!("there is no {gone}")));
    }
    let config = dir.join(FILES[0]);
    if fs::metadata(&config).is_ok_and(|meta| meta.len() > CONFIG_BYTES_MAX) {
        return Err(no("its configuration is too long".to_owned()));
    }
    let bytes = fs::read(&config).map_err(|error| no(format!("config.json: {error}")))?;
    let Config { architectures } =
        serde_json::from_slice(&bytes).map_err(|error| no(format!("config.json: {error}")))?;
    match architectures.iter().any(|name| name == ARCHITECTURE) {
        true => Ok(()),
        false => {
            let found = one_line(&architectures.join(", ")).into_owned();
            Err(no(format!("its architecture is {found}, known is {ARCHITECTURE}")))
        }
    }
}

/// A drafter that is on this machine is used where it is.
fn link(to: &Path, at: &Path) -> Result<(), Failure> {
    let about = |error| Failure::about(at.display(), &error);
    let to = to.canonicalize().map_err(|error| Failure::about(to.display(), &error))?;
    if at.canonicalize().is_ok_and(|there| there == to) {
        return Ok(());
    }
    if at.is_symlink() {
        fs::remove_file(at).map_err(about)?;
    } else if at.exists() {
        let words = "is there already; remove it, then run the same command again";
        return Err(Failure::new(format!("{} {words}", at.display())));
    }
    symlink(to, at).map_err(about)
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
