//! Names and passwords of the mirrors that models were set up from, for when their experts come later.
//!
//! They lie beside the note of which model is installed, in a file that its owner alone may read: one
//! URL a line, each with its login. What a model's own folder notes has none, for folders are shared and copied.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use deltafin_fetch::Source;

use crate::failure::Failure;
use crate::load::read_bounded;
use crate::terminal;
use crate::user_folder::user_folder;

/// More than anybody has mirrors.
const BYTES_MAX: usize = 1 << 20;

fn file() -> Option<PathBuf> {
    let configuration = user_folder("XDG_CONFIG_HOME", ".config");
    configuration.map(|path| path.join("deltafin").join("logins"))
}

/// Keeps the login of a source, if it has one, in place of an earlier one for the same.
pub(crate) fn keep(source: &Source) -> Result<(), Failure> {
    let Some(line) = source.with_login() else { return Ok(()) };
    let file = file().ok_or_else(|| Failure::new("the password is not kept: no home is known"))?;
    keep_in(&file, source, &line)
}

fn keep_in(file: &Path, source: &Source, line: &str) -> Result<(), Failure> {
    let others = lines(file).into_iter().filter(|(known, _)| *known != source.to_string());
    let mut text: String = others.map(|(_, line)| line + "\n").collect();
    text.push_str(line);
    text.push('\n');
    let folder = file.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(folder).and_then(|()| {
        // Such a file is for its owner alone from the start.
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(text.as_bytes())?;
        new.persist(file)?;
        Ok(())
    });
    written
        .map_err(|e| Failure::about(format!("cannot keep the password in {}", file.display()), &e))
}

/// A source with the login that was kept for it, unless it has one.
pub(crate) fn with_login(source: Source) -> Source {
    let file = file().filter(|_| source.with_login().is_none());
    let found = file.and_then(|file| Some((known_in(&file, &source)?, file)));
    let Some((known, file)) = found else { return source };
    if is_open_to_others(&file) {
        let path = file.display();
        terminal::say(&format!("{path} has passwords, and others may read it: chmod 600 '{path}'"));
    }
    known
}

/// Whether anybody but its owner may read a file, as one that was written by hand.
fn is_open_to_others(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

fn known_in(file: &Path, source: &Source) -> Option<Source> {
    let wanted = source.to_string();
    let (_, line) = lines(file).into_iter().find(|(known, _)| *known == wanted)?;
    line.parse().ok()
}

/// What is kept: each source as it is shown, and with its login. What cannot be read is not known.
fn lines(file: &Path) -> Vec<(String, String)> {
    let bytes = read_bounded(file, BYTES_MAX).ok().flatten().unwrap_or_default();
    let text = String::from_utf8(bytes).unwrap_or_default();
    let parsed = |line: &str| Some((line.parse::<Source>().ok()?.to_string(), line.to_owned()));
    text.lines().filter_map(parsed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_found_again_for_its_source_alone_and_by_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("deltafin/logins");
        let keep = |text: &str| {
            let source: Source = text.parse().unwrap();
            keep_in(&file, &source, &source.with_login().unwrap()).unwrap();
        };
        let known = |text: &str| {
            known_in(&file, &text.parse().unwrap()).and_then(|source| source.with_login())
        };
        assert_eq!(known("https://h/a/"), None);
        keep("https://u:old@h/a/");
        keep("https://token@h/b");
        keep("https://u:new@h/a/");
        assert_eq!(known("https://h/a/").as_deref(), Some("https://u:new@h/a/"));
        assert_eq!(known("https://h/b/").as_deref(), Some("https://token@h/b/"));
        assert_eq!(known("https://other/a/"), None);
        assert_eq!(known("http://h/a/"), None);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!is_open_to_others(&file));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(is_open_to_others(&file));
        assert!(!fs::read_to_string(&file).unwrap().contains("old"));
    }
}
