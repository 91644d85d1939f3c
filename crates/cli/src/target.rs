//! Where a file may be written beside a model: never over, nor among, the model's own.

use std::fs::{self, Metadata};
use std::io::Error;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::new_file::{cannot_write, folder_of, target};

/// As [`target`], refused where it is a file of a model, or lies in one of the `folders` it is read
/// from: what is replaced there may not be had again for a terabyte of reading.
pub(crate) fn foreign_target(
    path: &Path,
    folders: impl Iterator<Item = impl AsRef<Path>>,
) -> Result<PathBuf, Failure> {
    let target = target(path)?;
    let found = fs::metadata(&target).ok();
    let home = fs::canonicalize(folder_of(&target)).map_err(|e| cannot_write(path, &e))?;
    for folder in folders.filter_map(|folder| fs::canonicalize(folder).ok()) {
        let error = match &found {
            Some(found) if holds(&folder, found) => "it is a file of the model that is read",
            _ if home.starts_with(&folder) => {
                "it would lie among the files of the model that is read"
            }
            _ => continue,
        };
        return Err(cannot_write(path, &Error::other(format!("{error}; give another name"))));
    }
    Ok(target)
}

/// Whether a name in this folder leads to that file, directly or through links.
fn holds(folder: &Path, file: &Metadata) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = entries.filter_map(|entry| fs::metadata(entry.path()).ok());
    found.any(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_model_s_files_are_spared_under_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["model", "blobs", "other"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("blobs/1f"), "weights").unwrap();
        symlink("../blobs/1f", at("model/model.safetensors")).unwrap();
        symlink("model", at("alias")).unwrap();
        fs::hard_link(at("blobs/1f"), at("other/linked")).unwrap();
        let model = at("model");
        let refused = |name: &str| foreign_target(&at(name), [&model].into_iter()).is_err();
        let own =
            ["model/model.safetensors", "alias/model.safetensors", "blobs/1f", "other/linked"];
        assert!(own.into_iter().all(refused));
        assert!(refused("model/new.safetensors") && refused("alias/new.safetensors"));
        assert!(!refused("other/new.safetensors") && !refused("blobs/new"));
    }
}
