//! What can go wrong outside: while opening, and while reading later.

use std::io;
use std::path::PathBuf;

use deltafin_checkpoint::{ConfigError, IndexError, Problem};
use thiserror::Error;

/// A read that failed. It ends what needed the bytes, nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum StoreError {
    #[error("shard {number} was asked for, the store has {shards}")]
    NoShard { number: usize, shards: usize },
    #[error(
        "{file}: wanted {wanted} bytes at offset {offset}, the file ends after {got} of them; \
         it was cut since it was opened, or the span is not from this checkpoint"
    )]
    EndOfFile { file: String, offset: u64, wanted: u64, got: u64 },
    #[error(
        "{file}: reading {wanted} bytes at offset {offset} failed twice: {reason}; check the \
         drive"
    )]
    Read { file: String, offset: u64, wanted: u64, reason: String },
    #[error(
        "{file}: cannot be opened again to read {wanted} bytes at offset {offset}: {reason}; check \
         the drive"
    )]
    Reopen { file: String, offset: u64, wanted: u64, reason: String },
    #[error(
        "{file}: cannot be opened again: this process may open {limit} files, which are in use; raise \
         the limit (`ulimit -n`)"
    )]
    Descriptors { file: String, limit: u64 },
    #[error(
        "{file}: read twice, and between offsets {offset} and {} not what was written; `deltafin verify --deep --repair` \
         mends what setup brought or packed, `deltafin convert` makes a pack again",
        offset + len
    )]
    Damaged { file: String, offset: u64, len: u64 },
    #[error(
        "{file}: {what} changed since it was opened, seen before a read of {wanted} bytes at offset \
         {offset}; start again with files at rest"
    )]
    Changed { file: String, offset: u64, wanted: u64, what: &'static str },
    #[error(
        "{file}: the released spine is not here, its pack is; `deltafin setup --spine bf16` fetches it again"
    )]
    Freed { file: String },
    #[error("{file}: {wanted} bytes at offset {offset} are not here and cannot be had: {reason}")]
    Distant { file: String, offset: u64, wanted: u64, reason: String },
}

/// A checkpoint that cannot be opened, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum OpenError {
    #[error("{}: no such folder; check the path", path.display())]
    NoFolder { path: PathBuf },
    #[error(
        "{}: its installation is not finished; 'deltafin setup --model {}' goes on with it",
        path.display(), path.display()
    )]
    Unfinished { path: PathBuf },
    #[error(
        "{}: its experts are not here, and what was asked for does not get them from their source; \
         'deltafin setup --full --model {}' brings them here", path.display(), path.display()
    )]
    Streamed { path: PathBuf },
    #[error(
        "{}: '{found}' is no note on a spine that this program knows (version {known}); use the program \
         that wrote it", path.display()
    )]
    SpineNote { path: PathBuf, found: String, known: u64 },
    #[error(
        "{}: {file}: {tensor} is all zeros: the released spine is not here, only holes that setup left when it packed it; \
         `deltafin setup --spine bf16 --model {}` fetches it again, and a copy of a folder needs its .deltafin, too",
        model.display(), model.display()
    )]
    SpineGone { model: PathBuf, file: String, tensor: String },
    #[error("{}: not a folder; give the folder that holds config.json", path.display())]
    NotAFolder { path: PathBuf },
    #[error(
        "{}: link to {}, which does not exist; fetch that file again", link.display(), target.display()
    )]
    DanglingLink { link: PathBuf, target: PathBuf },
    #[error("{}: not an ordinary file; put the file itself there", path.display())]
    NotAFile { path: PathBuf },
    #[error("{}: {reason}", path.display())]
    Io { path: PathBuf, reason: String },
    #[error(
        "{}: {found} bytes, more than the {limit} that are accepted; fetch it again", path.display()
    )]
    TooLarge { path: PathBuf, found: u64, limit: u64 },
    #[error(
        "{}: missing; this folder holds no checkpoint of Kimi K3, give one that does", path.display()
    )]
    NoConfig { path: PathBuf },
    #[error(
        "{}: no model.safetensors.index.json and no model*.safetensors are here; fetch them",
        path.display()
    )]
    NoIndex { path: PathBuf },
    #[error("{}: {error}; {}", path.display(), config_remedy(error))]
    Config { path: PathBuf, error: ConfigError },
    #[error("{}: {error}; {}", path.display(), index_remedy(error))]
    Index { path: PathBuf, error: IndexError },
    #[error(
        "{}: incomplete, {present} of {total} shards present; missing: {missing}{leftovers}; {}",
        path.display(), missing_remedy(index.as_deref())
    )]
    Incomplete {
        path: PathBuf,
        present: usize,
        total: usize,
        missing: String,
        leftovers: String,
        /// The file that names the shards, where one does.
        index: Option<String>,
    },
    #[error(
        "{}: this process may open {limit} files, the checkpoint has {shards} shards; raise \
         the limit (`ulimit -n`)", path.display()
    )]
    Descriptors { path: PathBuf, limit: u64, shards: usize },
    #[error("{}: {problem}", path.display())]
    Checkpoint { path: PathBuf, problem: Box<Problem> },
    #[error("{}: {} like these", path.display(), more_problems(*count))]
    Unlisted { path: PathBuf, count: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{first} (and {}; `deltafin inspect` lists them)", more_problems(*more))]
    Several { first: Box<OpenError>, more: u64 },
}

/// A name that no shard ever had is missing, too: then the index is what is damaged.
fn missing_remedy(index: Option<&str>) -> String {
    match index {
        Some(index) => format!("fetch what is missing, or {index} again if it names them wrongly"),
        None => "fetch what is missing".to_owned(),
    }
}

/// What the system says, and what to do where that is known.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!("{error}; let this user read it"),
        _ => error.to_string(),
    }
}

/// A file that says what the engine cannot run is no damaged one.
fn config_remedy(error: &ConfigError) -> &'static str {
    match error {
        ConfigError::Unsupported { .. } => "give a checkpoint of the released Kimi K3",
        ConfigError::ByteOrderMark => SAVE_WITHOUT_MARK,
        _ => FETCH_AGAIN,
    }
}

fn index_remedy(error: &IndexError) -> &'static str {
    match error {
        IndexError::ByteOrderMark => SAVE_WITHOUT_MARK,
        _ => FETCH_AGAIN,
    }
}

const FETCH_AGAIN: &str = "fetch it again";
/// An editor has been at it: what it says may be meant.
const SAVE_WITHOUT_MARK: &str = "save it as UTF-8 without one, or fetch it again";

fn more_problems(count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} more problem{plural}")
}
