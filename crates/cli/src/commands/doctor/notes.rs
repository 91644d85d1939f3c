//! What setup noted in a model's folder: no command goes on where that is damaged.

use std::path::Path;

use deltafin_fetch::{self as fetch, FetchError, Kept};
use deltafin_store::SpineNote;

use super::finding::{Code, Finding, Level};
use crate::failure::chain;

/// What is damaged of it.
pub(super) fn look(dir: &Path) -> Vec<Finding> {
    settings(dir).into_iter().chain(spine(dir)).collect()
}

fn settings(dir: &Path) -> Option<Finding> {
    let error = Kept::read(dir).err()?;
    if matches!(error, FetchError::Forbidden { .. }) {
        let fix = "let this user use the folder and what is in it";
        return Some(Finding::trouble(
            Level::Fault,
            Code::BrokenModel,
            "settings",
            chain(&error),
            fix,
        ));
    }
    let fix = "remove this file: it has only what setup was told by --patience and --cache-limit; say that again";
    Some(Finding::trouble(Level::Fault, Code::DamagedNote, "settings", chain(&error), fix))
}

fn spine(dir: &Path) -> Option<Finding> {
    let path = SpineNote::path(dir);
    SpineNote::is_damaged(dir).then(|| {
        let fix = match fetch::is_installed(dir) {
            true => format!(
                "'deltafin setup --model {}' tells it anew from what is here",
                dir.display()
            ),
            false => {
                "remove this file: setup did not bring this model, and gave nothing of it back"
                    .to_owned()
            }
        };
        let found = format!("{}: the note on the spine is damaged", path.display());
        Finding::trouble(Level::Fault, Code::DamagedNote, "spine", found, fix)
    })
}
