//! One piece of a file, from a source to wherever it is to lie, whatever goes wrong on the way.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::time::{sleep, timeout};

use crate::cut::Piece;
use crate::fault::{Fault, Hope};
use crate::lanes::{Lanes, Pace};
use crate::listing::RemoteFile;
use crate::map::Digest;
use crate::mark;
use crate::patience::Silence;
use crate::remote::Remote;
use crate::{Event, Patience, Watch};

/// Written at once. Writers of one file wait for each other, and a file system takes one long write in less
/// time than many short ones.
const BLOCK_BYTES: u64 = 1 << 20;

/// What all requests to a source share.
pub(crate) struct Traffic {
    pub(crate) remote: Remote,
    pub(crate) patience: Patience,
    pub(crate) lanes: Lanes,
    pub(crate) pace: Pace,
    pub(crate) watch: Arc<dyn Watch>,
    /// Bytes that came.
    pub(crate) received: AtomicU64,
    /// Requests that were sent.
    pub(crate) requests: AtomicU64,
    /// How often the source was left alone for a while.
    pub(crate) waits: AtomicU64,
    /// Why the source was given up: it gave nothing for so long that nothing more is begun, and what was begun is not
    /// tried again.
    pub(crate) given_up: Mutex<Option<String>>,
}

impl Traffic {
    /// Whether the source gave nothing for so long that nothing more is begun.
    pub(crate) fn is_given_up(&self) -> bool {
        self.gave_up().is_some()
    }

    /// As [`Traffic::is_given_up`], for what was not tried: with the reason.
    pub(crate) fn not_tried(&self) -> Option<String> {
        let why = self.gave_up();
        why.as_ref().map(|why| format!("not tried: the source gives nothing: {why}"))
    }

    /// The source is asked again.
    pub(crate) fn try_again(&self) {
        *self.gave_up() = None;
    }

    fn give_up(&self, why: &str) {
        self.gave_up().get_or_insert_with(|| why.to_owned());
    }

    fn gave_up(&self) -> MutexGuard<'_, Option<String>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that pieces are written to.
pub(crate) trait Sink: Send + Sync {
    /// The file that it is to be.
    fn file(&self) -> &RemoteFile;

    /// Writes bytes at their place.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes blocks one after the other, the first at its place.
    fn write_blocks(&self, blocks: &[Bytes], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for block in blocks {
            self.write(block, at)?;
            at += block.len() as u64;
        }
        Ok(())
    }

    /// The tag of the answers before, where this one is of another state of the file.
    fn other_tag(&self, tag: Option<&str>) -> io::Result<Option<String>>;
}

/// Why a piece is not here.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The file is not the one that was begun.
    Changed(String),
    /// It is not to be had.
    Lasting(String),
    /// It cannot be written.
    Disk(io::Error),
}

/// A piece as far as it has come.
struct Arrived {
    hasher: blake3::Hasher,
    bytes: u64,
    /// Another tag than that of the pieces before, when the last answer had one.
    other_tag: Option<String>,
}

/// What came of an answer and is not written yet.
#[derive(Default)]
struct Block {
    parts: Vec<Bytes>,
    bytes: u64,
}

impl Block {
    fn push(&mut self, bytes: Bytes) {
        self.bytes += bytes.len() as u64;
        self.parts.push(bytes);
    }
}

impl Arrived {
    /// Writes a block after what is there, and empties it.
    fn settle(
        &mut self,
        traffic: &Traffic,
        to: &dyn Sink,
        piece: Piece,
        block: &mut Block,
    ) -> io::Result<()> {
        let Block { parts, bytes } = std::mem::take(block);
        if bytes == 0 {
            return Ok(());
        }
        to.write_blocks(&parts, piece.offset + self.bytes)?;
        for part in &parts {
            self.hasher.update(part);
        }
        self.bytes += bytes;
        traffic.received.fetch_add(bytes, Ordering::Relaxed);
        traffic.try_again();
        traffic.watch.event(Event::Received { bytes });
        Ok(())
    }
}

