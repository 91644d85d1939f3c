//! Layers of a model, where only some are to be brought here: which there are, and which a folder was begun with.
//!
//! A folder of a part is unfinished, like one whose setup was stopped. What tells them apart is a setting in it: whoever
//! goes on with the folder, and says nothing else, goes on with the part.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use deltafin_checkpoint::Config;

use crate::folder::{self, Kind};
use crate::listing::Listing;
use crate::remote::{Manner, Remote, asking};
use crate::{FetchError, Kept, Order, Source, Wanted};

const CONFIG: &str = "config.json";

/// The configuration of a checkpoint, from the folder if it is there, else from the source.
pub(crate) async fn config(
    listing: &Listing,
    remote: &Remote,
    source: &Source,
    manner: Manner<'_>,
    dir: &Path,
) -> Result<Config, FetchError> {
    let told = |why: String| FetchError::Source { what: source.to_string(), why };
    let file = listing.files.iter().find(|file| file.name == CONFIG);
    let file = file.ok_or_else(|| told(format!("there is no {CONFIG}")))?;
    let here = fs::read(dir.join(CONFIG)).ok().filter(|bytes| bytes.len() as u64 == file.bytes);
    let bytes = match here {
        Some(bytes) => bytes,
        None => asking(source, manner, || remote.whole(file)).await?,
    };
    Config::parse(&bytes).map_err(|error| told(format!("{CONFIG}: {error}")))
}

/// Refuses layers that the model does not have.
pub(crate) async fn check(
    order: &Order<'_>,
    listing: &Listing,
    remote: &Remote,
    manner: Manner<'_>,
) -> Result<(), FetchError> {
    let Wanted::Layers(layers) = &order.wanted else { return Ok(()) };
    let config = config(listing, remote, order.source, manner, order.dir).await?;
    let last = config.spec.layers.len().saturating_sub(1);
    match *layers.end() as usize > last {
        true => Err(FetchError::NoLayer { asked: layers.clone(), last }),
        false => Ok(()),
    }
}

/// The layers that alone are to come into a folder, where it was begun with such.
///
/// # Errors
/// When the settings of the folder cannot be read.
pub fn begun_layers(dir: &Path) -> Result<Option<RangeInclusive<u32>>, FetchError> {
    match folder::state(dir) {
        Some((Kind::Full, false)) => Ok(Kept::read(dir)?.layers.map(|(first, last)| first..=last)),
        _ => Ok(None),
    }
}

/// Notes which layers alone are to come, or that it is not to be some alone.
pub(crate) fn note(dir: &Path, wanted: &Wanted) -> Result<(), FetchError> {
    let layers = match wanted {
        Wanted::Layers(layers) => Some((*layers.start(), *layers.end())),
        Wanted::Fitting | Wanted::All | Wanted::Spine => None,
    };
    let kept = Kept::read(dir)?;
    match kept.layers == layers {
        true => Ok(()),
        false => Kept { layers, ..kept }.write(dir),
    }
}
