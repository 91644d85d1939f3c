//! Where this user's files of a kind belong.

use std::env;
use std::path::PathBuf;

/// The folder that `variable` names, else `below` the home folder (on macOS its own place there); nothing
/// where neither is known. Relative paths count as none, as the XDG specification says.
pub(crate) fn user_folder(variable: &str, below: &str) -> Option<PathBuf> {
    let directory = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    directory(variable).or_else(|| match env::consts::OS {
        "macos" => directory("HOME").map(|home| home.join("Library/Application Support")),
        _ => directory("HOME").map(|home| home.join(below)),
    })
}
