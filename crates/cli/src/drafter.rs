//! What a drafter is: a folder with a configuration and weights of a kind that this program knows.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use deltafin_checkpoint::{Header, header_extent};
use deltafin_fetch::Glimpse;
use serde::Deserialize;

use crate::terminal::one_line;

/// Where it is beside a model, here and at a source.
pub(crate) const FOLDER: &str = "drafter";
/// Its files.
pub(crate) const FILES: [&str; 2] = ["config.json", "model.safetensors"];
/// What its configuration has to name.
const ARCHITECTURE: &str = "K3DSparkModel";
/// A tensor that every drafter of this architecture has: it takes in what the model thinks.
const TENSOR: &str = "context_norm.weight";
/// The published configuration has 1.2 KB.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

#[derive(Deserialize)]
struct Config {
    architectures: Vec<String>,
}

/// Says why these are not the files of a drafter: its configuration, and the header of its weights.
pub(crate) fn judge(config: Option<&Glimpse>, weights: Option<&Glimpse>) -> Result<(), String> {
    let gone = |name: &str| format!("there is no {name}");
    let config = config.ok_or_else(|| gone(FILES[0]))?;
    let weights = weights.ok_or_else(|| gone(FILES[1]))?;
    let parsed = serde_json::from_slice(&config.bytes);
    let Config { architectures } = parsed.map_err(|error| format!("{}: {error}", FILES[0]))?;
    if architectures.iter().all(|name| name != ARCHITECTURE) {
        let found = one_line(&architectures.join(", ")).into_owned();
        return Err(format!("its architecture is {found}, known is {ARCHITECTURE}"));
    }
    let header = Header::parse(&weights.bytes, weights.file_bytes);
    let header = header.map_err(|error| format!("{}: {error}", FILES[1]))?;
    match header.tensors.iter().any(|tensor| tensor.name == TENSOR) {
        true => Ok(()),
        false => Err(format!("{} has no tensor {TENSOR}", FILES[1])),
    }
}

/// Says why a folder has no drafter.
pub(crate) fn check(dir: &Path) -> Result<(), String> {
    let about = |why: String| format!("{}: {why}", dir.display());
    if let (Ok(target), false) = (fs::read_link(dir), dir.exists()) {
        return Err(about(format!("it is a link to {}, which is not there", target.display())));
    }
    let (config, weights) = (dir.join(FILES[0]), dir.join(FILES[1]));
    let read = || -> io::Result<_> { Ok((there(&config, whole)?, there(&weights, head)?)) };
    let (config, weights) = read().map_err(|error| about(error.to_string()))?;
    judge(config.as_ref(), weights.as_ref()).map_err(about)
}

/// What is read of a file; nothing where it is not there.
fn there(path: &Path, read: fn(&File, u64) -> io::Result<Vec<u8>>) -> io::Result<Option<Glimpse>> {
    let file_bytes = match fs::metadata(path) {
        Ok(meta) if meta.is_file() => meta.len(),
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let bytes = read(&File::open(path)?, file_bytes)?;
    Ok(Some(Glimpse { bytes, file_bytes }))
}

fn whole(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    match bytes > CONFIG_BYTES_MAX {
        true => Err(io::Error::other("its configuration is too long")),
        false => front(file, bytes),
    }
}

/// The header of a file with tensors, after its length. What has none is given as far as it goes.
fn head(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    let length = front(file, bytes.min(8))?;
    header_extent(&length, bytes).map_or(Ok(length), |extent| front(file, extent))
}

fn front(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    let mut front = vec![0; bytes as usize];
    file.read_exact_at(&mut front, 0).map(|()| front)
}
