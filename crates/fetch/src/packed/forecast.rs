//! How much room a packed spine takes, before any of it is here.

use std::path::Path;

use deltafin_checkpoint::{CatalogBuilder, Header, Recipe};

use super::parts::Parts;
use crate::cut::Piece;
use crate::listing::{Listing, RemoteFile};
use crate::remote::{Manner, Remote};
use crate::{FetchError, Source, Wanted, layers, prospect};

/// What packing its spine makes of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Bytes of the pack.
    pub packed: u64,
    /// Released bytes that are given back to the drive.
    pub freed: u64,
    /// Bytes on the drive in the end, of what was asked for.
    pub end: u64,
    /// Bytes on the drive at any moment on the way, at the most.
    pub most: u64,
}

/// The headers of a source, and what they say.
pub(crate) struct Forecaster {
    parts: Parts,
    /// Of each shard, its length and its pieces.
    shards: Vec<(u64, Vec<Piece>)>,
    /// Bytes of all other files.
    others: u64,
}

impl Forecaster {
    /// Reads configuration and headers, from the folder or the source.
    pub(crate) async fn of(
        listing: &Listing,
        remote: &Remote,
        source: &Source,
        manner: Manner<'_>,
        dir: &Path,
        recipe: Recipe,
    ) -> Result<Forecaster, FetchError> {
        let told = |why: String| FetchError::Source { what: source.to_string(), why };
        let config = layers::config(listing, remote, source, manner, dir).await?;
        let (mut builder, mut shards) = (CatalogBuilder::new(&config), Vec::new());
        let (files, others): (Vec<&RemoteFile>, Vec<_>) =
            listing.files.iter().partition(|file| file.is_shard());
        for file in files {
            let head = prospect::head(remote, source, manner, dir, file).await?;
            builder.add_shard(&file.name, file.bytes, Header::parse(&head, file.bytes));
            shards.push((file.bytes, prospect::pieces(&head, head.len() as u64, file.bytes)));
        }
        let catalog = builder.finish(None).map_err(|problems| {
            let first = problems.into_iter().next().map(|problem| problem.to_string());
            told(first.unwrap_or_else(|| "its shards do not fit".to_owned()))
        })?;
        let head = catalog.globals().head.tensor().span;
        let kept = head.part(0, head.len().min(1)).into_iter().collect();
        let others = others.iter().map(|file| file.bytes).sum();
        Ok(Forecaster { parts: Parts::of(&catalog, recipe, kept), shards, others })
    }

    /// For this much of a checkpoint.
    pub(crate) fn forecast(&self, wanted: &Wanted, frees: bool) -> Forecast {
        let (mut all, mut freed) = (self.others, 0);
        for (number, (_, pieces)) in self.shards.iter().enumerate() {
            for piece in pieces.iter().filter(|piece| wanted.includes(piece)) {
                all += piece.bytes;
                freed += match frees && self.parts.hold(number, piece, |_| true) {
                    true => piece.bytes,
                    false => 0,
                };
            }
        }
        let packed = self.parts.bytes();
        let end = all + packed - freed;
        let both = self.parts.window() + self.parts.longest();
        Forecast { packed, freed, end, most: end.saturating_add(both).min(all + packed).max(end) }
    }
}
