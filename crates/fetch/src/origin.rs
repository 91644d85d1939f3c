//! Whether a folder may go on with what a source has.
//!
//! What is here of one source counts for another only where that gives digests: they tell which bytes are the same.
//! Names and lengths do not, and a folder of two checkpoints would run and say what neither says. So a source without
//! digests is refused where anything of another one is, and where it has replaced a file that is finished here. What is in
//! the making comes anew where it was replaced.

use std::path::Path;

use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::error::Replaced;
use crate::folder;
use crate::listing::{Listing, RemoteFile};
use crate::map::{Known, Map};
use crate::mark;
use crate::remote::{Manner, Remote, asking};
use crate::{FetchError, Order, Proof};

/// Refuses what a source has where the folder holds bytes of another one that no digest tells from its own.
pub(crate) fn check_source(order: &Order<'_>, listing: &Listing) -> Result<(), FetchError> {
    let (dir, asked) = (order.dir, order.source.to_string());
    let Some(record) = folder::record(dir)?.filter(|record| record.asked != asked) else {
        return Ok(());
    };
    let is_told = listing.files.iter().all(|file| file.proof != Proof::None);
    if is_told || !record.listing.files.iter().any(|file| has_any(order, file)) {
        return Ok(());
    }
    Err(FetchError::OtherSource { path: dir.to_owned(), holds: record.asked, asked })
}

/// Whether anything of a file is in the folder of an order.
fn has_any(order: &Order<'_>, file: &RemoteFile) -> bool {
    let map = Map::read(&folder::map_path(order.dir, &file.name), file);
    let has = |path: &Path| path.symlink_metadata().is_ok();
    has(&order.dir.join(&file.name))
        || map.ok().flatten().is_some_and(|known| {
            known.proven || !known.pieces.is_empty() || !known.freed.is_empty()
        })
}

/// A file that a source has replaced since some of it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replacement {
    /// The file as it came.
    pub(crate) file: RemoteFile,
    /// What is another than it was.
    pub(crate) what: String,
    /// Whether all of it is here under its own name.
    is_finished: bool,
}

/// The files that a source without digests has replaced since some of them came; where a listing is from before,
/// those of another length too. A source that says nothing of a file's state has replaced nothing, as far as is known.
pub(crate) async fn replacements(
    order: &Order<'_>,
    remote: &Remote,
    manner: Manner<'_>,
    listing: &Listing,
    is_from_before: bool,
) -> Result<Vec<Replacement>, FetchError> {
    let known = |file: &RemoteFile| {
        Map::read(&folder::map_path(order.dir, &file.name), file).ok().flatten()
    };
    let untold = listing.files.iter().filter(|file| file.proof == Proof::None);
    let asked = untold.map(|file| (file, known(file).unwrap_or_default()));
    let asked = asked.filter(|(_, known)| is_from_before || known.tag.is_some());
    let checks: Vec<_> =
        asked.map(|(file, known)| replacement(order, remote, manner, file, known)).collect();
    let found = futures_util::stream::iter(checks).buffered(order.jobs.max(1));
    found.try_filter_map(async |found| Ok(found)).try_collect().await
}

async fn replacement(
    order: &Order<'_>,
    remote: &Remote,
    manner: Manner<'_>,
    file: &RemoteFile,
    known: Known,
) -> Result<Option<Replacement>, FetchError> {
    let was = (file.bytes, known.tag.as_deref());
    let mut what = None;
    // One other answer may be a slip on the way.
    for _ in 0..2 {
        let is = asking(order.source, manner, || remote.mark(file)).await?;
        what = is.and_then(|is| mark::difference(was, &is));
        if what.is_none() {
            return Ok(None);
        }
    }
    let is_finished = known.proven && order.dir.join(&file.name).exists();
    Ok(what.map(|what| Replacement { file: file.clone(), what, is_finished }))
}

/// Refuses what was replaced where some of it is finished here; gives the rest.
pub(crate) fn check_finished(
    order: &Order<'_>,
    replaced: Vec<Replacement>,
) -> Result<Vec<Replacement>, FetchError> {
    let (finished, others) = replaced.into_iter().partition(|of: &Replacement| of.is_finished);
    match named(order, finished) {
        Some(finished) => Err(FetchError::Replaced(finished)),
        None => Ok(others),
    }
}

/// Files that were replaced, for an error; nothing where there is none.
fn named(order: &Order<'_>, replaced: Vec<Replacement>) -> Option<Box<Replaced>> {
    let mut replaced = replaced.into_iter();
    let Replacement { file, what, .. } = replaced.next()?;
    let (dir, asked) = (order.dir.to_owned(), order.source.to_string());
    let others = replaced.map(|of| of.file.name).collect();
    Some(Box::new(Replaced { dir, asked, file: file.name, what, others }))
}

/// Refuses a source that has replaced anything of which some is here: what came before and after that is of two.
pub(crate) async fn check_unchanged(
    order: &Order<'_>,
    remote: &Remote,
    manner: Manner<'_>,
    listing: &Listing,
    is_streamed: bool,
) -> Result<(), FetchError> {
    let replaced = replacements(order, remote, manner, listing, true).await?;
    match named(order, check_finished(order, replaced)?) {
        Some(begun) => Err(FetchError::Moved(begun, is_streamed)),
        None => Ok(()),
    }
}

/// Whether a file is among these.
pub(crate) fn is_of(replaced: &[Replacement], file: &RemoteFile) -> bool {
    replaced.iter().any(|of| of.file.name == file.name)
}
