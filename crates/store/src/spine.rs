//! Which spine a checkpoint runs with: the released one, or that of a pack beside it.
//!
//! The choice is made from what was asked for and what is on disk, never from the memory at hand:
//! it changes bits. A pack that is there and cannot be used is refused by name; nothing else is
//! quietly taken in its place.

mod error;
mod note;
mod pack;
mod stacked;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltafin_checkpoint::Recipe;

use crate::Checkpoint;
use crate::local::not_found;
pub use error::{Remedy, SpineError};
pub use note::SpineNote;
pub use pack::{Damage, SpinePack};
use stacked::Stacked;

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpineChoice {
    /// The released spine if setup was told that, else the int8 spine if it is on disk, else the released one.
    #[default]
    Auto,
    /// This recipe.
    Recipe(Recipe),
    /// The pack in this folder, whatever its recipe.
    Pack(PathBuf),
}

/// Where a checkpoint's pack of a recipe is looked for: a folder, or a link to one.
pub fn pack_dir(checkpoint: &Path, recipe: Recipe) -> PathBuf {
    checkpoint.join(format!("spine-{recipe}"))
}

impl Checkpoint {
    /// This checkpoint with the spine that was asked for.
    pub fn with_spine(self, choice: &SpineChoice) -> Result<Checkpoint, SpineError> {
        match choice {
            SpineChoice::Auto if self.chosen == Some(Recipe::Bf16) => {
                self.with_spine(&SpineChoice::Recipe(Recipe::Bf16))
            }
            SpineChoice::Auto => match self.pack_on_disk(Recipe::Int8)? {
                Some(pack) => self.with_pack(pack),
                None => match self.freed {
                    Some(recipe) => Err(self.no_pack(recipe)),
                    None => self.with_spine(&SpineChoice::Recipe(Recipe::Bf16)),
                },
            },
            SpineChoice::Recipe(recipe) => match self.pack_on_disk(*recipe)? {
                Some(pack) => self.with_pack(pack),
                None if *recipe == Recipe::Bf16 => self.check_released().map(|()| self),
                None => Err(self.no_pack(*recipe)),
            },
            SpineChoice::Pack(dir) => {
                let pack = SpinePack::open(dir, self.store.shards().len())?;
                self.with_pack(pack)
            }
        }
    }

    /// The recipe that setup was told to look after, if it was told; without another word that is the one which runs.
    pub fn chosen(&self) -> Option<Recipe> {
        self.chosen
    }

    /// Where a pack should be that setup was told to look after, where it is gone and the released spine runs in its
    /// place, without another word.
    pub fn lost_pack(&self) -> Option<PathBuf> {
        let chosen = self.chosen.filter(|recipe| *recipe != Recipe::Bf16)?;
        let is_lost = self.packed.is_none() && self.freed.is_none();
        self.folder.as_deref().filter(|_| is_lost).map(|folder| pack_dir(folder, chosen))
    }

    /// The recipe whose pack holds what setup took out of the shards when it made it; nothing where
    /// the shards have the released spine.
    pub fn freed(&self) -> Option<Recipe> {
        self.freed
    }

    /// Refuses a checkpoint whose shards do not have the released spine.
    pub fn check_released(&self) -> Result<(), SpineError> {
        match (self.freed, &self.folder) {
            (Some(held), Some(folder)) => Err(SpineError::Freed { model: folder.clone(), held }),
            _ => Ok(()),
        }
    }

    /// This checkpoint with the spine and the head of a pack.
    pub fn with_pack(self, pack: SpinePack) -> Result<Checkpoint, SpineError> {
        let model = self.repaired(pack.manifest().recipe);
        self.with_pack_of(pack).map_err(|error| error.mended_by_repair(model))
    }

    fn with_pack_of(mut self, pack: SpinePack) -> Result<Checkpoint, SpineError> {
        let identity = match self.freed {
            Some(_) => self.identity_with(&pack)?,
            None => self.identity()?,
        };
        let manifest = pack.manifest();
        if manifest.source != identity {
            let (wanted, found) = (identity, manifest.source);
            let (path, remedy) = (pack.path().to_owned(), Remedy::Convert);
            return Err(SpineError::Source { path, wanted, found, remedy });
        }
        let catalog = self.catalog.with_pack(manifest);
        let catalog = catalog.map_err(|error| pack.refused(error))?;
        pack.check_small_tensors()?;
        self.catalog = Arc::new(catalog);
        self.recipe = manifest.recipe;
        self.packed = Some((pack.path().to_owned(), identity));
        self.store = Arc::new(Stacked::new(self.store, pack.into_store()));
        Ok(self)
    }

    /// The pack of a recipe at its usual place; nothing where its manifest is not. What a stopped
    /// conversion left is not a pack yet.
    fn pack_on_disk(&self, recipe: Recipe) -> Result<Option<SpinePack>, SpineError> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let dir = pack_dir(folder, recipe);
        if dir.is_symlink() && !dir.exists() {
            return Err(not_found(&dir).into());
        }
        let there = SpinePack::open_if_any(&dir, self.store.shards().len());
        let there = there.map_err(|error| error.mended_by_repair(self.repaired(recipe)))?;
        match there.map(|pack| (pack.manifest().recipe, pack)) {
            Some((found, _)) if found != recipe => {
                Err(SpineError::OtherRecipe { path: dir, wanted: recipe, found })
            }
            found => Ok(found.map(|(_, pack)| pack)),
        }
    }

    /// The folder, if it has of its spine the pack of this recipe alone.
    fn repaired(&self, recipe: Recipe) -> Option<PathBuf> {
        self.folder.clone().filter(|_| self.freed == Some(recipe))
    }

    fn no_pack(&self, recipe: Recipe) -> SpineError {
        match &self.folder {
            Some(folder) if self.freed == Some(recipe) => SpineError::PackGone {
                path: pack_dir(folder, recipe),
                recipe,
                model: folder.clone(),
            },
            Some(folder) => {
                SpineError::NoPack { path: pack_dir(folder, recipe), recipe, model: folder.clone() }
            }
            None => SpineError::NoFolder { source_name: self.source.clone(), recipe },
        }
    }
}
