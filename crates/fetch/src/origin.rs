//! Whether a folder may go on with what a source has.
//!
//! What is here of one source counts for another only where that gives digests: they tell which bytes are the same.
//! Names and lengths do not, and a folder of two checkpoints would run and say what neither says. So a source without
//! digests is refused where anything of another one is, and where it has replaced a file that is finished here.

use std::path::Path;

use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::folder;
use crate::listing::{Listing, RemoteFile};
use crate::map::Map;
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

/// Refuses a source without digests that calls a file which is finished here another one than when it came. One that is
/// in the making is asked about when its next piece comes.
pub(crate) async fn check_finished(
    order: &Order<'_>,
    remote: &Remote,
    manner: Manner<'_>,
    listing: &Listing,
) -> Result<(), FetchError> {
    let tagged = listing.files.iter().filter_map(|file| Some((file, finished_tag(order, file)?)));
    let checks: Vec<_> =
        tagged.map(|(file, was)| check_file(order, remote, manner, file, was)).collect();
    futures_util::stream::iter(checks).buffer_unordered(order.jobs.max(1)).try_collect().await
}

async fn check_file(
    order: &Order<'_>,
    remote: &Remote,
    manner: Manner<'_>,
    file: &RemoteFile,
    was: String,
) -> Result<(), FetchError> {
    let ask = || asking(order.source, manner, || remote.tag(file));
    // One other answer may be a slip on the way.
    match is_other(&was, ask().await?) && is_other(&was, ask().await?) {
        true => Err(FetchError::Replaced {
            path: order.dir.join(&file.name),
            asked: order.source.to_string(),
        }),
        false => Ok(()),
    }
}

/// What the source called a file that is finished here, where nothing else tells what it is.
fn finished_tag(order: &Order<'_>, file: &RemoteFile) -> Option<String> {
    if file.proof != Proof::None {
        return None;
    }
    let known = Map::read(&folder::map_path(order.dir, &file.name), file).ok().flatten()?;
    known.tag.filter(|_| known.proven)
}

/// A source that gives no tag says nothing.
fn is_other(was: &str, is: Option<String>) -> bool {
    is.is_some_and(|is| is != was)
}
