//! Which model a command runs: the one typed, the one in the environment, the one that setup
//! installed, or the demo inside this program where it carries one.

use std::fmt;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::args::{Given, ModelArg};
use crate::built_in;
use crate::failure::Failure;
use crate::load::read_bounded;
use crate::terminal;
use crate::user_folder::user_folder;

/// A model to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    /// The one inside this program.
    Demo,
    /// A checkpoint directory.
    Directory(PathBuf),
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Model::Demo => f.write_str("the built-in demo"),
            Model::Directory(path) => path.display().fmt(f),
        }
    }
}

/// Chooses, and says on standard error which one it is when the command line does not.
pub(crate) fn choose(typed: Option<ModelArg>, given: Given) -> Result<Model, Failure> {
    let model = match typed {
        Some(ModelArg::Demo) => demo()?,
        Some(ModelArg::Directory(path)) => Model::Directory(path),
        None => return installed_or_demo(),
    };
    if given == Given::Environment {
        terminal::say(&format!("model: {model} (DELTAFIN_MODEL)"));
    }
    Ok(model)
}

/// The directory that setup remembered, if it is there.
pub(crate) fn remembered() -> Result<Option<PathBuf>, Failure> {
    let unremedied = |why| Failure::new(format!("{why}; give --model, or remove that file"));
    looked_up().map_err(unremedied)
}

/// As [`remembered`], for a setup, which remembers another in its place: one that cannot be used is said and counts
/// for nothing.
pub(crate) fn remembered_before() -> Option<PathBuf> {
    looked_up().unwrap_or_else(|why| {
        terminal::say(&format!("{why}; setting up as if nothing were remembered"));
        None
    })
}

/// The directory that setup remembered, or why it is of no use.
fn looked_up() -> Result<Option<PathBuf>, String> {
    Ok(remembered_in().as_deref().map(read_remembered).transpose()?.flatten())
}

/// Remembers a directory for the commands to come.
pub(crate) fn remember(directory: &Path) -> Result<(), Failure> {
    let file = remembered_in();
    let file =
        file.ok_or_else(|| Failure::new("the folder is not remembered: no home is known"))?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(folder).and_then(|()| {
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(directory.as_os_str().as_encoded_bytes())?;
        new.write_all(b"\n")?;
        new.persist(&file)?;
        Ok(())
    });
    written.map_err(|e| Failure::about(format!("cannot remember it in {}", file.display()), &e))
}

fn installed_or_demo() -> Result<Model, Failure> {
    if let Some(path) = remembered()? {
        let model = Model::Directory(path);
        terminal::say(&format!("model: {model} (installed by setup)"));
        return Ok(model);
    }
    let model = demo()?;
    terminal::say(&format!("model: {model} (no --model given, none installed)"));
    Ok(model)
}

fn demo() -> Result<Model, Failure> {
    if built_in::IS_CARRIED { Ok(Model::Demo) } else { Err(Failure::new(built_in::LACKING)) }
}

/// The file in which setup remembers where it installed, one per user.
fn remembered_in() -> Option<PathBuf> {
    let configuration = user_folder("XDG_CONFIG_HOME", ".config");
    configuration.map(|path| path.join("deltafin").join("model"))
}

fn read_remembered(file: &Path) -> Result<Option<PathBuf>, String> {
    const BYTES_MAX: usize = 1 << 16; // no path is longer
    let cannot = |reason: String| format!("cannot read {}: {reason}", file.display());
    let Some(bytes) = read_bounded(file, BYTES_MAX).map_err(|e| cannot(e.to_string()))? else {
        return Ok(None);
    };
    if bytes.len() > BYTES_MAX {
        return Err(cannot("it is longer than any path".to_owned()));
    }
    let text = String::from_utf8(bytes).map_err(|e| cannot(e.to_string()))?;
    let path = PathBuf::from(text.trim_end_matches(['\r', '\n']));
    if path.is_relative() {
        return Err(cannot(format!(
            "it names '{}', which is found from one folder only: an absolute path is wanted",
            path.display()
        )));
    }
    if path.is_dir() {
        return Ok(Some(path));
    }
    Err(format!(
        "the installed model is gone: {} names '{}', which is not a directory",
        file.display(),
        path.display()
    ))
}
