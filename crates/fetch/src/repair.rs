//! What is damaged comes again, or the folder stays as it is.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::anew::Current;
use crate::install::running;
use crate::listing::{Listing, RemoteFile};
use crate::packed::mend;
use crate::remote::{Manner, asking};
use crate::verify::{Damage, give_up};
use crate::{
    FetchError, Installed, Order, Watch, folder, install, is_finished, is_streamed, origin,
};

/// Fetches again what is damaged in the folder of an order, and nothing else.
///
/// # Errors
/// As [`install`]. A folder of which all was here is not touched where its source gives nothing, or has replaced what
/// is here: it runs as it did.
pub fn repair(
    order: &Order<'_>,
    damage: &[Damage],
    watch: Arc<dyn Watch>,
    stop: &AtomicBool,
) -> Result<Installed, FetchError> {
    if is_finished(order.dir) {
        running(order.dir, stop, check(order, damage, &*watch))?;
    }
    give_up(order.dir, damage)?;
    install(order, watch, stop)
}

/// Refuses a source that does not give what is damaged.
async fn check(order: &Order<'_>, damage: &[Damage], watch: &dyn Watch) -> Result<(), FetchError> {
    let Some(record) = folder::record(order.dir)? else { return Ok(()) };
    let manner = Manner { endpoint: order.endpoint, patience: &order.patience, watch };
    let Current { remote, listing, .. } =
        Current::reach(order, Some(record.listing), manner).await?;
    origin::check_unchanged(order, &remote, manner, &listing, is_streamed(order.dir)).await?;
    let is_freed = mend::told(order.dir)?.is_freed;
    for (file, offset) in wanted(&listing, damage, is_freed) {
        // One byte: a server may give a file's state and none of its bytes.
        asking(order.source, manner, || remote.bytes(file, offset..offset + 1)).await?;
    }
    Ok(())
}

/// The first byte of what is damaged of each file. Of a pack, of what it is made from where that is not here: any shard
/// stands for it.
fn wanted<'l>(
    listing: &'l Listing,
    damage: &[Damage],
    is_freed: bool,
) -> Vec<(&'l RemoteFile, u64)> {
    let of = |file: &'l RemoteFile| {
        let first = damage.iter().find(|damage| damage.file == file.name);
        first.map(|damage| (file, damage.offset)).filter(|_| file.bytes > 0)
    };
    let mut wanted: Vec<_> = listing.files.iter().filter_map(of).collect();
    let is_listed = |name: &str| listing.files.iter().any(|file| file.name == name);
    let is_packed = |of: &Damage| of.converted.is_none() && of.bytes > 0 && !is_listed(&of.file);
    if is_freed && damage.iter().any(is_packed) {
        wanted.extend(listing.files.iter().find(|file| file.is_shard()).map(|file| (file, 0)));
    }
    wanted
}
