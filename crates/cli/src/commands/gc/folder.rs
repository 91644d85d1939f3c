//! What lies about in a model's folder. It and its packs stay locked while the look is kept.

use std::path::Path;

use deltafin_engine::Recipe;
use deltafin_fetch::{FetchError, Leftovers, Use};
use deltafin_setup::{ConvertError, PackLeftovers};
use deltafin_store::SpineNote;

use super::{Found, Kind};
use crate::drafter;
use crate::failure::Failure;
use crate::probe;
use crate::terminal;

/// What was found, and the locks.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) found: Vec<Found>,
    /// Bytes of layers' files that experts which come fill.
    pub(super) free_slots: u64,
    _folders: Vec<Leftovers>,
    _packs: Vec<PackLeftovers>,
}

/// Looks into a folder. What somebody is at work on is left alone, with a word.
pub(super) fn look(dir: &Path) -> Result<Look, Failure> {
    let mut look = Look::default();
    left_by_setup(dir, &mut look)?;
    let beside = dir.join(drafter::FOLDER);
    // What is used where it is, by a link, is somebody else's.
    if beside.is_dir() && !beside.is_symlink() {
        left_by_setup(&beside, &mut look)?;
    }
    let chosen = SpineNote::read_if_any(dir)?.map(|note| note.recipe);
    for recipe in Recipe::ALL {
        let pack = deltafin_store::pack_dir(dir, recipe);
        if pack.is_dir() {
            let is_unused = recipe == Recipe::Int8 && chosen == Some(Recipe::Bf16);
            packs(&pack, is_unused && !pack.is_symlink(), &mut look)?;
        }
    }
    let probes = probe::left(dir).into_iter();
    look.found.extend(probes.map(|path| Found::new(Kind::Orphaned, path)));
    Ok(look)
}

fn left_by_setup(dir: &Path, look: &mut Look) -> Result<(), Failure> {
    match Leftovers::of(dir) {
        Ok(left) => {
            look.found.extend(left.found().iter().map(|left| {
                let kind =
                    if left.usefulness == Use::GoesOn { Kind::Partial } else { Kind::Orphaned };
                Found::left(kind, left)
            }));
            look.free_slots += left.free_slots();
            look._folders.push(left);
            Ok(())
        }
        Err(busy @ (FetchError::Busy { .. } | FetchError::InUse { .. })) => {
            terminal::say(&format!("left alone: {busy}"));
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn packs(pack: &Path, is_unused: bool, look: &mut Look) -> Result<(), Failure> {
    match PackLeftovers::of(pack) {
        Ok(left) if is_unused && !left.goes_on() => {
            look.found.push(Found::pack(pack.to_owned()));
            look._packs.push(left);
            Ok(())
        }
        Ok(left) => {
            let kind = if left.goes_on() { Kind::Partial } else { Kind::Orphaned };
            look.found.extend(left.paths().iter().map(|path| Found::new(kind, path.clone())));
            look._packs.push(left);
            Ok(())
        }
        Err(busy @ ConvertError::Busy { .. }) => {
            terminal::say(&format!("left alone: {busy}"));
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
