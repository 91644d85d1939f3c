//! A note on a spine that is damaged or lost is told anew from the maps: they say which bytes were given back to the drive.

use std::fs;
use std::path::Path;

use deltafin_checkpoint::Recipe;
use deltafin_store::SpineNote;

use crate::map::Map;
use crate::{FetchError, folder};

/// As long as the pack has not said what it is known by.
const FREED: SpineNote = SpineNote { recipe: Recipe::Int8, is_freed: true, identity: None };

/// Whether the note of a folder is not there, or no program has written it so.
fn is_lost(dir: &Path) -> bool {
    SpineNote::is_damaged(dir) || matches!(SpineNote::read_if_any(dir), Ok(None))
}

/// Whether the note of a folder is not there or damaged, and bytes were freed for which it is needed.
pub(crate) fn is_needed(dir: &Path) -> Result<bool, FetchError> {
    Ok(is_lost(dir) && has_freed(dir)?)
}

/// What is so of the spine of a folder, whether or not its note says so.
pub(crate) fn told(dir: &Path) -> Result<SpineNote, FetchError> {
    match is_needed(dir)? {
        true => Ok(FREED),
        false => Ok(SpineNote::read(dir)?),
    }
}

/// The note of a folder. One that is damaged or lost is written anew where bytes were freed, for only the pack has
/// these; else a damaged one goes, as if nobody had said how the spine is to lie.
pub(crate) fn noted(dir: &Path) -> Result<SpineNote, FetchError> {
    let mended = match is_needed(dir)? {
        true => FREED.write(dir),
        false if SpineNote::is_damaged(dir) => fs::remove_file(SpineNote::path(dir)),
        false => Ok(()),
    };
    mended.map_err(|error| FetchError::disk(&SpineNote::path(dir), error))?;
    Ok(SpineNote::read(dir)?)
}

/// Whether some shard has a hole where a pack has what was there.
fn has_freed(dir: &Path) -> Result<bool, FetchError> {
    let files = folder::record(dir)?.map(|record| record.listing.files).unwrap_or_default();
    for file in files {
        let map = folder::map_path(dir, &file.name);
        let known = Map::read(&map, &file).map_err(|error| FetchError::disk(&map, error))?;
        if known.is_some_and(|known| known.holes().next().is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}
