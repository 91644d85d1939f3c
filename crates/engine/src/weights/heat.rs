//! What was learned about experts, from one run to the next: a small file per checkpoint.
//!
//! It alters which experts stay in memory, so time, and never a value. A file that is damaged, of
//! another version or of other weights means that nothing was learned yet; one that cannot be
//! written means the same for the next run.

use deltafin_checkpoint::Identity;
use deltafin_store::{Checkpoint, StoreError};
use deltafin_stream::{Stream, heat_counts};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Larger than the file of any model that can be opened.
const BYTES_MAX: u64 = 64 << 20;

/// What there was of earlier runs to go on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learned {
    /// No run has left anything.
    Nothing,
    /// How often experts were used.
    Something,
    /// This file, which is damaged, of another version or cannot be read: a run that ends well
    /// replaces it.
    Dropped(PathBuf),
}

/// Where a checkpoint's file is.
pub(super) struct HeatFile {
    path: PathBuf,
    identity: Identity,
}

impl HeatFile {
    /// The file of the checkpoint with this identity, in `folder`.
    pub(super) fn new(folder: &Path, identity: Identity) -> HeatFile {
        HeatFile { path: folder.join(format!("{identity}.heat")), identity }
    }

    /// Lets `stream` go on from the file, if there is one.
    pub(super) fn adopt(&self, stream: &Stream) -> Learned {
        if fs::metadata(&self.path).is_err() {
            return Learned::Nothing;
        }
        match self.read().is_some_and(|file| stream.adopt_heat(self.identity, &file)) {
            true => Learned::Something,
            false => Learned::Dropped(self.path.clone()),
        }
    }

    fn read(&self) -> Option<Vec<u8>> {
        let small = fs::metadata(&self.path).is_ok_and(|m| m.is_file() && m.len() <= BYTES_MAX);
        small.then(|| fs::read(&self.path).ok()).flatten()
    }

    /// Replaces the file, whole or not at all.
    pub(super) fn save(&self, stream: &Stream) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let unfinished = self.path.with_extension(format!("{}.partial", std::process::id()));
        let written = fs::write(&unfinished, stream.heat_file(self.identity))
            .and_then(|()| fs::rename(&unfinished, &self.path));
        if written.is_err() {
            // The first failure is the one to tell.
            let _ = fs::remove_file(&unfinished);
        }
        written
    }
}

/// How often earlier runs that remembered in `folder` chose each expert lately; nothing where none did.
///
/// # Errors
/// When the checkpoint cannot be read.
pub fn learned_in(folder: &Path, checkpoint: &Checkpoint) -> Result<Option<Vec<f32>>, StoreError> {
    let identity = checkpoint.identity()?;
    let (spec, file) = (checkpoint.spec(), HeatFile::new(folder, identity).read());
    let experts = spec.layers.len() * spec.moe.experts;
    Ok(file.and_then(|file| heat_counts(identity, &file, experts)))
}
