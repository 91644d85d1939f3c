//! A source, and what it has at this moment: where that is other than when a folder was begun, the folder goes on with
//! what is there, and what came of the files that were replaced goes.

use std::fs::OpenOptions;
use std::io;

use deltafin_checkpoint::Recipe;

use crate::folder::{self, Folder};
use crate::listing::Listing;
use crate::map::{Known, Map};
use crate::origin::{self, Replacement};
use crate::remote::{Manner, Remote, reach};
use crate::{Event, FetchError, Order, Patience, layered, packed};

/// A source as it is.
pub(crate) struct Current {
    pub(crate) remote: Remote,
    pub(crate) listing: Listing,
    /// What is to come anew.
    pub(crate) anew: Vec<Replacement>,
}

impl Current {
    /// Goes to the source of an order, and lists what it has, unless that is known.
    pub(crate) async fn reach(
        order: &Order<'_>,
        known: Option<Listing>,
        manner: Manner<'_>,
    ) -> Result<Current, FetchError> {
        let (remote, listing) = reach(order.source, known, manner).await?;
        origin::check_source(order, &listing)?;
        Ok(Current { remote, listing, anew: Vec::new() })
    }

    /// As it is where files that are not finished here were replaced since the folder was begun.
    ///
    /// # Errors
    /// Where one was that is finished here.
    pub(crate) async fn now(
        self,
        order: &Order<'_>,
        manner: Manner<'_>,
        is_from_before: bool,
    ) -> Result<Current, FetchError> {
        let Current { remote, listing, .. } = &self;
        let replaced = origin::replacements(order, remote, manner, listing, is_from_before).await?;
        let anew = origin::check_finished(order, replaced)?;
        if anew.is_empty() {
            return Ok(self);
        }
        for Replacement { file, what, .. } in &anew {
            manner.watch.event(Event::Anew { name: &file.name, why: what });
        }
        Ok(Current { anew, ..Current::reach(order, None, manner).await? })
    }

    /// As [`Current::now`], of a folder that lacks nothing: one whose source is not to be had stays as it is.
    pub(crate) async fn now_if_reached(
        self,
        order: &Order<'_>,
        manner: Manner<'_>,
    ) -> Result<Current, FetchError> {
        let (patience, same) = (Patience::short(), (self.remote.clone(), self.listing.clone()));
        match self.now(order, Manner { patience: &patience, ..manner }, true).await {
            Err(FetchError::Source { .. }) => {
                Ok(Current { remote: same.0, listing: same.1, anew: Vec::new() })
            }
            current => current,
        }
    }
}

/// Takes back what came of files that were replaced, and the pack that was made of them.
pub(crate) fn forget(folder: &Folder, recipe: Recipe, anew: &[Replacement]) -> io::Result<()> {
    // The pack before the maps: as long as these are there, the next run finds the same.
    if recipe != Recipe::Bf16 {
        packed::forget(folder.dir(), recipe)?;
    }
    for Replacement { file, .. } in anew {
        let map = folder.map(&file.name);
        let known = Map::read(&map, file)?.unwrap_or_default();
        Map::create(&map, file, Known { is_layered: known.is_layered, ..Known::default() })?;
        let part = folder::part_path(folder.dir(), &file.name);
        for path in [part, layered::base_path(folder.dir(), &file.name)] {
            match OpenOptions::new().write(true).open(path) {
                Ok(begun) => begun.set_len(0)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    folder.sync()
}