/// Fetches a piece, going on at the byte where an answer ended early; gives the digest of what was
/// written.
pub(crate) async fn fetch(
    traffic: &Traffic,
    to: &dyn Sink,
    piece: Piece,
) -> Result<Digest, Broken> {
    let mut arrived = Arrived { hasher: blake3::Hasher::new(), bytes: 0, other_tag: None };
    let (mut silence, mut others) = (Silence::new(), traffic.received.load(Ordering::Relaxed));
    loop {
        let (lane, before) = (traffic.lanes.enter().await, arrived.bytes);
        if let Some(why) = traffic.not_tried() {
            return Err(Broken::Lasting(why));
        }
        let result = attempt(traffic, to, piece, &mut arrived).await;
        drop(lane);
        if arrived.bytes > before {
            silence.broken();
            others = traffic.received.load(Ordering::Relaxed);
        }
        let (why, after, crowded, hope) = match result {
            Ok(()) => {
                traffic.lanes.went_well();
                return Ok(*arrived.hasher.finalize().as_bytes());
            }
            Err(Attempt::Disk(error)) => return Err(Broken::Disk(error)),
            Err(Attempt::Fault(Fault::Changed(why))) => return Err(Broken::Changed(why)),
            Err(Attempt::Fault(Fault::Lasting(why))) => return Err(Broken::Lasting(why)),
            Err(Attempt::Fault(Fault::Passing { why, after, crowded, hope })) => {
                (why, after, crowded, hope)
            }
        };
        let is_hopeless = match hope {
            Hope::Good => false,
            Hope::WhereKnown => traffic.received.load(Ordering::Relaxed) == 0,
            Hope::Slight => true,
        };
        let wait = silence.wait(&traffic.patience, after, is_hopeless);
        let Some(wait) = wait.filter(|_| !traffic.is_given_up()) else {
            if traffic.received.load(Ordering::Relaxed) == others {
                traffic.give_up(&why);
            }
            return Err(Broken::Lasting(why));
        };
        if crowded {
            traffic.lanes.crowded(wait);
        }
        traffic.waits.fetch_add(1, Ordering::Relaxed);
        traffic.watch.event(Event::Waiting { name: &to.file().name, why: &why, wait });
        sleep(wait).await;
    }
}

/// Why one request did not end its piece.
enum Attempt {
    Fault(Fault),
    Disk(io::Error),
}

impl From<Fault> for Attempt {
    fn from(fault: Fault) -> Attempt {
        Attempt::Fault(fault)
    }
}

/// One request for the rest of a piece.
async fn attempt(
    traffic: &Traffic,
    to: &dyn Sink,
    piece: Piece,
    arrived: &mut Arrived,
) -> Result<(), Attempt> {
    let stall = traffic.patience.stall;
    let still = || Fault::passing(format!("no byte for {} s", stall.as_secs_f32()));
    let range = piece.offset + arrived.bytes..piece.end();
    traffic.requests.fetch_add(1, Ordering::Relaxed);
    let reply = timeout(stall, traffic.remote.read(to.file(), range)).await;
    let mut slice = reply.map_err(|_| still())??;
    check_tag(to, slice.tag.take(), arrived)?;
    let mut block = Block::default();
    while arrived.bytes + block.bytes < piece.bytes {
        let next = match timeout(stall, slice.bytes.next()).await {
            Ok(Some(Ok(bytes))) => Ok(bytes),
            Ok(Some(Err(error))) => Err(Fault::of(&error)),
            Ok(None) => Err(Fault::passing("the answer ended early")),
            Err(_) => Err(still()),
        };
        let room = piece.bytes - arrived.bytes - block.bytes;
        match next {
            Ok(bytes) if bytes.len() as u64 <= room => {
                traffic.pace.take(bytes.len()).await;
                block.push(bytes);
            }
            other => {
                arrived.settle(traffic, to, piece, &mut block).map_err(Attempt::Disk)?;
                other?;
                return Err(Fault::passing("more came than was asked for").into());
            }
        }
        if block.bytes >= BLOCK_BYTES {
            arrived.settle(traffic, to, piece, &mut block).map_err(Attempt::Disk)?;
        }
    }
    arrived.settle(traffic, to, piece, &mut block).map_err(Attempt::Disk)
}

/// Refuses an answer from another state of the file. One such answer may be a slip on the way; two alike
/// mean that the file was replaced.
fn check_tag(to: &dyn Sink, tag: Option<String>, arrived: &mut Arrived) -> Result<(), Attempt> {
    let Some(was) = to.other_tag(tag.as_deref()).map_err(Attempt::Disk)? else {
        arrived.other_tag = None;
        return Ok(());
    };
    let words = mark::tags(&was, tag.as_deref().unwrap_or_default());
    if arrived.other_tag == tag {
        return Err(Fault::Changed(words).into());
    }
    arrived.other_tag = tag;
    Err(Fault::passing(words).into())
}
