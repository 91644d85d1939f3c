//! What is being installed in a folder, so that the next run brings the same.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::listing::{Listing, RemoteFile, is_wanted};
use crate::{FetchError, Proof};

const FORMAT: &str = "deltafin install";
const VERSION: u64 = 1;
/// Of a listing; K3's has 20 KB.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// A listing, and what was typed to get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The source as it was given.
    pub(crate) asked: String,
    pub(crate) listing: Listing,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: String,
    version: u64,
    asked: String,
    source: String,
    files: Vec<WrittenFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    name: String,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git: Option<String>,
}

/// Enough of a record to know whether the rest can be understood.
#[derive(Deserialize)]
struct Stamp {
    format: String,
    version: u64,
}

impl Record {
    /// The record in a file, if there is one.
    pub(crate) fn read(path: &Path) -> Result<Option<Record>, FetchError> {
        let wrong = |reason: String| FetchError::Record { path: path.to_owned(), reason };
        let bytes = match fs::metadata(path) {
            Ok(meta) if meta.len() > RECORD_BYTES_MAX => {
                return Err(wrong("it is too long".to_owned()));
            }
            Ok(_) => fs::read(path).map_err(|error| FetchError::disk(path, error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FetchError::disk(path, error)),
        };
        let stamp: Stamp =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if stamp.format != FORMAT || stamp.version != VERSION {
            let Stamp { format, version } = stamp;
            return Err(wrong(format!(
                "it is '{format}' version {version}, known is '{FORMAT}' version {VERSION}"
            )));
        }
        let written: Written =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        let files: Option<Vec<_>> = written.files.into_iter().map(read_file).collect();
        let files = files.ok_or_else(|| wrong("it lists a file that is none".to_owned()))?;
        let listing = Listing { source: written.source, files };
        Ok(Some(Record { asked: written.asked, listing }))
    }

    /// Writes it in place of what is there.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let written = Written {
            format: FORMAT.to_owned(),
            version: VERSION,
            asked: self.asked.clone(),
            source: self.listing.source.clone(),
            files: self.listing.files.iter().map(written_file).collect(),
        };
        let mut bytes = serde_json::to_vec_pretty(&written).map_err(io::Error::other)?;
        bytes.push(b'\n');
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    }
}

fn written_file(file: &RemoteFile) -> WrittenFile {
    let digits = |kind| file.proof.parts().filter(|proof| proof.0 == kind).map(|proof| proof.1);
    let (sha256, git) = (digits("sha256"), digits("git"));
    WrittenFile { name: file.name.clone(), bytes: file.bytes, sha256, git }
}

fn read_file(written: WrittenFile) -> Option<RemoteFile> {
    let proof = match (&written.sha256, &written.git) {
        (Some(digits), None) => Proof::parse("sha256", digits)?,
        (None, Some(digits)) => Proof::parse("git", digits)?,
        (None, None) => Proof::None,
        (Some(_), Some(_)) => return None,
    };
    let file = RemoteFile { name: written.name, bytes: written.bytes, proof };
    is_wanted(&file.name).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_foreign_ones_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("install.json");
        assert_eq!(Record::read(&path).unwrap(), None);
        let file = |name: &str, proof| RemoteFile { name: name.to_owned(), bytes: 5, proof };
        let files = vec![
            file("a.json", Proof::GitBlob([1; 20])),
            file("b.json", Proof::None),
            file("c.safetensors", Proof::Sha256([2; 32])),
        ];
        let listing = Listing { source: "hf:a/b@c".to_owned(), files };
        let record = Record { asked: "hf:a/b".to_owned(), listing };
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), Some(record));
        let text = fs::read_to_string(&path).unwrap();
        for (from, to) in
            [("\"version\": 1", "\"version\": 2"), ("a.json", "../a.json"), ("\"files\"", "\"f\"")]
        {
            fs::write(&path, text.replace(from, to)).unwrap();
            assert!(matches!(Record::read(&path), Err(FetchError::Record { .. })), "{to}");
        }
    }
}
