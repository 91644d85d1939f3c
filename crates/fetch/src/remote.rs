//! A source that is not this machine: what it has, and ranges of it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt as _};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, RetryConfig};
use reqwest::Url;
use tokio::time::sleep;

use crate::fault::{Fault, Hope};
use crate::hub::{self, Repository};
use crate::line::{self, Kind, Line};
use crate::listing::{Listing, RemoteFile};
use crate::mark::{self, Mark};
use crate::patience::Silence;
use crate::source::without_login;
use crate::{Event, FetchError, Patience, Source, Watch, bucket, mirror};

/// A source that files are read from.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    store: Arc<dyn ObjectStore>,
    line: Line,
}

/// Bytes on their way.
pub(crate) struct Slice {
    /// What the server calls this state of the file.
    pub(crate) tag: Option<String>,
    /// The bytes, as they come.
    pub(crate) bytes: BoxStream<'static, object_store::Result<Bytes>>,
}

/// How to ask.
#[derive(Clone, Copy)]
pub(crate) struct Manner<'a> {
    pub(crate) endpoint: Option<&'a str>,
    pub(crate) patience: &'a Patience,
    pub(crate) watch: &'a dyn Watch,
}

/// Goes to a source that is not a folder, and lists what it has, unless that is known.
pub(crate) async fn reach(
    source: &Source,
    known: Option<Listing>,
    manner: Manner<'_>,
) -> Result<(Remote, Listing), FetchError> {
    let told = |why: String| FetchError::Source { what: source.to_string(), why };
    match source {
        Source::Hub { repository, revision } => {
            let endpoint = hub::endpoint(manner.endpoint)?;
            let (token, stall) = (hub::token(), manner.patience.stall);
            let line = Line::new(&endpoint, token.as_deref(), Kind::Hub, stall)?;
            let here = Repository::new(endpoint, repository, revision);
            let (listing, commit) = match known {
                Some(listing) => {
                    let commit = revision_of(&listing.source).unwrap_or(revision).to_owned();
                    (listing, commit)
                }
                None => asking(source, manner, || here.listing(&line)).await?,
            };
            line.pin(&commit);
            let folder = here.folder(&commit).map_err(|fault| told(fault.to_string()))?;
            let remote = Remote::web(&folder, line).map_err(told)?;
            Ok((remote, listing))
        }
        Source::Web(url) => {
            let line = Line::new(url, None, Kind::Web, manner.patience.stall)?;
            let remote = Remote::web(&without_login(url), line).map_err(told)?;
            let listing = match known {
                Some(listing) => listing,
                None => mirror::listing(&remote, source, manner).await?,
            };
            Ok((remote, listing))
        }
        Source::Bucket(url) => {
            let line = bucket::line(manner.patience.stall)?;
            let store = bucket::store(url, line.clone(), retries())?;
            let remote = Remote { store, line };
            let listing = match known {
                Some(listing) => listing,
                None => asking(source, manner, || bucket::listing(remote.store(), source)).await?,
            };
            Ok((remote, listing))
        }
        Source::Folder(_) => Err(told("it is here already; there is nothing to fetch".to_owned())),
    }
}

fn revision_of(source: &str) -> Option<&str> {
    source.split_once('@').map(|(_, revision)| revision)
}

/// Asks until there is an answer, or no use.
pub(crate) async fn asking<T, F: Future<Output = Result<T, Fault>>>(
    source: &Source,
    manner: Manner<'_>,
    ask: impl Fn() -> F,
) -> Result<T, FetchError> {
    let what = source.to_string();
    let mut silence = Silence::new();
    loop {
        // It may take several answers; the line gives up each that stands still.
        let fault = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(fault) => fault,
        };
        let wait = match &fault {
            Fault::Passing { after, hope, .. } => {
                silence.wait(manner.patience, *after, *hope != Hope::Good)
            }
            Fault::Changed(_) => silence.wait(manner.patience, None, false),
            Fault::Lasting(_) => None,
        };
        let why = fault.to_string();
        let Some(wait) = wait else { return Err(FetchError::Source { what, why }) };
        manner.watch.event(Event::Waiting { name: &what, why: &why, wait });
        sleep(wait).await;
    }
}

/// None of the client's own: ours know the server's delay and how many requests are on their way.
fn retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// Where a file is below the folder: its name as it is, for the client writes it as a URL does.
pub(crate) fn place(name: &str) -> Result<Path, Fault> {
    Path::parse(name).map_err(|error| Fault::Lasting(error.to_string()))
}

impl Remote {
    /// Files side by side below a URL.
    fn web(folder: &Url, line: Line) -> Result<Remote, String> {
        // Names are joined to it with a slash.
        let folder_url = folder.as_str().trim_end_matches('/');
        let builder = HttpBuilder::new().with_url(folder_url).with_retry(retries());
        let store = builder.with_http_connector(line.clone()).build();
        let store = store.map_err(|error| format!("{}: {error}", line::host(folder)))?;
        Ok(Remote { store: Arc::new(store), line })
    }

    /// The files.
    pub(crate) fn store(&self) -> &dyn ObjectStore {
        &*self.store
    }

    /// How far this machine's clock is before the source's, if it told the time.
    pub(crate) fn clock_ahead_seconds(&self) -> Option<i64> {
        self.line.clock_ahead_seconds()
    }

    /// What the server says of the state that a file is in at this moment; nothing where it has none.
    pub(crate) async fn mark(&self, file: &RemoteFile) -> Result<Option<Mark>, Fault> {
        match self.store.head(&place(&file.name)?).await {
            Ok(meta) => Ok(Some(Mark { bytes: meta.size, tag: mark::tag(&meta, file) })),
            Err(error) if Fault::is_absence(&error) => Ok(None),
            Err(error) => Err(Fault::of(&error)),
        }
    }

    /// Asks for bytes of a file. Only what is said to be exactly these, of a file of that length, is
    /// an answer.
    pub(crate) async fn read(&self, file: &RemoteFile, range: Range<u64>) -> Result<Slice, Fault> {
        let options =
            GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
        let reply = self.store.get_opts(&place(&file.name)?, options).await;
        let reply = reply.map_err(|error| Fault::of(&error))?;
        if reply.meta.size != file.bytes {
            return Err(Fault::Changed(mark::lengths(file.bytes, reply.meta.size)));
        }
        if reply.range != range {
            return Err(Fault::passing("another range came than was asked for"));
        }
        let tag = mark::tag(&reply.meta, file);
        Ok(Slice { tag, bytes: reply.into_stream() })
    }

    /// All bytes of a small file.
    pub(crate) async fn whole(&self, file: &RemoteFile) -> Result<Vec<u8>, Fault> {
        self.bytes(file, 0..file.bytes).await
    }

    /// A few bytes of a file.
    pub(crate) async fn bytes(
        &self,
        file: &RemoteFile,
        range: Range<u64>,
    ) -> Result<Vec<u8>, Fault> {
        let wanted = range.end - range.start;
        if wanted == 0 {
            return Ok(Vec::new());
        }
        let mut slice = self.read(file, range).await?;
        let mut all = Vec::new();
        while let Some(bytes) = slice.bytes.next().await {
            all.extend_from_slice(&bytes.map_err(|error| Fault::of(&error))?);
            if all.len() as u64 > wanted {
                return Err(Fault::passing("more came than was asked for"));
            }
        }
        match all.len() as u64 == wanted {
            true => Ok(all),
            false => Err(Fault::passing("it ended early")),
        }
    }
}
