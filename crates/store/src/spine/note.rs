//! What setup notes of a folder's spine: the recipe it was asked for, and whether the released bytes are still there.
//!
//! ```text
//! deltafin spine 1
//! int8 freed 8f14e45fceea167a5a36dedd4bea2543
//! ```
//!
//! The second line is the recipe, `freed` or `kept`, and, once the pack is whole, the identity of the
//! checkpoint. It is written before the first released byte is given back to the drive.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use deltafin_checkpoint::{Identity, Recipe};

use crate::OpenError;
use crate::error::reason;

/// Begins the file.
const HEAD: &str = "deltafin spine";
/// The version that is read and written here.
const VERSION: u64 = 1;
/// No note is longer.
const BYTES_MAX: u64 = 4096;

/// How the spine of a folder is to lie that setup looks after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpineNote {
    /// What every token uses: as released, or packed beside the shards.
    pub recipe: Recipe,
    /// Whether the shards have holes where the pack holds what was there.
    pub is_freed: bool,
    /// The checkpoint, once its pack is whole.
    pub identity: Option<Identity>,
}

impl SpineNote {
    /// As released, and nothing else.
    pub const RELEASED: SpineNote =
        SpineNote { recipe: Recipe::Bf16, is_freed: false, identity: None };

    /// Where the note of a folder is.
    pub fn path(dir: &Path) -> PathBuf {
        dir.join(".deltafin/spine")
    }

    /// The note of a folder; [`SpineNote::RELEASED`] where there is none.
    ///
    /// # Errors
    /// Where the note is a later version's, or no note: what the shards lack is not known then.
    pub fn read(dir: &Path) -> Result<SpineNote, OpenError> {
        Ok(SpineNote::read_if_any(dir)?.unwrap_or(SpineNote::RELEASED))
    }

    /// As [`SpineNote::read`]; nothing where there is none, so that nobody has said how the spine is to lie.
    ///
    /// # Errors
    /// As [`SpineNote::read`].
    pub fn read_if_any(dir: &Path) -> Result<Option<SpineNote>, OpenError> {
        let path = SpineNote::path(dir);
        let text = match fs::metadata(&path) {
            Ok(meta) if meta.len() <= BYTES_MAX => fs::read_to_string(&path),
            Ok(_) => Err(io::Error::other("it is too long")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => Err(error),
        };
        let text = match text {
            Ok(text) => text,
            Err(error) => return Err(OpenError::Io { path, reason: reason(&error) }),
        };
        let found = || text.lines().next().unwrap_or_default().chars().take(60).collect();
        match SpineNote::parse(&text) {
            Some(note) => Ok(Some(note)),
            None => Err(OpenError::SpineNote { path, found: found(), known: VERSION }),
        }
    }

    /// Whether there is a note that no program has written so: not one of a later version, nor one that may not be read.
    pub fn is_damaged(dir: &Path) -> bool {
        let path = SpineNote::path(dir);
        let has_bytes = fs::metadata(&path).is_ok_and(|meta| meta.is_file());
        let begin = || {
            let mut begin = Vec::new();
            let file = File::open(&path)?;
            file.take(BYTES_MAX).read_to_end(&mut begin).map(|_| begin)
        };
        let Some(begin) = has_bytes.then(begin).and_then(Result::ok) else { return false };
        let begin = String::from_utf8_lossy(&begin);
        let version = begin
            .lines()
            .next()
            .and_then(|line| line.strip_prefix(HEAD)?.strip_prefix(' ')?.parse().ok());
        SpineNote::read(dir).is_err() && version.is_none_or(|version: u64| version <= VERSION)
    }

    /// Takes back that the released spine was chosen, for a pack was made since; what else a note says stays.
    pub fn forget_released(dir: &Path) -> io::Result<()> {
        match SpineNote::read_if_any(dir) {
            Ok(Some(SpineNote::RELEASED)) => fs::remove_file(SpineNote::path(dir)),
            _ => Ok(()),
        }
    }

    /// Writes it in place of the one that is there, for good.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        let path = SpineNote::path(dir);
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(self.text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        path.parent().map_or(Ok(()), |notes| File::open(notes)?.sync_all())
    }

    fn text(&self) -> String {
        let released = if self.is_freed { "freed" } else { "kept" };
        let identity = self.identity.map(|identity| format!(" {identity}")).unwrap_or_default();
        format!("{HEAD} {VERSION}\n{} {released}{identity}\n", self.recipe)
    }

    fn parse(text: &str) -> Option<SpineNote> {
        let (head, line) = text.strip_suffix('\n')?.split_once('\n')?;
        let version = head.strip_prefix(HEAD)?.strip_prefix(' ')?.parse::<u64>().ok()?;
        let mut words = line.split(' ');
        let recipe = Recipe::parse(words.next()?)?;
        let is_freed = match words.next()? {
            "freed" => true,
            "kept" => false,
            _ => return None,
        };
        let identity = words.next().map(Identity::parse);
        let is_whole = version == VERSION && identity != Some(None) && words.next().is_none();
        is_whole.then_some(SpineNote { recipe, is_freed, identity: identity.flatten() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_a_later_one_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(SpineNote::read(dir.path()), Ok(SpineNote::RELEASED));
        assert_eq!(SpineNote::read_if_any(dir.path()), Ok(None));
        fs::create_dir(dir.path().join(".deltafin")).unwrap();
        for recipe in Recipe::ALL {
            for is_freed in [false, true] {
                for identity in [None, Identity::parse(&"0a".repeat(16))] {
                    let note = SpineNote { recipe, is_freed, identity };
                    note.write(dir.path()).unwrap();
                    assert_eq!(SpineNote::read(dir.path()), Ok(note));
                    SpineNote::forget_released(dir.path()).unwrap();
                    let left = SpineNote::read_if_any(dir.path()).unwrap();
                    assert_eq!(left, Some(note).filter(|note| *note != SpineNote::RELEASED));
                }
            }
        }
        let lines = ["", "deltafin spine 2\nint8 freed\n", "deltafin spine 1\nint4 freed\n"];
        let more = ["deltafin spine 1\nint8 gone\n", "deltafin spine 1\nint8 freed x\n"];
        for text in lines.iter().chain(&more) {
            fs::write(SpineNote::path(dir.path()), text).unwrap();
            let refused = SpineNote::read(dir.path()).unwrap_err();
            assert!(matches!(refused, OpenError::SpineNote { .. }), "{text}: {refused}");
            assert_eq!(SpineNote::is_damaged(dir.path()), !text.contains("spine 2"), "{text}");
        }
        fs::write(SpineNote::path(dir.path()), [0xff; 5000]).unwrap();
        assert!(SpineNote::is_damaged(dir.path()));
        SpineNote::RELEASED.write(dir.path()).unwrap();
        assert!(!SpineNote::is_damaged(dir.path()));
    }
}
