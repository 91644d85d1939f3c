//! Where a drafter is to be: what is there already, and what of that gives way to another one.
//!
//! **Promise.** A drafter that was asked for is never left out in silence because another one is there, and nothing is
//! ever written into a folder that setup did not make: a link gives way, a folder does not.

use std::fs;
use std::path::{Path, PathBuf};

use deltafin_fetch::{self as fetch, Source};

use crate::failure::Failure;
use crate::terminal;

/// Begins the name of the folder with setup's notes.
const NOTES: &str = ".deltafin";

/// What is there.
#[derive(Debug)]
pub(super) enum There {
    Nothing,
    /// A link, to this.
    Link(PathBuf),
    /// What setup brought from here, or began to.
    Installed(Source),
    /// Something that setup did not bring.
    Foreign,
}

impl There {
    /// In a folder.
    pub(super) fn of(dir: &Path) -> There {
        if dir.symlink_metadata().is_err() {
            return There::Nothing;
        }
        if let Ok(target) = fs::read_link(dir) {
            return There::Link(target);
        }
        match fetch::installed_from(dir) {
            Some(source) => There::Installed(source),
            None if is_bare(dir) => There::Nothing,
            None => There::Foreign,
        }
    }
}

/// Whether nothing is in a folder, but for what a setup that was ended at once leaves.
fn is_bare(dir: &Path) -> bool {
    fs::read_dir(dir)
        .is_ok_and(|entries| entries.flatten().all(|entry| entry.file_name() == *NOTES))
        && !fetch::is_installed(dir)
}

/// Refuses a drafter where another one is that does not give way to it.
pub(super) fn check(named: &Source, dir: &Path) -> Result<(), Failure> {
    let there = match There::of(dir) {
        There::Nothing | There::Link(_) => return Ok(()),
        There::Installed(there) if there.to_string() == named.to_string() => return Ok(()),
        There::Installed(there) => format!("the drafter from {there}"),
        There::Foreign if is_same(named, dir) => return Ok(()),
        There::Foreign => "something that setup did not bring".to_owned(),
    };
    Err(Failure::new(format!(
        "{}: it has {there}, and --drafter {named} was asked for; remove this folder, then run the same command again",
        dir.display()
    )))
}

fn is_same(named: &Source, dir: &Path) -> bool {
    match named {
        Source::Folder(named) => {
            named.canonicalize().is_ok_and(|named| dir.canonicalize().is_ok_and(|dir| dir == named))
        }
        _ => false,
    }
}

/// Removes a link to another drafter, with a word.
pub(super) fn clear(named: &Source, dir: &Path) -> Result<(), Failure> {
    if let There::Link(target) = There::of(dir) {
        fs::remove_file(dir).map_err(|error| Failure::about(dir.display(), &error))?;
        let (dir, target) = (dir.display(), target.display());
        terminal::say(&format!("drafter: {dir} was a link to {target}; {named} takes its place"));
    }
    Ok(())
}
