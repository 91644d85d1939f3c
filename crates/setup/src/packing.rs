//! A pack that grows while its source arrives: part by part, in whatever order that comes.
//!
//! What [`convert`](crate::convert) makes of a checkpoint that is here, this makes of one that is on its way, byte
//! for byte. The checkpoint's identity is known only when all of it has been here; until then the list of
//! finished files carries one that whoever fetches makes up, the same from run to run.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use deltafin_checkpoint::pack::{Manifest, PackFile, PackPart};
use deltafin_checkpoint::{Catalog, Identity, Recipe, Span};
use deltafin_store::{Checkpoint, SpinePack};

use crate::ConvertError;
use crate::convert::{Stopped, make, planned_bytes};
use crate::disk::FileSystem;
use crate::stream;
use crate::target::Target;
use crate::writer::PartWriter;

static DISK: FileSystem = FileSystem;

/// The released bytes that a part is made from.
pub fn released_spans(catalog: &Catalog, part: PackPart) -> Vec<Span> {
    stream::spans(catalog, part).collect()
}

/// Bytes of a part's file, where every matrix can be quantised.
pub fn packed_bytes(catalog: &Catalog, part: PackPart, recipe: Recipe) -> u64 {
    planned_bytes(catalog, part, recipe)
}

/// A pack in the making, which this process alone writes to.
pub struct Packing {
    checkpoint: Checkpoint,
    target: Target<'static, FileSystem>,
    /// The finished files, in the order of parts.
    manifest: Manifest,
    /// What the list carries while the identity is not known.
    provisional: Identity,
    parts: usize,
    /// Whether the folder says that it is a pack.
    is_pack: bool,
}

impl Packing {
    /// Opens the folder of a pack, makes it if need be, and keeps of it the files that are what they were,
    /// byte for byte. What is there is this checkpoint's if it carries the provisional identity, or if
    /// `is_ours` says so of the one it carries.
    ///
    /// # Errors
    /// Where the folder holds something else, is in use, or cannot be written to.
    pub fn open(
        checkpoint: Checkpoint,
        recipe: Recipe,
        out: &Path,
        provisional: Identity,
        is_ours: impl Fn(Identity) -> bool,
    ) -> Result<Packing, ConvertError> {
        let target = Target::open(&DISK, out)?;
        let done = target.done()?;
        if let Some(done) = &done {
            if done.source != provisional && !is_ours(done.source) {
                return Err(ConvertError::OtherSource { path: out.to_owned() });
            }
            if done.recipe != recipe {
                return Err(ConvertError::OtherRecipe { path: out.to_owned(), found: done.recipe });
            }
        }
        let all: Vec<PackPart> = PackPart::all(checkpoint.spec()).collect();
        let source = done.as_ref().map_or(provisional, |done| done.source);
        let noted = done.map(|done| done.files).unwrap_or_default();
        let fits = |file: &PackFile| stream::describes(&checkpoint.catalog, recipe, file);
        let proven =
            |file: &PackFile| all.contains(&file.part) && fits(file) && target.proves(file);
        let files: Vec<_> = noted.iter().filter(|file| proven(file)).cloned().collect();
        let is_pack = target.is_pack() && files.len() == all.len();
        let manifest = Manifest { source, recipe, files };
        let parts = all.len();
        let mut packing = Packing { checkpoint, target, manifest, provisional, parts, is_pack };
        if !is_pack {
            packing.begin(&all)?;
        }
        Ok(packing)
    }

    /// Takes back the claim to be a pack, and what a stopped conversion left.
    fn begin(&mut self, all: &[PackPart]) -> Result<(), ConvertError> {
        self.is_pack = false;
        self.manifest.source = self.provisional;
        let begun = self.target.reopen().and_then(|()| {
            all.iter().try_for_each(|&part| self.target.sweep(part))?;
            self.target.note(&self.manifest)
        });
        begun.map_err(|reason| self.failed(reason))
    }

    /// Whether a part's file is finished.
    pub fn has(&self, part: PackPart) -> bool {
        self.manifest.files.iter().any(|file| file.part == part)
    }

    /// Whether every part's file is.
    pub fn has_all(&self) -> bool {
        self.manifest.files.len() == self.parts
    }

    /// Makes a part's file from released bytes that are all here. `go_on` is asked now and then.
    pub fn make(&mut self, part: PackPart, go_on: &dyn Fn() -> bool) -> Result<(), ConvertError> {
        let out = self.target.create(part).map_err(|reason| self.failed(reason))?;
        let mut watch = |_| match go_on() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let (catalog, store) = (Arc::clone(&self.checkpoint.catalog), &*self.checkpoint.store);
        let (recipe, writer) = (self.manifest.recipe, PartWriter::new(part, out));
        let made = make(&catalog, store, recipe, part, writer, &mut watch);
        let (file, _) = made.map_err(|stopped| match stopped {
            Stopped::Read(source) => ConvertError::Read { part: part.to_string(), source },
            Stopped::Write(reason) => self.failed(reason),
            Stopped::Asked => {
                let (done, files) = (self.manifest.files.len(), self.parts);
                ConvertError::Interrupted { done, files }
            }
        })?;
        self.manifest.files.retain(|known| known.part != part);
        let at = self.manifest.files.partition_point(|known| known.part < part);
        self.manifest.files.insert(at, file);
        let kept = self.target.keep(part).and_then(|()| self.target.note(&self.manifest));
        kept.map_err(|reason| self.failed(reason))
    }

