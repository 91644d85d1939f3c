//! `gc`: what earlier commands left, listed, and removed on request.

mod folder;
mod user;

use std::path::PathBuf;
use std::{fs, io};

use deltafin_fetch::Leftover;
use serde::Serialize;
use serde_json::json;

use crate::args::{Gc, Looked};
use crate::failure::Failure;
use crate::model_choice::{self, Model};
use crate::stats::bytes;
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
    /// What goes of the file, where that is not all.
    #[serde(skip)]
    part: Option<Leftover>,
}

impl Found {
    fn new(kind: Kind, path: PathBuf) -> Found {
        let bytes = deltafin_fetch::taken_bytes(&path);
        Found { kind, path, bytes, removed: false, part: None }
    }

    /// What setup left, or a model that ran.
    fn left(kind: Kind, left: &Leftover) -> Found {
        let part = left.within.is_some().then(|| left.clone());
        Found { kind, path: left.path.clone(), bytes: left.bytes, removed: false, part }
    }

    fn remove(&self) -> io::Result<()> {
        self.part.as_ref().map_or_else(|| fs::remove_file(&self.path), Leftover::remove)
    }
}

/// Does it.
pub(crate) fn gc(asked: &Gc) -> Result<(), Failure> {
    let mut found = user::look(asked);
    let folder = match model_of(&asked.model)? {
        Some(dir) => folder::look(&dir)?,
        None => folder::Look::default(),
    };
    found.extend(folder.found.iter().cloned());
    for found in &mut found {
        if asked.removes && (found.kind != Kind::Partial || asked.removes_partial) {
            found.remove().map_err(|error| Failure::about(found.path.display(), &error))?;
            found.removed = true;
        }
    }
    // Until here nobody else may begin to use what was found.
    drop(folder);
    report(asked, &found)
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

fn report(asked: &Gc, found: &[Found]) -> Result<(), Failure> {
    let sum = |is: &dyn Fn(&&Found) -> bool| found.iter().filter(is).map(|f| f.bytes).sum::<u64>();
    let (all, freed) = (sum(&|_| true), sum(&|found| found.removed));
    if asked.json {
        let report = json!({"found": found, "bytes": all, "freed": freed});
        return terminal::print_line(&report.to_string());
    }
    for Found { kind, path, bytes: size, removed, part } in found {
        let (kind, size, path) = (kind.name(), bytes(*size), path.display().to_string());
        let mark = match (removed, part) {
            (true, None) => "  removed",
            (true, Some(_)) => "  freed",
            (false, None) => "",
            (false, Some(_)) => "  (what no expert has)",
        };
        terminal::print_line(&format!("{kind:<9} {size:>11}  {}{mark}", one_line(&path)))?;
    }
    terminal::print_line(&match (found.is_empty(), asked.removes) {
        (true, _) => "nothing lies about".to_owned(),
        (false, true) => format!("{} of {} freed", bytes(freed), bytes(all)),
        (false, false) => {
            format!("{} could be freed; --yes removes what is orphaned or old", bytes(all))
        }
    })
}
