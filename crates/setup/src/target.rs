//! The folder a pack is made in: who may write there, and what is already done.
//!
//! Every file is written under a name that ends in `.part` and gets its own when it is whole and on
//! the drive. `manifest.json.part` lists the files that are; `manifest.json`, which makes it a
//! pack, comes last. So whenever a conversion ends, by whatever means, the folder says what is done.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use deltafin_checkpoint::pack::{
    ChunkHasher, Digest, MANIFEST, Manifest, PackError, PackFile, PackPart,
};

use crate::ConvertError;
use crate::disk::{Disk, Output as _};

/// Ends the names of files in the making.
pub(crate) const PART: &str = ".part";
/// Holds the number of the process that converts, for others to tell.
pub(crate) const HOLDER: &str = "converting";
/// Bytes read at once to prove a file.
const PROOF_BYTES: usize = 1 << 20;

/// A folder that this process alone writes a pack into.
pub(crate) struct Target<'d, D> {
    disk: &'d D,
    dir: PathBuf,
    /// Holds the lock of the folder, which ends with this process however that ends.
    _lock: File,
}

impl<'d, D: Disk> Target<'d, D> {
    /// Makes the folder, if need be, and keeps others out.
    pub(crate) fn open(disk: &'d D, dir: &Path) -> Result<Target<'d, D>, ConvertError> {
        let create = |reason| ConvertError::Create { path: dir.to_owned(), reason };
        disk.create_dir(dir).map_err(create)?;
        let lock = lock(dir)?;
        // For the words of a refusal only: the lock is what counts.
        let _ = fs::write(dir.join(HOLDER), std::process::id().to_string());
        Ok(Target { disk, dir: dir.to_owned(), _lock: lock })
    }

    /// The folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where a part's file is, or will be.
    pub(crate) fn path(&self, part: PackPart) -> PathBuf {
        self.dir.join(part.file_name())
    }

    /// What the folder says is done. Nothing where it says nothing that can be read: then all is
    /// made again.
    ///
    /// # Errors
    /// When it says so in another version of the format: then nothing here is to be written over.
    pub(crate) fn done(&self) -> Result<Option<Manifest>, ConvertError> {
        let mut done = None;
        for name in [MANIFEST.to_owned(), partial(MANIFEST)] {
            let Ok(bytes) = fs::read(self.dir.join(name)) else { continue };
            match Manifest::parse(&bytes) {
                Err(PackError::Version { found, .. }) => {
                    return Err(ConvertError::OtherVersion { path: self.dir.clone(), found });
                }
                Err(_) => {}
                Ok(manifest) => done = done.or(Some(manifest)),
            }
        }
        Ok(done)
    }

    /// Whether the folder says that it is a pack.
    pub(crate) fn is_pack(&self) -> bool {
        self.dir.join(MANIFEST).exists()
    }

    /// Whether a file is there with every byte that was written, and has every digest that is noted.
    pub(crate) fn proves(&self, file: &PackFile) -> bool {
        let path = self.path(file.part);
        let whole = digests(&path).is_ok_and(|found| found == (file.bytes, file.digests.clone()));
        whole && has_small_tensors(&path, file).unwrap_or(false)
    }

    /// Whether the folder is a pack by another manifest.
    pub(crate) fn is_noted_otherwise(&self, manifest: &Manifest) -> bool {
        fs::read(self.dir.join(MANIFEST)).is_ok_and(|bytes| bytes != manifest.to_json())
    }

    /// Takes back the claim to be whole, before anything is changed; what is done stays noted.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        let manifest = self.dir.join(MANIFEST);
        if manifest.exists() {
            self.disk.rename(&manifest, &self.dir.join(partial(MANIFEST)))?;
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// Removes what a stopped conversion left of a part.
    pub(crate) fn sweep(&self, part: PackPart) -> io::Result<()> {
        let path = self.dir.join(partial(&part.file_name()));
        if path.exists() { self.disk.remove(&path) } else { Ok(()) }
    }

    /// A file for a part, under its preliminary name.
    pub(crate) fn create(&self, part: PackPart) -> io::Result<D::File> {
        self.disk.create(&self.dir.join(partial(&part.file_name())))
    }

    /// Gives a part's file, which is whole and on the drive, its name.
    pub(crate) fn keep(&self, part: PackPart) -> io::Result<()> {
        self.disk.rename(&self.dir.join(partial(&part.file_name())), &self.path(part))?;
        self.disk.sync_dir(&self.dir)
    }

    /// Notes what is done.
    pub(crate) fn note(&self, manifest: &Manifest) -> io::Result<()> {
        self.replace(&partial(MANIFEST), &manifest.to_json())
    }

    /// Makes it a pack, if it is none yet or by another manifest, and removes what only a conversion needs.
    pub(crate) fn finish(&self, manifest: &Manifest) -> io::Result<()> {
        if !self.dir.join(MANIFEST).exists() || self.is_noted_otherwise(manifest) {
            self.replace(MANIFEST, &manifest.to_json())?;
        }
        let notes = self.dir.join(partial(MANIFEST));
        if notes.exists() {
            self.disk.remove(&notes)?;
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.dir.join(format!("{MANIFEST}.new{PART}"));
        let mut file = self.disk.create(&new)?;
        file.write(bytes)?;
        file.sync()?;
        drop(file);
        self.disk.rename(&new, &self.dir.join(name))?;
        self.disk.sync_dir(&self.dir)
    }
}

impl<D> Drop for Target<'_, D> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.dir.join(HOLDER));
    }
}

/// Locks a folder that is there, until what it gives is dropped.
pub(crate) fn lock(dir: &Path) -> Result<File, ConvertError> {
    let path = || dir.to_owned();
    let lock = File::open(dir).map_err(|reason| ConvertError::Create { path: path(), reason })?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            Err(ConvertError::Busy { path: path(), holder: holder(dir) })
        }
        Err(TryLockError::Error(reason)) => Err(ConvertError::Lock { path: path(), reason }),
    }
}

fn partial(name: &str) -> String {
    format!("{name}{PART}")
}

/// Who converts into a folder, as far as it says.
fn holder(dir: &Path) -> Option<u32> {
    fs::read_to_string(dir.join(HOLDER)).ok()?.trim().parse().ok()
}

/// Whether the tensors that have a digest of their own are where the file's description puts them.
fn has_small_tensors(path: &Path, file: &PackFile) -> io::Result<bool> {
    let (opened, mut bytes) = (File::open(path)?, Vec::new());
    for tensor in &file.tensors {
        let Some(digest) = tensor.digest else { continue };
        bytes.resize(tensor.place.len as usize, 0);
        opened.read_exact_at(&mut bytes, tensor.place.offset)?;
        if Digest::of(&bytes) != digest {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The length of a file and the digests of its chunks.
fn digests(path: &Path) -> io::Result<(u64, Vec<Digest>)> {
    let mut file = File::open(path)?;
    let (mut hasher, mut buf, mut bytes) = (ChunkHasher::default(), vec![0; PROOF_BYTES], 0);
    loop {
        match file.read(&mut buf) {
            Ok(0) => return Ok((bytes, hasher.finish())),
            Ok(got) => {
                hasher.update(&buf[..got]);
                bytes += got as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
