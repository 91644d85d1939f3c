//! What earlier runs learned about a checkpoint's experts: where it lies, and what it is used for.

use std::path::PathBuf;

use deltafin_engine::{Engine, Learned, learned_in};
use deltafin_store::{Checkpoint, SpineChoice};

use crate::args::EngineArgs;
use crate::failure::Failure;
use crate::terminal;
use crate::user_folder::user_folder;

/// Goes on from what was learned, where experts have to be read again; keeps those that were asked
/// to be kept.
pub(crate) fn apply(engine: &Engine, args: &EngineArgs) -> Result<(), Failure> {
    if engine.weights_in() == "memory" {
        return Ok(());
    }
    let Some(folder) = folder() else { return Ok(()) };
    let learned = engine.weights().remember_in(&folder)?;
    if let Learned::Dropped(file) = &learned {
        let name = file.display();
        terminal::say(&format!(
            "{name} is damaged or cannot be read: what earlier runs learned of experts is lost"
        ));
    }
    if args.pin() == 0 {
        return Ok(());
    }
    let most = engine.plan().map_or(0, |plan| plan.pinned);
    match learned {
        _ if most == 0 => terminal::say(
            "--pin keeps nothing: no expert has room for good beside those that are being read; give \
             more of --pin, --memory or --slabs",
        ),
        Learned::Something if engine.weights().pin(most) > 0 => {}
        Learned::Dropped(_) => terminal::say("--pin keeps nothing: what it goes by is lost"),
        _ => terminal::say(
            "--pin keeps nothing: no earlier run has shown which experts are used most",
        ),
    }
    Ok(())
}

/// How often earlier runs chose each of a checkpoint's experts; nothing where none has shown it.
pub(crate) fn counts(checkpoint: &Checkpoint) -> Result<Vec<f32>, Failure> {
    let Some(folder) = folder() else { return Ok(Vec::new()) };
    let learned = match checkpoint.freed() {
        // What it is called is known with its pack alone.
        Some(_) => learned_in(&folder, &checkpoint.clone().with_spine(&SpineChoice::Auto)?)?,
        None => learned_in(&folder, checkpoint)?,
    };
    Ok(learned.unwrap_or_default())
}

/// One per user.
pub(crate) fn folder() -> Option<PathBuf> {
    let state = user_folder("XDG_STATE_HOME", ".local/state");
    state.map(|path| path.join("deltafin").join("heat"))
}
