//! What a manifest that is there already says is done, and how far it is believed.
//!
//! **Promise.** A manifest is a claim, and every word of it may be damaged. A file is believed done when the
//! claim describes exactly the tensors that a conversion would put there, and the bytes on the drive have
//! every digest that it gives. Where the claim is that the folder is somebody else's, it is held against what is in the
//! files before anybody is sent away.

use deltafin_checkpoint::pack::{Manifest, PackFile, PackPart};
use deltafin_checkpoint::{Identity, Recipe};
use deltafin_spec::Dtype;
use deltafin_store::Checkpoint;
use std::io;
use std::ops::ControlFlow;

use crate::ConvertError;
use crate::convert::make;
use crate::disk::{Disk, Output};
use crate::stream;
use crate::target::Target;
use crate::writer::PartWriter;

/// The files of a folder that may be done already: those whose description fits. Their bytes are not
/// looked at.
///
/// # Errors
/// When the folder holds the spine of another checkpoint, of this one in another recipe, or of another version.
pub(crate) fn files<D: Disk>(
    checkpoint: &Checkpoint,
    recipe: Recipe,
    source: Identity,
    target: &Target<'_, D>,
) -> Result<Vec<PackFile>, ConvertError> {
    let Some(noted) = target.done()? else { return Ok(Vec::new()) };
    let (path, found) = (|| target.dir().to_owned(), recipe_of(&noted));
    // A matrix that cannot be quantised is as released in either recipe; one that was, is in one only.
    if found != recipe && (found == Recipe::Int8 || noted.recipe != recipe) {
        return Err(ConvertError::OtherRecipe { path: path(), found });
    }
    if noted.source != source {
        return match is_of(checkpoint, recipe, &noted) {
            true => Ok(Vec::new()),
            false => Err(ConvertError::OtherSource { path: path() }),
        };
    }
    let parts: Vec<PackPart> = PackPart::all(checkpoint.spec()).collect();
    let fits = |file: &PackFile| {
        parts.contains(&file.part) && stream::describes(&checkpoint.catalog, recipe, file)
    };
    Ok(noted.files.into_iter().filter(fits).collect())
}

/// The recipe that the files have, whatever the manifest calls it.
fn recipe_of(noted: &Manifest) -> Recipe {
    let mut tensors = noted.files.iter().flat_map(|file| &file.tensors);
    match tensors.next() {
        None => noted.recipe,
        Some(first) if first.dtype == Dtype::I8 => Recipe::Int8,
        Some(_) if tensors.any(|tensor| tensor.dtype == Dtype::I8) => Recipe::Int8,
        Some(_) => Recipe::Bf16,
    }
}

/// Whether the smallest file that is noted is the one that this checkpoint gives.
fn is_of(checkpoint: &Checkpoint, recipe: Recipe, noted: &Manifest) -> bool {
    let parts: Vec<PackPart> = PackPart::all(checkpoint.spec()).collect();
    let known = noted.files.iter().filter(|file| parts.contains(&file.part));
    let Some(file) = known.min_by_key(|file| file.bytes) else { return false };
    let (catalog, store) = (&*checkpoint.catalog, &*checkpoint.store);
    let writer = PartWriter::new(file.part, Nowhere);
    let made = make(catalog, store, recipe, file.part, writer, &mut |_| ControlFlow::Continue(()));
    made.is_ok_and(|(made, Nowhere)| made == *file)
}

/// For who wants to know what would be written.
struct Nowhere;

impl Output for Nowhere {
    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn rewind(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
