//! From a released checkpoint to a pack.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use deltafin_checkpoint::pack::{Manifest, PackFile, PackLayout, PackPart};
use deltafin_checkpoint::{Catalog, Recipe};
use deltafin_spec::{Dtype, TensorId};
use deltafin_store::{Checkpoint, SpinePack, Store};

use crate::ConvertError;
use crate::disk::{Disk, FileSystem, Output};
use crate::noted;
use crate::stream::{self, BLOCKS_WAITING, Piece, Stop};
use crate::target::Target;
use crate::writer::PartWriter;

/// How far a conversion has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The part that is being made, or proven.
    pub part: PackPart,
    /// Parts that are done.
    pub parts_done: usize,
    /// Parts in all.
    pub parts: usize,
    /// Bytes of the released spine that are done.
    pub bytes_done: u64,
    /// Bytes of the released spine in all.
    pub bytes: u64,
}

/// A pack that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The folder.
    pub path: PathBuf,
    /// The recipe.
    pub recipe: Recipe,
    /// Files of the pack, the manifest apart.
    pub files: usize,
    /// Files that were found done and proven.
    pub found: usize,
    /// Whether a manifest was there that was not the pack's, and is now.
    pub manifest_mended: bool,
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes of the released spine that were read for the files that were made.
    pub source_bytes: u64,
    /// Matrices that are as released although the recipe would quantise them: a row's scale does
    /// not fit into half precision.
    pub kept: Vec<String>,
}

