//! A pack with its files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltafin_checkpoint::pack::{CHUNK_BYTES, Digest, MANIFEST, Manifest, PackError, PackFile};
use deltafin_checkpoint::{ShardId, Span};
use deltafin_spec::{Dtype, TensorId};

use super::{Remedy, SpineError};
use crate::folder::{DirFolder, Folder};
use crate::{LocalShards, MemoryShards, ShardBytes, Store};

/// The manifest of the released model has about 1 MB.
const MANIFEST_LIMIT: u64 = 64 << 20;
/// Descriptors that are left for the rest of the program.
const RESERVE: u64 = 64;
/// A pack is read file after file; with a few open at once it runs as well as with all.
const FEW_FILES: u64 = 8;

/// A pack whose manifest is sound and whose files are there with their lengths.
pub struct SpinePack {
    manifest: Manifest,
    store: Arc<dyn Store>,
    path: PathBuf,
}

/// A chunk whose bytes are not those that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where the chunk begins.
    pub offset: u64,
    /// Its length.
    pub len: u64,
}

impl SpinePack {
    /// Opens the pack in a folder, beside `others` files that are kept open.
    pub fn open(dir: &Path, others: usize) -> Result<SpinePack, SpineError> {
        let pack = SpinePack::open_if_any(dir, others)?;
        pack.ok_or_else(|| SpineError::NotAPack { path: dir.to_owned() })
    }

    /// As [`SpinePack::open`]; nothing where there is no manifest.
    pub(super) fn open_if_any(dir: &Path, others: usize) -> Result<Option<SpinePack>, SpineError> {
        let Some(bytes) = DirFolder(dir).read(MANIFEST, MANIFEST_LIMIT)? else {
            return Ok(None);
        };
        let manifest = Manifest::parse(&bytes).map_err(|error| refused(dir, error))?;
        SpinePack::of(manifest, dir, others).map(Some)
    }

    /// The pack of this manifest in a folder, beside `others` files that are kept open, whatever
    /// the folder says of itself.
    pub fn of(manifest: Manifest, dir: &Path, others: usize) -> Result<SpinePack, SpineError> {
        let names: Vec<String> = manifest.files.iter().map(|f| f.part.file_name()).collect();
        let gone = names.iter().map(|name| dir.join(name)).find(|p| !p.exists() && !p.is_symlink());
        if let Some(path) = gone {
            return Err(SpineError::FileGone { path, remedy: Remedy::Convert });
        }
        let open = LocalShards::open_bounded(dir, &names, open_files(names.len(), others))?;
        let pack = SpinePack { manifest, store: Arc::new(open), path: dir.to_owned() };
        pack.check_lengths()?;
        Ok(pack)
    }

    /// A pack whose files are in memory, in the manifest's order.
    pub fn in_memory(manifest: Manifest, files: Vec<Vec<u8>>) -> Result<SpinePack, SpineError> {
        let names = manifest.files.iter().map(|file| file.part.file_name());
        let shards = names.zip(files.into_iter().map(ShardBytes::from));
        let store = Arc::new(MemoryShards::new(shards));
        let pack = SpinePack { manifest, store, path: PathBuf::from("memory") };
        pack.check_lengths()?;
        Ok(pack)
    }

    /// What the pack holds.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The folder it is in, or `memory`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The front of a tensor that the pack holds as released, of at most this many bytes; nothing
    /// where it holds none such.
    pub(crate) fn released(&self, tensor: TensorId, most: u64) -> Option<Span> {
        let name = tensor.name();
        let files = self.manifest.files.iter().enumerate();
        let found = files.flat_map(|(number, file)| file.tensors.iter().map(move |t| (number, t)));
        let mut found = found.filter(|(_, t)| t.dtype != Dtype::I8 && t.name == name);
        let (number, tensor) = found.next()?;
        Span::new(ShardId::new(number as u32), tensor.place.offset, tensor.place.len.min(most))
    }

    /// The bytes of its files.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(super) fn into_store(self) -> Arc<dyn Store> {
        self.store
    }

    pub(super) fn refused(&self, error: PackError) -> SpineError {
        refused(&self.path, error)
    }

    fn check_lengths(&self) -> Result<(), SpineError> {
        let found = self.store.shards().iter().map(|shard| shard.len).chain(std::iter::repeat(0));
        match self.manifest.files.iter().zip(found).find(|(file, found)| file.bytes != *found) {
            Some((file, found)) => {
                let path = self.path.join(file.part.file_name());
                let (wanted, remedy) = (file.bytes, Remedy::Convert);
                Err(SpineError::Length { path, wanted, found, remedy })
            }
            None => Ok(()),
        }
    }

    /// Holds the tensors that have a digest of their own against it: norms and other vectors,
    /// whose damage would be in every number that follows.
    pub(super) fn check_small_tensors(&self) -> Result<(), SpineError> {
        let mut buf = Vec::new();
        for (number, file) in self.manifest.files.iter().enumerate() {
            for tensor in &file.tensors {
                let Some(digest) = tensor.digest else { continue };
                let (offset, len) = (tensor.place.offset, tensor.place.len);
                if self.digest(number, offset, len, &mut buf)? != digest {
                    let path = self.path.join(file.part.file_name());
                    return Err(SpineError::Damaged { path, offset, len, remedy: Remedy::Convert });
                }
            }
        }
        Ok(())
    }

    /// Reads a file of the pack whole and gives the chunks that are not as written.
    ///
    /// # Panics
    /// If the pack has no file with this number.
    pub fn damage(&self, number: usize) -> Result<Vec<Damage>, SpineError> {
        let file: &PackFile = &self.manifest.files[number];
        let (mut damage, mut buf, mut offset) = (Vec::new(), Vec::new(), 0);
        for digest in &file.digests {
            let len = CHUNK_BYTES.min(file.bytes - offset);
            if self.digest(number, offset, len, &mut buf)? != *digest {
                let path = self.path.join(file.part.file_name());
                damage.push(Damage { path, offset, len });
            }
            offset += len;
        }
        Ok(damage)
    }

    fn digest(
        &self,
        number: usize,
        offset: u64,
        len: u64,
        buf: &mut Vec<u8>,
    ) -> Result<Digest, SpineError> {
        buf.resize(len as usize, 0);
        let span = Span::new(ShardId::new(number as u32), offset, len);
        self.store.read_exact(span.expect("a parsed manifest's places do not overflow"), buf)?;
        Ok(Digest::of(buf))
    }
}

fn refused(dir: &Path, error: PackError) -> SpineError {
    let remedy = match error {
        PackError::Version { .. } => Remedy::Newer,
        _ => Remedy::Convert,
    };
    SpineError::Manifest { path: dir.to_owned(), error: Box::new(error), remedy }
}

/// How many of a pack's files may stay open beside `others`.
fn open_files(files: usize, others: usize) -> usize {
    let soft = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let room = soft.unwrap_or(u64::MAX).saturating_sub(others as u64 + RESERVE).max(FEW_FILES);
    (files as u64).min(room) as usize
}
