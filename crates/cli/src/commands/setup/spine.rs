//! How the spine of what was set up lies.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use deltafin_checkpoint::Recipe;
use deltafin_fetch::{Forecast, Spine};
use deltafin_setup::{ConvertError, Progress};
use deltafin_store::{Checkpoint, SpineChoice, pack_dir};

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::stats::bytes;
use crate::terminal::{self, ProgressLine, Terminal};

/// Packs the spine of a checkpoint that setup did not fetch, if that was asked for. What is there stays as
/// it is: it is somebody else's.
pub(super) fn beside(
    asked: Spine,
    checkpoint: Checkpoint,
    stop: &AtomicBool,
) -> Result<Checkpoint, Failure> {
    let Spine::Int8 { keeps_released } = asked else { return Ok(checkpoint) };
    let Some(folder) = checkpoint.folder() else { return Ok(checkpoint) };
    if !keeps_released {
        terminal::say("setup did not fetch this checkpoint: its released bytes stay as they are");
    }
    let mut line = ProgressLine::new(Terminal::detect());
    let mut watch = |at: Progress| {
        line.update(|| format!("packing {}: {} of {}", at.part, at.parts_done + 1, at.parts));
        match stop.load(Ordering::SeqCst) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let out = pack_dir(folder, Recipe::Int8);
    let converted = deltafin_setup::convert(&checkpoint, Recipe::Int8, &out, &mut watch);
    drop(line);
    match converted {
        Ok(_) => Ok(checkpoint),
        Err(stopped @ ConvertError::Interrupted { .. }) => {
            terminal::say(&stopped.to_string());
            Err(Failure::Interrupted)
        }
        Err(error) => Err(error.into()),
    }
}

/// What becomes of the spine, and how much room all of it takes, for people.
pub(super) fn words(forecast: &Forecast) -> String {
    let Forecast { packed, freed, end, most } = *forecast;
    let released = match freed {
        0 => "the released one stays beside it".to_owned(),
        freed => format!("{} of the released one are freed", bytes(freed)),
    };
    let (packed, end, most) = (bytes(packed), bytes(end), bytes(most));
    format!(
        "spine packed as int8: {packed}, {released}; {end} on the drive in the end, at most {most} on the way"
    )
}

/// The same for programs; nothing where none is packed.
pub(super) fn json(forecast: Option<Forecast>) -> Value {
    forecast.map_or(Value::Null, |Forecast { packed, freed, end, most }| {
        json!({"recipe": "int8", "packed": packed, "freed": freed, "end": end, "most": most})
    })
}

/// Says which spine will run, where that is not the released one.
pub(super) fn say(checkpoint: &Checkpoint) {
    let Ok(packed) = checkpoint.clone().with_spine(&SpineChoice::Auto) else { return };
    let pack = checkpoint.folder().map(|folder| pack_dir(folder, Recipe::Int8));
    if packed.pack().is_none() {
        if let Some(pack) = pack.filter(|pack| pack.is_dir() && checkpoint.chosen().is_some()) {
            let pack = pack.display();
            terminal::say(&format!(
                "spine: bf16; {pack} is not used any more, 'deltafin gc' frees it"
            ));
        }
        return;
    }
    let recipe = packed.recipe();
    terminal::say(&match checkpoint.freed() {
        Some(_) => format!(
            "spine: {recipe}; the released one is not here, 'deltafin setup --spine bf16' fetches it"
        ),
        None => format!("spine: {recipe}; --spine bf16 runs the released one"),
    });
}