/// Makes the pack of a released checkpoint in `out`, or goes on with it. `watch` is told the
/// progress, and stops the work with `Break`.
pub fn convert(
    checkpoint: &Checkpoint,
    recipe: Recipe,
    out: &Path,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Converted, ConvertError> {
    convert_on(&FileSystem, checkpoint, recipe, out, watch)
}

/// As [`convert`], on any drive.
fn convert_on<D: Disk>(
    disk: &D,
    checkpoint: &Checkpoint,
    recipe: Recipe,
    out: &Path,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Converted, ConvertError> {
    checkpoint.check_released()?;
    let source = checkpoint.identity().map_err(ConvertError::Identity)?;
    let target = Target::open(disk, out)?;
    let noted = noted::files(checkpoint, recipe, source, &target)?;
    let parts: Vec<PackPart> = PackPart::all(checkpoint.spec()).collect();
    let bytes = parts.iter().map(|&part| stream::source_bytes(&checkpoint.catalog, part)).sum();
    let manifest = Manifest { source, recipe, files: Vec::new() };
    let mut work = Work { checkpoint, target, parts, manifest, watch, bytes_done: 0, bytes };
    work.run(disk, noted)
}

/// Makes the pack in memory, for checkpoints that are small and lie nowhere.
pub fn pack_in_memory(checkpoint: &Checkpoint, recipe: Recipe) -> Result<SpinePack, ConvertError> {
    checkpoint.check_released()?;
    let source = checkpoint.identity().map_err(ConvertError::Identity)?;
    let (mut files, mut contents) = (Vec::new(), Vec::new());
    for part in PackPart::all(checkpoint.spec()) {
        let writer = PartWriter::new(part, Vec::new());
        let (catalog, store) = (&*checkpoint.catalog, &*checkpoint.store);
        let made = make(catalog, store, recipe, part, writer, &mut |_| ControlFlow::Continue(()));
        let (file, bytes) = made.map_err(|stopped| match stopped {
            Stopped::Read(source) => ConvertError::Read { part: part.to_string(), source },
            Stopped::Write(reason) => ConvertError::Write { path: "memory".into(), reason },
            Stopped::Asked => ConvertError::Interrupted { done: 0, files: 0 },
        })?;
        files.push(file);
        contents.push(bytes);
    }
    Ok(SpinePack::in_memory(Manifest { source, recipe, files }, contents)?)
}

/// A conversion under way.
struct Work<'a, D> {
    checkpoint: &'a Checkpoint,
    target: Target<'a, D>,
    parts: Vec<PackPart>,
    /// What is done.
    manifest: Manifest,
    watch: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    bytes_done: u64,
    bytes: u64,
}

impl<D: Disk> Work<'_, D> {
    fn run(&mut self, disk: &D, noted: Vec<PackFile>) -> Result<Converted, ConvertError> {
        let proven = self.prove(noted)?;
        let found = proven.len();
        let (mut source_bytes, mut manifest_mended) = (0, false);
        if found < self.parts.len() {
            self.target.reopen().map_err(|reason| self.failed(reason))?;
            for part in self.parts.clone() {
                self.target.sweep(part).map_err(|reason| self.failed(reason))?;
            }
            self.check_room(disk, &proven)?;
            source_bytes = self.make_missing(proven)?;
        } else {
            self.manifest.files = proven;
            manifest_mended = self.target.is_noted_otherwise(&self.manifest);
            self.finish()?;
        }
        Ok(Converted {
            path: self.target.dir().to_owned(),
            recipe: self.manifest.recipe,
            files: self.manifest.files.len(),
            found,
            manifest_mended,
            bytes: self.manifest.bytes(),
            source_bytes,
            kept: self.kept(),
        })
    }

    /// The noted files that are there, byte for byte.
    fn prove(&mut self, noted: Vec<PackFile>) -> Result<Vec<PackFile>, ConvertError> {
        let mut proven = Vec::with_capacity(noted.len());
        for file in noted {
            self.tell(file.part, proven.len(), 0)?;
            if self.target.proves(&file) {
                self.bytes_done += stream::source_bytes(&self.checkpoint.catalog, file.part);
                proven.push(file);
            }
        }
        Ok(proven)
    }

    fn make_missing(&mut self, proven: Vec<PackFile>) -> Result<u64, ConvertError> {
        let (mut proven, mut made) = (proven.into_iter().peekable(), 0);
        for part in self.parts.clone() {
            let file = match proven.next_if(|file| file.part == part) {
                Some(file) => file,
                None => {
                    let bytes = stream::source_bytes(&self.checkpoint.catalog, part);
                    let file = self.make(part)?;
                    (self.bytes_done, made) = (self.bytes_done + bytes, made + bytes);
                    self.keep(&file, proven.clone())?;
                    file
                }
            };
            self.manifest.files.push(file);
        }
        self.finish()?;
        Ok(made)
    }

    /// Gives a file that was made its name and notes it, with those that were found and come later.
    fn keep(
        &self,
        file: &PackFile,
        later: impl Iterator<Item = PackFile>,
    ) -> Result<(), ConvertError> {
        self.target.keep(file.part).map_err(|reason| self.failed(reason))?;
        let mut noted = self.manifest.clone();
        noted.files.extend([file.clone()].into_iter().chain(later));
        self.target.note(&noted).map_err(|reason| self.failed(reason))
    }

    fn finish(&self) -> Result<(), ConvertError> {
        // The reader's check, before the pack says that it is one.
        self.checkpoint.catalog.with_pack(&self.manifest)?;
        self.target.finish(&self.manifest).map_err(|reason| self.failed(reason))
    }

    fn make(&mut self, part: PackPart) -> Result<PackFile, ConvertError> {
        let out = self.target.create(part).map_err(|reason| self.failed(reason))?;
        let writer = PartWriter::new(part, out);
        let (checkpoint, recipe) = (self.checkpoint, self.manifest.recipe);
        let (done, total) = (self.bytes_done, self.bytes);
        let (parts_done, parts) = (self.manifest.files.len(), self.parts.len());
        let watch = &mut *self.watch;
        let mut read = 0;
        let mut watch = |bytes| {
            read += bytes;
            watch(Progress { part, parts_done, parts, bytes_done: done + read, bytes: total })
        };
        let (catalog, store) = (&*checkpoint.catalog, &*checkpoint.store);
        let made = make(catalog, store, recipe, part, writer, &mut watch);
        made.map(|(file, _)| file).map_err(|stopped| match stopped {
            Stopped::Read(source) => ConvertError::Read { part: part.to_string(), source },
            Stopped::Write(reason) => self.failed(reason),
            Stopped::Asked => ConvertError::Interrupted { done: parts_done, files: parts },
        })
    }

    fn check_room(&self, disk: &D, proven: &[PackFile]) -> Result<(), ConvertError> {
        let is_missing = |part: &&PackPart| proven.iter().all(|file| file.part != **part);
        let missing = self.parts.iter().filter(is_missing);
        let (catalog, recipe) = (&self.checkpoint.catalog, self.manifest.recipe);
        let needed = missing.map(|&part| planned_bytes(catalog, part, recipe)).sum();
        // A drive that does not say how much room it has is tried.
        let free = disk.free_bytes(self.target.dir()).unwrap_or(u64::MAX);
        if needed > free {
            let path = self.target.dir().to_owned();
            return Err(ConvertError::Room { path, needed, free });
        }
        Ok(())
    }

    fn tell(&mut self, part: PackPart, parts_done: usize, read: u64) -> Result<(), ConvertError> {
        let (parts, bytes_done) = (self.parts.len(), self.bytes_done + read);
        let bytes = self.bytes;
        match (self.watch)(Progress { part, parts_done, parts, bytes_done, bytes }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                Err(ConvertError::Interrupted { done: parts_done, files: parts })
            }
        }
    }

    fn failed(&self, reason: io::Error) -> ConvertError {
        let (done, files) = (self.manifest.files.len(), self.parts.len());
        ConvertError::writing(self.target.dir(), reason, done, files)
    }

    fn kept(&self) -> Vec<String> {
        let spec = self.checkpoint.spec();
        let quantizes = |name: &str| {
            TensorId::parse(name, spec).is_some_and(|id| self.manifest.recipe.quantizes(id))
        };
        let tensors = self.manifest.files.iter().flat_map(|file| &file.tensors);
        tensors
            .filter(|tensor| tensor.dtype != Dtype::I8 && quantizes(&tensor.name))
            .map(|tensor| tensor.name.clone())
            .collect()
    }
}

