//! A checkpoint that is on its way, as a store: what of its shards is here can be read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use deltafin_checkpoint::{Shard, Span};
use deltafin_store::{OpenError, Store, StoreError};

use crate::layered::{self, Compact};
use crate::listing::{Listing, RemoteFile};
use crate::map::Map;
use crate::{folder, prospect};

/// Shards, finished or in the making.
#[derive(Debug)]
pub(super) struct Arriving {
    dir: PathBuf,
    shards: Vec<Shard>,
    files: Vec<RemoteFile>,
}

impl Arriving {
    /// The shards of these names, which the listing has to have.
    pub(super) fn of(
        dir: PathBuf,
        names: &[String],
        listing: &Listing,
    ) -> Result<Arriving, OpenError> {
        let file = |name: &String| listing.files.iter().find(|file| file.name == *name).cloned();
        let gone = |name: &String| OpenError::Io {
            path: dir.join(name),
            reason: "the index names it, the source has none".to_owned(),
        };
        let files: Result<Vec<_>, _> =
            names.iter().map(|name| file(name).ok_or_else(|| gone(name))).collect();
        let files = files?;
        let shard = |file: &RemoteFile| Shard { name: file.name.clone(), len: file.bytes };
        let shards = files.iter().map(shard).collect();
        Ok(Arriving { dir, shards, files })
    }
}

impl Store for Arriving {
    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// A file has another name once it is proven, so it is opened each time.
    fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        let number = span.shard().index();
        let shards = self.shards.len();
        let file = self.files.get(number).ok_or(StoreError::NoShard { number, shards })?;
        let path = prospect::path(&self.dir, file);
        let place = || -> io::Result<u64> {
            if path != layered::base_path(&self.dir, &file.name) {
                return Ok(span.offset());
            }
            let known = Map::read(&folder::map_path(&self.dir, &file.name), file)?;
            let compact = Compact::here(&self.dir, file, &known.unwrap_or_default());
            let run = compact.run(span.offset()).filter(|(_, end)| span.end() <= *end);
            run.map(|(at, _)| at).ok_or_else(|| io::Error::other("it is not here"))
        };
        let at = place();
        let read = at.and_then(|at| File::open(&path)?.read_exact_at(buf, at));
        read.map_err(|error| StoreError::Read {
            file: path.display().to_string(),
            offset: span.offset(),
            wanted: span.len(),
            reason: error.to_string(),
        })
    }
}
