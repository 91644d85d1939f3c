//! The packs beside a checkpoint: which there are, and whether they can be used with it.

use deltafin_checkpoint::Recipe;
use deltafin_store::{Checkpoint, SpineChoice, SpineError, SpinePack, pack_dir};
use serde::Serialize;

use crate::failure::chain;
use crate::stats::bytes;

/// A pack where commands look for one.
#[derive(Debug, Serialize)]
pub(super) struct Pack {
    /// The recipe that is looked for there.
    recipe: &'static str,
    path: String,
    /// Whether every command can use it with this checkpoint.
    usable: bool,
    /// Of all its files; nothing where it cannot be opened.
    bytes: Option<u64>,
    files: Option<usize>,
    /// Why it cannot be used; nothing where it can, or where it is only unfinished.
    #[serde(skip)]
    pub(super) problem: Option<String>,
}

/// Every pack beside a checkpoint, in the order of recipes.
pub(super) fn packs(checkpoint: &Checkpoint) -> Vec<Pack> {
    Recipe::ALL.into_iter().filter_map(|recipe| look(checkpoint, recipe)).collect()
}

fn look(checkpoint: &Checkpoint, recipe: Recipe) -> Option<Pack> {
    let dir = pack_dir(checkpoint.folder()?, recipe);
    let is_needed = checkpoint.freed() == Some(recipe);
    // A link that leads nowhere is there, too.
    dir.symlink_metadata().ok().or_else(|| is_needed.then(|| dir.parent()?.metadata().ok())?)?;
    let opened = SpinePack::open(&dir, checkpoint.store.shards().len());
    let manifest = opened.as_ref().ok().map(SpinePack::manifest);
    let (bytes, files) = (manifest.map(|m| m.bytes()), manifest.map(|m| m.files.len()));
    // What has nothing else of its spine lacks a pack that is not there, or not finished.
    let lack = || checkpoint.clone().with_spine(&SpineChoice::Recipe(recipe)).err();
    let fits = opened.and_then(|pack| match pack.manifest().recipe {
        found if found == recipe => checkpoint.clone().with_pack(pack),
        found => Err(SpineError::OtherRecipe { path: dir.clone(), wanted: recipe, found }),
    });
    let usable = fits.is_ok();
    // What a stopped conversion left is in nobody's way.
    let problem = match fits.err() {
        Some(_) if is_needed => lack(),
        problem => problem.filter(|error| !matches!(error, SpineError::NotAPack { .. })),
    };
    Some(Pack {
        recipe: recipe.name(),
        path: dir.display().to_string(),
        usable,
        bytes,
        files,
        problem: problem.map(|error| chain(&error)),
    })
}

impl Pack {
    /// In a few words.
    pub(super) fn words(&self) -> String {
        let Pack { recipe, bytes: size, files, problem, .. } = self;
        let size =
            size.zip(*files).map(|(size, files)| format!(", {} in {files} files", bytes(size)));
        let size = size.unwrap_or_default();
        match (self.usable, problem) {
            (true, _) => format!("{recipe}{size}, of these weights"),
            (false, None) => format!("{recipe}, unfinished: `deltafin convert` goes on with it"),
            (false, Some(_)) => format!("{recipe}{size}, of no use: see the problems"),
        }
    }
}
