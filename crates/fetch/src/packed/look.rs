//! Whether the pack that setup made still is what it was.

use std::fs;
use std::path::{Path, PathBuf};

use deltafin_checkpoint::Recipe;
use deltafin_checkpoint::pack::{MANIFEST, Manifest, PackFile};
use deltafin_store::{SpineNote, SpinePack, pack_dir};

use crate::verify::Damage;

/// The files of the pack of a folder, in the order of its list.
#[derive(Debug)]
pub(crate) struct Pack {
    recipe: Recipe,
    dir: PathBuf,
    manifest: Option<Manifest>,
}

impl Pack {
    /// The pack that setup made in a folder, if it made one.
    pub(crate) fn of(dir: &Path) -> Option<Pack> {
        let note = SpineNote::read(dir).ok().filter(|note| note.recipe != Recipe::Bf16)?;
        let pack = pack_dir(dir, note.recipe);
        let manifest = fs::read(pack.join(MANIFEST)).ok();
        let manifest = manifest.and_then(|bytes| Manifest::parse(&bytes).ok());
        Some(Pack { recipe: note.recipe, dir: pack, manifest })
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
        let Some(manifest) = &self.manifest else {
            let of = format!("the list of the {} spine", self.recipe);
            let file = self.name(MANIFEST);
            return vec![Damage { file, offset: 0, bytes: 0, of }];
        };
        let wrong = |file: &&PackFile| {
            let found = fs::metadata(self.dir.join(file.part.file_name()));
            !found.is_ok_and(|meta| meta.is_file() && meta.len() == file.bytes)
        };
        manifest.files.iter().filter(wrong).map(|file| self.damage(file, 0, file.bytes)).collect()
    }

    /// What a file's digests find, of one that has its length.
    pub(crate) fn deep(&self, number: usize) -> Vec<Damage> {
        let Some(manifest) = &self.manifest else { return Vec::new() };
        let file = &manifest.files[number];
        let alone = Manifest { files: vec![file.clone()], ..manifest.clone() };
        match SpinePack::of(alone, &self.dir, 0).and_then(|pack| pack.damage(0)) {
            Ok(found) => found.iter().map(|d| self.damage(file, d.offset, d.len)).collect(),
            Err(_) => vec![self.damage(file, 0, file.bytes)],
        }
    }

    fn damage(&self, file: &PackFile, offset: u64, bytes: u64) -> Damage {
        let of = format!("{}, {} spine", file.part, self.recipe);
        Damage { file: self.name(&file.part.file_name()), offset, bytes, of }
    }

    fn name(&self, file: &str) -> String {
        format!("spine-{}/{file}", self.recipe)
    }

    /// Removes the files that are damaged, so that they are made again.
    pub(crate) fn give_up(&self, damage: &[Damage]) -> std::io::Result<()> {
        for damage in damage.iter().filter(|damage| damage.file.contains('/')) {
            let name = damage.file.rsplit('/').next().unwrap_or_default();
            match fs::remove_file(self.dir.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