    /// Takes parts back whose source turned out to be another: they are to be made again.
    pub fn forget(&mut self, parts: &BTreeSet<PackPart>) -> Result<(), ConvertError> {
        if self.manifest.files.iter().any(|file| parts.contains(&file.part)) {
            self.manifest.files.retain(|file| !parts.contains(&file.part));
            self.begin(&[])?;
        }
        Ok(())
    }

    /// The checkpoint's identity, if what is there was known by it.
    pub fn known(&self) -> Option<Identity> {
        (self.manifest.source != self.provisional).then_some(self.manifest.source)
    }

    /// The checkpoint's identity, once all parts are there.
    pub fn identity(&self) -> Result<Identity, ConvertError> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let others = self.checkpoint.catalog.shards().len();
        let pack = SpinePack::of(self.manifest.clone(), self.target.dir(), others)?;
        self.checkpoint.identity_with(&pack).map_err(ConvertError::Identity)
    }

    /// Makes it a pack, of which all parts are there; gives the checkpoint's identity.
    pub fn finish(&mut self) -> Result<Identity, ConvertError> {
        if self.is_pack {
            return Ok(self.manifest.source);
        }
        let identity = self.identity()?;
        self.manifest.source = identity;
        // The reader's check, before the pack says that it is one.
        self.checkpoint.catalog.with_pack(&self.manifest)?;
        self.target.finish(&self.manifest).map_err(|reason| self.failed(reason))?;
        self.is_pack = true;
        Ok(identity)
    }

    fn failed(&self, reason: std::io::Error) -> ConvertError {
        let done = self.manifest.files.len();
        ConvertError::writing(self.target.dir(), reason, done, self.parts)
    }
}

impl std::fmt::Debug for Packing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packing").field("dir", &self.target.dir()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use deltafin_store::open_dir;

    use super::*;

    fn micro() -> Checkpoint {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures");
        open_dir(fixtures.join("k3-micro")).unwrap()
    }

    fn open(out: &Path) -> Result<Packing, ConvertError> {
        Packing::open(micro(), Recipe::Int8, out, Identity::from_bytes([7; 16]), |_| false)
    }

    fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
        let file = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
        };
        let mut all: Vec<_> = fs::read_dir(dir).unwrap().map(file).collect();
        all.sort();
        all
    }

    #[test]
    fn in_any_order_and_with_pauses_the_bytes_are_those_of_a_conversion() {
        let (wanted, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let go_on = &mut |_: crate::Progress| ControlFlow::Continue(());
        crate::convert(&micro(), Recipe::Int8, wanted.path(), go_on).unwrap();
        let mut parts: Vec<_> = PackPart::all(micro().spec()).collect();
        parts.rotate_left(4);
        parts.reverse();
        for (number, &part) in parts.iter().enumerate() {
            let mut packing = open(made.path()).unwrap();
            let has = |packing: &Packing| parts.iter().filter(|part| packing.has(**part)).count();
            assert_eq!((has(&packing), packing.has_all()), (number, false));
            assert!(packing.make(part, &|| false).is_err(), "stopped");
            packing.make(part, &|| true).unwrap();
        }
        assert!(!made.path().join("manifest.json").exists());
        let identity = open(made.path()).unwrap().finish().unwrap();
        assert_eq!(identity, micro().identity().unwrap());
        assert!(contents(made.path()) == contents(wanted.path()));
        // What is finished is known by its identity alone.
        assert!(matches!(open(made.path()), Err(ConvertError::OtherSource { .. })));
        let known = |found: Identity| found == identity;
        let recipe = Recipe::Int8;
        let again =
            Packing::open(micro(), recipe, made.path(), Identity::from_bytes([7; 16]), known);
        assert_eq!(again.unwrap().finish().unwrap(), identity);
    }

    #[test]
    fn what_is_taken_back_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut packing = open(dir.path()).unwrap();
        let parts: Vec<_> = PackPart::all(micro().spec()).collect();
        parts.iter().for_each(|part| packing.make(*part, &|| true).unwrap());
        packing.finish().unwrap();
        let before = contents(dir.path());
        packing.forget(&BTreeSet::from([parts[2]])).unwrap();
        assert!(!dir.path().join("manifest.json").exists(), "it is a pack no more");
        assert!(!packing.has(parts[2]) && packing.has(parts[3]));
        packing.make(parts[2], &|| true).unwrap();
        packing.finish().unwrap();
        assert!(contents(dir.path()) == before);
    }
}
