//! Whether the packs of a folder still are what they were: the one that setup made, and those of `convert`.

use std::fs;
use std::path::{Path, PathBuf};

use deltafin_checkpoint::Recipe;
use deltafin_checkpoint::pack::{MANIFEST, Manifest, PackError, PackFile};
use deltafin_setup::ConvertError;
use deltafin_store::{SpinePack, pack_dir};

use super::mend;
use crate::FetchError;
use crate::verify::Damage;

/// The files of a pack of a folder, in the order of its list.
#[derive(Debug)]
pub(crate) struct Pack {
    recipe: Recipe,
    dir: PathBuf,
    manifest: Result<Manifest, String>,
    /// The version of the format that the list is of, where that is another than this program's.
    other_version: Option<u64>,
    /// Whether setup made it, and makes it again.
    is_own: bool,
}

impl Pack {
    /// The packs of a folder: the one that setup made, also where its list is gone, and those that lie where commands
    /// look for them.
    pub(crate) fn all(dir: &Path) -> Vec<Pack> {
        let noted = mend::told(dir).ok().map(|note| note.recipe);
        let own = noted.filter(|recipe| *recipe != Recipe::Bf16);
        let pack = |recipe| Pack::of(dir, recipe, own == Some(recipe));
        Recipe::ALL.into_iter().filter_map(pack).collect()
    }

    fn of(dir: &Path, recipe: Recipe, is_own: bool) -> Option<Pack> {
        let dir = pack_dir(dir, recipe);
        let path = dir.join(MANIFEST);
        if !is_own && !path.exists() {
            // What a stopped conversion left is not a pack yet.
            return None;
        }
        let read = fs::read(&path).map_err(|error| error.to_string());
        let mut other_version = None;
        let manifest = read.and_then(|bytes| {
            Manifest::parse(&bytes).map_err(|error| {
                if let PackError::Version { found, .. } = error {
                    other_version = Some(found);
                }
                error.to_string()
            })
        });
        Some(Pack { recipe, dir, manifest, other_version, is_own })
    }

    /// Refuses one that another version of this program made: it is not to be made again by this one.
    pub(crate) fn check_version(&self) -> Result<(), FetchError> {
        match self.other_version {
            Some(found) => Err(ConvertError::OtherVersion { path: self.dir.clone(), found }.into()),
            None => Ok(()),
        }
    }

    /// How many files it has.
    pub(crate) fn files(&self) -> usize {
        self.manifest.as_ref().map_or(0, |manifest| manifest.files.len())
    }

    /// Bytes of a file, as they should be.
    pub(crate) fn bytes(&self, number: usize) -> u64 {
        self.manifest.as_ref().map_or(0, |manifest| manifest.files[number].bytes)
    }

    /// What a look at lengths finds.
    pub(crate) fn shallow(&self) -> Vec<Damage> {
        let manifest = match &self.manifest {
            Ok(manifest) => manifest,
            Err(why) => {
                let of = format!("the list of the {} spine ({why})", self.recipe);
                let (file, converted) = (self.name(MANIFEST), self.converted());
                return vec![Damage { file, offset: 0, bytes: 0, of, converted, cut_from: None }];
            }
        };
        let wrong = |file: &&PackFile| {
            let found = fs::metadata(self.dir.join(file.part.file_name()));
            !found.is_ok_and(|meta| meta.is_file() && meta.len() == file.bytes)
        };
        manifest.files.iter().filter(wrong).map(|file| self.damage(file, 0, file.bytes)).collect()
    }

    /// What a file's digests find, of one that has its length.
    pub(crate) fn deep(&self, number: usize) -> Vec<Damage> {
        let Ok(manifest) = &self.manifest else { return Vec::new() };
        let file = &manifest.files[number];
        let alone = Manifest { files: vec![file.clone()], ..manifest.clone() };
        match SpinePack::of(alone, &self.dir, 0).and_then(|pack| pack.damage(0)) {
            Ok(found) => found.iter().map(|d| self.damage(file, d.offset, d.len)).collect(),
            Err(_) => vec![self.damage(file, 0, file.bytes)],
        }
    }

    fn damage(&self, file: &PackFile, offset: u64, bytes: u64) -> Damage {
        let of = format!("{}, {} spine", file.part, self.recipe);
        let (file, converted) = (self.name(&file.part.file_name()), self.converted());
        Damage { file, offset, bytes, of, converted, cut_from: None }
    }

    fn converted(&self) -> Option<Recipe> {
        (!self.is_own).then_some(self.recipe)
    }

    fn name(&self, file: &str) -> String {
        format!("spine-{}/{file}", self.recipe)
    }

    /// Removes the files of setup's own that are damaged, so that they are made again.
    pub(crate) fn give_up(&self, damage: &[Damage]) -> std::io::Result<()> {
        let folder = self.name("");
        let names = damage.iter().filter_map(|damage| damage.file.strip_prefix(&folder));
        for name in names.filter(|_| self.is_own) {
            match fs::remove_file(self.dir.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
