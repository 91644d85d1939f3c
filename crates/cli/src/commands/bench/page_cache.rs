//! The page cache before a cold run.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use deltafin_store::SpineChoice;

use crate::model_choice::Model;

/// Asks the system to forget the files of a model's weights. Says why that is not done.
pub(super) fn forget(model: &Model, spine: &SpineChoice) -> Result<(), String> {
    let Model::Directory(folder) = model else { return Ok(()) };
    let pack = match spine {
        SpineChoice::Pack(folder) => Some(folder.as_path()),
        SpineChoice::Auto | SpineChoice::Recipe(_) => None,
    };
    let mut files = Vec::new();
    for folder in [Some(folder.as_path()), pack].into_iter().flatten() {
        find_weights(folder, &mut files).map_err(|e| e.to_string())?;
    }
    files.iter().try_for_each(|file| forget_file(&File::open(file)?)).map_err(|e| e.to_string())
}

/// Shards and the files of packs, those of the folder and those of packs beside its shards.
fn find_weights(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name.starts_with("spine-") {
            find_weights(&path, found)?;
        } else if name.ends_with(".safetensors") || name.ends_with(".spine") {
            found.push(path);
        }
    }
    Ok(())
}

/// Pages still on their way to the drive cannot be forgotten, so they are brought there first.
#[cfg(target_os = "linux")]
fn forget_file(file: &File) -> io::Result<()> {
    file.sync_all()?;
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn forget_file(_file: &File) -> io::Result<()> {
    Err(io::Error::other("this system does not forget files on request"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_and_packs_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("spine-int8")).unwrap();
        fs::create_dir(at("other")).unwrap();
        let wanted = ["model-1.safetensors", "spine-int8/layer-000.spine"];
        let others = ["config.json", "spine-int8/manifest.json", "other/x.safetensors"];
        wanted.iter().chain(&others).for_each(|name| fs::write(at(name), "").unwrap());
        let mut found = Vec::new();
        find_weights(folder.path(), &mut found).unwrap();
        found.sort();
        assert_eq!(found, wanted.map(at));
    }
}
