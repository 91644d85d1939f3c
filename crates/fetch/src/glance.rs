//! A few files of a source, to see what it is before anything of it is brought here.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::install::running;
use crate::listing::RemoteFile;
use crate::remote::{Manner, Remote, asking, reach};
use crate::{FetchError, Order, Watch, folder, prospect};

/// A longer one is not looked at.
const BYTES_MAX: u64 = 1 << 20;

/// A file of a source, as far as a glance goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glimpse {
    /// Of a file with tensors its header, after the length of that; of any other file all of it.
    pub bytes: Vec<u8>,
    /// How long the file is.
    pub file_bytes: u64,
}

/// The files of these names, in their order, at the source of an order, or in its folder where they are there already;
/// nothing for those that the source does not have. Nothing is written.
///
/// # Errors
/// Where the source gives nothing, or a file other than of tensors has more than 1 MiB.
pub fn glance<const N: usize>(
    order: &Order<'_>,
    names: [&str; N],
    watch: Arc<dyn Watch>,
    stop: &AtomicBool,
) -> Result<[Option<Glimpse>; N], FetchError> {
    let asked = order.source.to_string();
    let record = folder::record(order.dir)?.filter(|record| record.asked == asked);
    running(order.dir, stop, async {
        let manner = Manner { endpoint: order.endpoint, patience: &order.patience, watch: &*watch };
        let known = record.map(|record| record.listing);
        let (remote, listing) = reach(order.source, known, manner).await?;
        let mut glimpses = [const { None }; N];
        for (name, glimpse) in names.iter().zip(&mut glimpses) {
            let file = listing.files.iter().find(|file| file.name == *name);
            if let Some(file) = file {
                *glimpse = Some(at(order, &remote, manner, file).await?);
            }
        }
        Ok(glimpses)
    })
}

async fn at(
    order: &Order<'_>,
    remote: &Remote,
    manner: Manner<'_>,
    file: &RemoteFile,
) -> Result<Glimpse, FetchError> {
    let (source, dir, file_bytes) = (order.source, order.dir, file.bytes);
    let bytes = if file.is_shard() {
        prospect::head(remote, source, manner, dir, file).await?
    } else if file_bytes > BYTES_MAX {
        let why = format!("{} has {file_bytes} bytes, which is too long", file.name);
        return Err(FetchError::Source { what: source.to_string(), why });
    } else {
        match fs::read(dir.join(&file.name)).ok().filter(|here| here.len() as u64 == file_bytes) {
            Some(here) => here,
            None => asking(source, manner, || remote.whole(file)).await?,
        }
    };
    Ok(Glimpse { bytes, file_bytes })
}
