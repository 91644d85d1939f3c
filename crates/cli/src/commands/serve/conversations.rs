//! Where conversations outlast a server.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use deltafin_engine::{Engine, FolderOptions, Writes};

use crate::args::SnapshotDisk;
use crate::failure::Failure;
use crate::terminal;
use crate::user_folder::user_folder;

/// How long the end of a server waits for what is still being written.
const LAST_WRITES: Duration = Duration::from_secs(30);

/// Has the engine keep snapshots on a drive, where they are wanted and nothing speaks against it.
pub(super) fn keep(
    engine: &Engine,
    disk: &SnapshotDisk,
    weights_in: Option<&Path>,
) -> Result<(), Failure> {
    if disk.bytes == 0 || (engine.snapshot_memory() == 0 && disk.folder.is_none()) {
        return Ok(());
    }
    if engine.snapshot_memory() == 0 {
        terminal::say("--snapshot-dir keeps nothing: there is no memory for snapshots");
        return Ok(());
    }
    let Some(path) = disk.folder.clone().or_else(default_folder) else { return Ok(()) };
    let streams = engine.weights_in() != "memory";
    if disk.folder.is_none() && streams && weights_in.is_some_and(|w| same_drive(w, &path)) {
        terminal::say(
            "conversations will not outlast the server: the cache folder is on the drive that \
             weights are read from; --snapshot-dir keeps them there or elsewhere all the same",
        );
        return Ok(());
    }
    if disk.folder.is_some() {
        make(&path)?;
    }
    let folder = FolderOptions { path, bytes: disk.bytes };
    Ok(engine.keep_snapshots_in(folder, terminal::say)?)
}

/// Waits for what is still being written.
pub(super) fn finish(writes: Option<&Writes>) {
    if writes.is_some_and(|writes| !writes.finish_within(LAST_WRITES)) {
        let seconds = LAST_WRITES.as_secs();
        terminal::say(&format!(
            "the last conversation was not written whole within {seconds} s and is lost"
        ));
    }
}

/// Makes a folder that was asked for. That nothing can be kept there would else be found out when a
/// conversation should be. Nobody else has business in it.
fn make(folder: &Path) -> Result<(), Failure> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|e| {
        Failure::new(format!(
            "--snapshot-dir {}: {e}; give a folder that can be made and written",
            folder.display()
        ))
    })
}

/// One per user.
fn default_folder() -> Option<PathBuf> {
    let cache = user_folder("XDG_CACHE_HOME", ".cache");
    cache.map(|path| path.join("deltafin").join("snapshots"))
}

/// Whether what will be written to `folder` goes where `weights` are; the folder need not be there yet.
fn same_drive(weights: &Path, folder: &Path) -> bool {
    let drive = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let there = folder.ancestors().find_map(drive);
    there.is_some() && there == drive(weights)
}
