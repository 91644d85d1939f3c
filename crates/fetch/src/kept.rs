//! What setup was told that counts later, when the model runs.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::FetchError;
use crate::folder::NOTES;

const FORMAT: &str = "deltafin settings";
const VERSION: u64 = 1;
/// More than any that this program writes.
const BYTES_MAX: u64 = 1 << 16;

/// What a folder was set up with. What is not there was not said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Seconds to go on asking a source that gives nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<u32>,
    /// The most bytes of the drive that experts take which came over the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_limit: Option<u64>,
    /// The first and the last of the layers that alone are to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<(u32, u32)>,
}

/// As it is written.
#[derive(Serialize, Deserialize)]
struct Written {
    format: String,
    version: u64,
    #[serde(flatten)]
    kept: Kept,
}

fn path(dir: &Path) -> PathBuf {
    dir.join(NOTES).join("settings.json")
}

impl Kept {
    /// What is kept in a folder; nothing where there is no such file.
    ///
    /// # Errors
    /// When the file is not one that this version understands.
    pub fn read(dir: &Path) -> Result<Kept, FetchError> {
        let path = path(dir);
        let wrong = |reason: String| FetchError::Record { path: path.clone(), reason };
        let bytes = match fs::metadata(&path) {
            Ok(meta) if meta.len() > BYTES_MAX => return Err(wrong("it is too long".to_owned())),
            Ok(_) => fs::read(&path).map_err(|error| FetchError::disk(&path, error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::default()),
            Err(error) => return Err(FetchError::disk(&path, error)),
        };
        let written: Written =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        match (&*written.format, written.version) {
            (FORMAT, VERSION) => Ok(written.kept),
            (format, version) => Err(wrong(format!(
                "it is '{format}' version {version}, known is '{FORMAT}' version {VERSION}"
            ))),
        }
    }

    /// Keeps it in a folder that setup has been at work in, in place of what was kept before.
    ///
    /// # Errors
    /// When it cannot be written there.
    pub fn write(&self, dir: &Path) -> Result<(), FetchError> {
        let path = path(dir);
        let written = Written { format: FORMAT.to_owned(), version: VERSION, kept: self.clone() };
        let write = || {
            let mut bytes = serde_json::to_vec_pretty(&written).map_err(io::Error::other)?;
            bytes.push(b'\n');
            let new = path.with_extension("json.new");
            let mut file = fs::File::create(&new)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(|error| FetchError::disk(&path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_foreign_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(NOTES)).unwrap();
        assert_eq!(Kept::read(dir.path()).unwrap(), Kept::default());
        let kept = Kept { patience: Some(7), cache_limit: Some(5), layers: Some((0, 3)) };
        kept.write(dir.path()).unwrap();
        assert_eq!(Kept::read(dir.path()).unwrap(), kept);
        let text = fs::read_to_string(path(dir.path())).unwrap();
        for wrong in [text.replace("1", "2"), text.replace("settings", "install"), "{".to_owned()] {
            fs::write(path(dir.path()), wrong).unwrap();
            assert!(matches!(Kept::read(dir.path()), Err(FetchError::Record { .. })));
        }
    }
}
