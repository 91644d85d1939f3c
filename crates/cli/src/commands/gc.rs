//! `gc`: what earlier commands left, listed, and removed on request.

mod folder;
mod user;

use std::path::{Path, PathBuf};
use std::{fs, io};

use deltafin_fetch::{self as fetch, Leftover};
use serde::Serialize;
use serde_json::json;

use crate::args::{Gc, Looked, Network};
use crate::failure::Failure;
use crate::gathered::Gathered;
use crate::model_choice::{self, Model};
use crate::stats::bytes;
use crate::streamed;
use crate::terminal::{self, one_line};

/// Of what use something still is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// The command that began it goes on with it.
    Partial,
    /// Nobody needs it.
    Orphaned,
    /// It was not used for long.
    Old,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Partial => "partial",
            Kind::Orphaned => "orphaned",
            Kind::Old => "old",
        }
    }
}

/// Something that could go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Found {
    kind: Kind,
    path: PathBuf,
    /// Bytes of the drive that it takes.
    bytes: u64,
    /// Whether it is gone.
    removed: bool,
    /// What goes, where that is not one file.
    #[serde(skip)]
    what: What,
}

/// What goes of something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    File,
    /// Some of the file, which stays.
    Part(Leftover),
    /// The folder of a pack.
    Pack,
}

impl Found {
    fn new(kind: Kind, path: PathBuf) -> Found {
        let bytes = fetch::taken_bytes(&path);
        Found { kind, path, bytes, removed: false, what: What::File }
    }

    /// A pack that nothing uses.
    fn pack(path: PathBuf) -> Found {
        let files = fs::read_dir(&path).into_iter().flatten().flatten();
        let bytes = files.map(|file| fetch::taken_bytes(&file.path())).sum();
        Found { kind: Kind::Orphaned, path, bytes, removed: false, what: What::Pack }
    }

    /// What setup left, or a model that ran.
    fn left(kind: Kind, left: &Leftover) -> Found {
        let what = if left.within.is_some() { What::Part(left.clone()) } else { What::File };
        Found { kind, path: left.path.clone(), bytes: left.bytes, removed: false, what }
    }

    fn remove(&self) -> io::Result<()> {
        match &self.what {
            What::File => fs::remove_file(&self.path),
            What::Part(left) => left.remove(),
            What::Pack => deltafin_setup::remove_pack(&self.path),
        }
    }
}

/// Does it.
pub(crate) fn gc(asked: &Gc) -> Result<(), Failure> {
    let mut found = user::look(asked);
    let model = model_of(&asked.model)?;
    // Before the folder is locked.
    let cache = model.as_deref().and_then(cache_of);
    let folder = match &model {
        Some(dir) => folder::look(dir)?,
        None => folder::Look::default(),
    };
    found.extend(folder.found.iter().cloned());
    for found in &mut found {
        if asked.removes && (found.kind != Kind::Partial || asked.removes_partial) {
            found.remove().map_err(|error| Failure::about(found.path.display(), &error))?;
            found.removed = true;
        }
    }
    let free_slots = folder.free_slots;
    // Until here nobody else may begin to use what was found.
    drop(folder);
    report(asked, &found, cache.as_ref(), free_slots)
}

/// The folder of the model that the other commands would run, if there is one.
fn model_of(looked: &Looked) -> Result<Option<PathBuf>, Failure> {
    if looked.model.is_none() {
        return model_choice::remembered();
    }
    match model_choice::choose(looked.model.clone(), looked.given)? {
        Model::Demo => Ok(None),
        Model::Directory(dir) if dir.is_dir() => Ok(Some(dir)),
        Model::Directory(dir) => {
            Err(Failure::new(format!("{}: there is no such folder", dir.display())))
        }
    }
}

/// The experts that came over the network, where they do: a limit frees those, nothing here does.
fn cache_of(dir: &Path) -> Option<Gathered> {
    let checkpoint = fetch::is_streamed(dir).then(|| streamed::open_dir(dir, &Network::unused()));
    Gathered::of(&checkpoint?.ok()?)
}

fn report(
    asked: &Gc,
    found: &[Found],
    cache: Option<&Gathered>,
    free_slots: u64,
) -> Result<(), Failure> {
    let sum = |is: &dyn Fn(&&Found) -> bool| found.iter().filter(is).map(|f| f.bytes).sum::<u64>();
    let (all, freed) = (sum(&|_| true), sum(&|found| found.removed));
    if asked.json {
        let report = json!({
            "found": found, "bytes": all, "freed": freed, "cache": cache, "free_slots": free_slots,
        });
        return terminal::print_line(&report.to_string());
    }
    for Found { kind, path, bytes: size, removed, what } in found {
        let (kind, size, path) = (kind.name(), bytes(*size), path.display().to_string());
        let mark = match (removed, what) {
            (true, What::File | What::Pack) => "  removed",
            (true, What::Part(_)) => "  freed",
            (false, What::File) => "",
            (false, What::Part(_)) => "  (what no expert has)",
            (false, What::Pack) => {
                "  (setup was told --spine bf16 since; --spine int8 still runs it)"
            }
        };
        terminal::print_line(&format!("{kind:<9} {size:>11}  {}{mark}", one_line(&path)))?;
    }
    if let Some(cache) = cache {
        let free = match free_slots {
            0 => String::new(),
            free => format!("; {} more are free between them, for those that come", bytes(free)),
        };
        terminal::print_line(&format!("cache: {}{free}", cache.words()))?;
    }
    terminal::print_line(&match (found.is_empty(), asked.removes) {
        (true, _) => "nothing lies about".to_owned(),
        (false, true) => format!("{} of {} freed", bytes(freed), bytes(all)),
        (false, false) => {
            format!("{} could be freed; --yes removes what is orphaned or old", bytes(all))
        }
    })
}
