//! A damaged note on a spine is told anew from the maps: they say which bytes were given back to the drive.

use std::fs;

use deltafin_checkpoint::Recipe;
use deltafin_store::SpineNote;

use crate::FetchError;
use crate::folder::Folder;
use crate::map::Map;

/// The note of a folder. One that is damaged is written anew where bytes were freed, for only the pack has these; else it
/// goes, as if nobody had said how the spine is to lie.
pub(crate) fn noted(folder: &Folder) -> Result<SpineNote, FetchError> {
    let dir = folder.dir();
    if SpineNote::is_damaged(dir) {
        let mended = match has_freed(folder)? {
            true => SpineNote { recipe: Recipe::Int8, is_freed: true, identity: None }.write(dir),
            false => fs::remove_file(SpineNote::path(dir)),
        };
        mended.map_err(|error| FetchError::disk(&SpineNote::path(dir), error))?;
    }
    Ok(SpineNote::read(dir)?)
}

/// Whether some shard has a hole where a pack has what was there.
fn has_freed(folder: &Folder) -> Result<bool, FetchError> {
    let files = folder.record()?.map(|record| record.listing.files).unwrap_or_default();
    for file in files {
        let map = folder.map(&file.name);
        let known = Map::read(&map, &file).map_err(|error| FetchError::disk(&map, error))?;
        if known.is_some_and(|known| known.holes().next().is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}