/// The length of a part's file when every matrix can be quantised.
pub(crate) fn planned_bytes(catalog: &Catalog, part: PackPart, recipe: Recipe) -> u64 {
    let mut layout = PackLayout::default();
    for (dtype, shape) in stream::planned(catalog, part, recipe) {
        let _ = layout.place(shape.bytes(dtype).unwrap_or(0));
        if dtype == Dtype::I8 {
            let _ = layout.place(shape.rows() * Dtype::F16.size_bytes());
        }
    }
    layout.file_bytes().unwrap_or(u64::MAX)
}

/// Why a part is not made.
pub(crate) enum Stopped {
    Read(deltafin_store::StoreError),
    Write(io::Error),
    Asked,
}

/// Makes one part: a thread reads and quantises, this one hashes and writes. `watch` is told how
/// many bytes of source each step took.
pub(crate) fn make<O: Output>(
    catalog: &Catalog,
    store: &dyn Store,
    recipe: Recipe,
    part: PackPart,
    writer: PartWriter<O>,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(PackFile, O), Stopped> {
    thread::scope(|scope| {
        let (sender, pieces) = sync_channel(BLOCKS_WAITING);
        let reader = scope.spawn(move || stream::send(catalog, store, part, recipe, &sender));
        let written = write(writer, pieces, watch);
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match read {
            Err(Stop::Reader(error)) => Err(Stopped::Read(error)),
            Ok(()) | Err(Stop::Writer) => written?.finish().map_err(Stopped::Write),
        }
    })
}

fn write<O: Output>(
    mut writer: PartWriter<O>,
    pieces: Receiver<Piece>,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<PartWriter<O>, Stopped> {
    for piece in pieces {
        let mut read = 0;
        let written = match piece {
            Piece::Begin { id, dtype, shape } => writer.begin(id, dtype, shape),
            Piece::Elements { bytes, source_bytes } => {
                read = source_bytes;
                writer.elements(&bytes)
            }
            Piece::Scales(bytes) => writer.scales(&bytes),
            Piece::Again => writer.again(),
        };
        written.map_err(Stopped::Write)?;
        if watch(read).is_break() {
            return Err(Stopped::Asked);
        }
    }
    Ok(writer)
}

#[cfg(test)]
mod tests;
