//! From a plan to files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use deltafin_checkpoint::write::{PlannedShard, PlannedTensor};
use deltafin_spec::TensorId;

use crate::draw::Draw;
use crate::fill::{Filler, PIECE_UNIT, Tables};
use crate::random::Words;
use crate::recipe::{Recipe, recipe};
use crate::{Plan, SynthError};

/// Bytes made and written at once.
const PIECE_BYTES: usize = 1 << 20;
const _: () = assert!(PIECE_BYTES.is_multiple_of(PIECE_UNIT));

/// Tensors outside the text model are read by nobody here; any numbers will do.
const UNREAD: Draw = Draw::Normal { mean: 0.0, deviation: 0.02 };

/// What stands where the weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Random numbers.
    Weights,
    /// Nothing: the files are sparse and take the room of their headers. Holes read as zeros.
    Holes,
}

/// How far the writing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Shards that are complete.
    pub shards_done: usize,
    /// Shards in all.
    pub shards: usize,
    /// Bytes written.
    pub bytes_done: u64,
    /// Bytes in all.
    pub bytes: u64,
}

/// How the writing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The checkpoint is complete.
    Complete,
    /// The caller stopped it. Nothing is left of it.
    Stopped,
}

impl Plan {
    /// Writes the checkpoint to a directory that is empty or not there. `progress` is asked after every
    /// piece; `Break` stops.
    pub fn write(
        &self,
        dir: &Path,
        content: Content,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Ended, SynthError> {
        let bytes = match content {
            Content::Weights => self.bytes(),
            Content::Holes => 0,
        };
        let is_new = prepare(dir)?;
        let at = Progress { shards_done: 0, shards: self.shards.len(), bytes_done: 0, bytes };
        let mut target = Target { dir, is_new, written: Vec::new(), progress, at };
        let ended = check_room(dir, bytes).and_then(|()| self.write_files(content, &mut target));
        match &ended {
            Ok(ControlFlow::Continue(())) => return Ok(Ended::Complete),
            Ok(ControlFlow::Break(())) | Err(_) => target.remove(),
        }
        ended.map(|_| Ended::Stopped)
    }

    fn write_files(
        &self,
        content: Content,
        target: &mut Target<'_>,
    ) -> Result<ControlFlow<()>, SynthError> {
        let tables = Tables::new();
        for shard in &self.shards {
            let flow = target.file(&shard.name, |target, file| match content {
                Content::Weights => self.weights(shard, &tables, target, file),
                Content::Holes => holes(shard, target, file),
            })?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        for (name, text) in self.side_files() {
            let flow = target
                .file(name, |_, file| file.write_all(text.as_bytes()).map(ControlFlow::Continue))?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn weights(
        &self,
        shard: &PlannedShard,
        tables: &Tables,
        target: &mut Target<'_>,
        file: &mut File,
    ) -> io::Result<ControlFlow<()>> {
        let mut piece = vec![0; PIECE_BYTES];
        let header = shard.header();
        file.write_all(&header)?;
        let mut flow = target.wrote(header.len());
        for tensor in &shard.tensors {
            let mut filler = self.filler(tensor, tables);
            let mut left = tensor.bytes();
            while left > 0 && flow.is_continue() {
                let len = left.min(PIECE_BYTES as u64) as usize;
                filler.fill(&mut piece[..len]);
                file.write_all(&piece[..len])?;
                left -= len as u64;
                flow = target.wrote(len);
            }
        }
        Ok(flow)
    }

    fn filler<'t>(&self, tensor: &PlannedTensor, tables: &'t Tables) -> Filler<'t> {
        let words = Words::new(self.seed, &tensor.name);
        let id = TensorId::parse(&tensor.name, &self.spec);
        let recipe = match id {
            Some(id) => recipe(id, &self.spec, &self.wiring),
            None => Recipe::even(tensor.shape.dims().iter().product(), UNREAD),
        };
        Filler::new(tables, &recipe, tensor.dtype, words)
    }
}

/// A header, and a length.
fn holes(
    shard: &PlannedShard,
    target: &mut Target<'_>,
    file: &mut File,
) -> io::Result<ControlFlow<()>> {
    let header = shard.header();
    file.write_all(&header)?;
    file.set_len(header.len() as u64 + shard.data_bytes())?;
    Ok((target.progress)(target.at))
}

/// The directory being filled, and what has to go when it is not to be.
struct Target<'a> {
    dir: &'a Path,
    is_new: bool,
    written: Vec<PathBuf>,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    at: Progress,
}

impl Target<'_> {
    /// Writes a file that gets its name when it is whole and on the drive.
    fn file(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut Self, &mut File) -> io::Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>, SynthError> {
        let part = self.dir.join(format!("{name}.part"));
        let about = |source| SynthError::Write { path: part.clone(), source };
        let mut file =
            OpenOptions::new().write(true).create_new(true).open(&part).map_err(about)?;
        self.written.push(part.clone());
        let flow = fill(self, &mut file).map_err(about)?;
        if flow.is_break() {
            return Ok(flow);
        }
        file.sync_all().map_err(about)?;
        let path = self.dir.join(name);
        fs::rename(&part, &path).map_err(about)?;
        self.written.pop();
        self.written.push(path);
        if name.ends_with(".safetensors") {
            self.at.shards_done += 1;
        }
        Ok(flow)
    }

    fn wrote(&mut self, bytes: usize) -> ControlFlow<()> {
        self.at.bytes_done += bytes as u64;
        (self.progress)(self.at)
    }

    /// Removes what was written. What cannot be removed stays: the fault that led here is the one to
    /// tell.
    fn remove(&self) {
        for path in &self.written {
            let _ = fs::remove_file(path);
        }
        if self.is_new {
            let _ = fs::remove_dir(self.dir);
        }
    }
}

/// Makes the directory, or sees that it is empty; says whether it was made.
fn prepare(dir: &Path) -> Result<bool, SynthError> {
    let about = |source| SynthError::Write { path: dir.to_owned(), source };
    match fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            None => Ok(false),
            Some(_) => Err(SynthError::NotEmpty(dir.to_owned())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(dir).map_err(about)?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(SynthError::NoFolder(dir.to_owned()))
        }
        Err(error) => Err(about(error)),
    }
}

/// Refuses what would fill the file system, before the first byte.
fn check_room(dir: &Path, needed: u64) -> Result<(), SynthError> {
    match free_bytes(dir) {
        Some(free) if free < needed => {
            Err(SynthError::NoRoom { dir: dir.to_owned(), needed, free })
        }
        _ => Ok(()),
    }
}

fn free_bytes(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check_room(dir.path(), 0).is_ok());
        let refused = check_room(dir.path(), u64::MAX).unwrap_err().to_string();
        assert!(refused.contains(&u64::MAX.to_string()) && refused.contains("free"), "{refused}");
    }
}
