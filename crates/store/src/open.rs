//! Opening: from a folder, or a set of files in memory, to a [`Checkpoint`].
//!
//! Only headers and small files are read. Every shard is looked at, also those that are
//! not needed first, so that a checkpoint that opens is whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltafin_checkpoint::{
    Catalog, CatalogBuilder, Config, Generation, Header, HeaderError, Index, Problems, Recipe,
    ShardId, Span, header_extent,
};

use crate::checkpoint::stop_ids;
use crate::error::reason;
use crate::folder::{DirFolder, Folder, MemoryFolder, leftovers, some_names};
use crate::freed;
use crate::local::not_found;
use crate::{
    Checkpoint, LocalShards, MemoryShards, OpenError, ShardBytes, SpineNote, Store, TokenizerFiles,
};

const CONFIG: &str = "config.json";
const GENERATION: &str = "generation_config.json";
const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";
const RANKS: &str = "tiktoken.model";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// One of these is there while an installation is not finished: files may be missing, or of two revisions.
const UNFINISHED: [&str; 2] = [".deltafin/install.json.part", ".deltafin/stream.json.part"];
/// Is there where shards have holes.
const STREAMED: &str = ".deltafin/stream.json";

/// The released configuration has 7 KB, the released tokenizer 2.8 MB.
const SMALL_LIMIT: u64 = 16 << 20;
/// The released index has 60 MB.
const INDEX_LIMIT: u64 = 1 << 30;

/// What a look at a folder found.
#[derive(Debug)]
pub struct Inspection {
    /// Every reason to refuse it.
    pub problems: Vec<OpenError>,
    /// The checkpoint, if there is no such reason.
    pub checkpoint: Option<Checkpoint>,
}

/// Opens the checkpoint in a folder. The folder and the files in it may be links.
pub fn open_dir(path: impl AsRef<Path>) -> Result<Checkpoint, OpenError> {
    first_problem(inspect_dir(path))
}

/// Opens a checkpoint from files in memory, given by name.
pub fn from_memory(files: &[(&str, &'static [u8])]) -> Result<Checkpoint, OpenError> {
    let bytes = |name: &str| files.iter().find(|(known, _)| *known == name).map(|file| file.1);
    let shards = |names: &[String]| -> Result<Arc<dyn Store>, OpenError> {
        let found = names.iter().filter_map(|name| Some((name, bytes(name)?)));
        let shards = found.map(|(name, bytes)| (name.clone(), ShardBytes::Static(bytes)));
        let shards = MemoryShards::new(shards);
        let missing = names.iter().filter(|name| bytes(name).is_none()).cloned().collect();
        refuse_incomplete(Path::new("memory"), names.len(), missing)?;
        Ok(Arc::new(shards))
    };
    first_problem(inspect(&MemoryFolder(files), "memory".to_owned(), Vec::new(), shards))
}

/// What the two configurations of a model say about its token ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredIds {
    /// How many ids there are.
    pub vocab: usize,
    /// Every id that ends a reply, ascending.
    pub stop_ids: Vec<u32>,
}

/// What the configurations in a folder say about token ids, without a look at the weights; nothing
/// where there is no `config.json`.
pub fn declared_ids(path: impl AsRef<Path>) -> Result<Option<DeclaredIds>, OpenError> {
    let folder = DirFolder(path.as_ref());
    let config = match read_config(&folder) {
        Ok(config) => config,
        Err(OpenError::NoConfig { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let generation = read_generation(&folder, config.spec.vocab)?;
    let stop_ids = stop_ids(&config, &generation);
    Ok(Some(DeclaredIds { vocab: config.spec.vocab, stop_ids }))
}

/// As [`open_dir`], but goes on after a problem, to list all of them.
pub fn inspect_dir(path: impl AsRef<Path>) -> Inspection {
    let path = path.as_ref();
    let refused = |problem| Inspection { problems: vec![problem], checkpoint: None };
    if let Err(problem) = check_folder(path) {
        return refused(problem);
    }
    if path.join(STREAMED).exists() {
        return refused(OpenError::Streamed { path: path.to_owned() });
    }
    let notices = match leftovers(path) {
        names if names.is_empty() => Vec::new(),
        names => vec![format!("partial files of a transfer: {}", some_names(&names))],
    };
    let shards = |names: &[String]| -> Result<Arc<dyn Store>, OpenError> {
        let absent = |name: &&String| !path.join(name).exists() && !path.join(name).is_symlink();
        let missing = names.iter().filter(absent).cloned().collect();
        refuse_incomplete(path, names.len(), missing)?;
        Ok(Arc::new(LocalShards::open(path, names)?))
    };
    let found = inspect(&DirFolder(path), path.display().to_string(), notices, shards);
    match found.checkpoint.as_ref().map(freed::check_spine) {
        Some(Err(problem)) => refused(problem),
        _ => found,
    }
}

/// Opens the checkpoint in a folder that does not have all bytes of its shards: `shards` makes the store
/// of those with these names, in this order.
pub fn open_streamed(
    path: &Path,
    shards: impl Fn(&[String]) -> Result<Arc<dyn Store>, OpenError>,
) -> Result<Checkpoint, OpenError> {
    first_problem(inspect_streamed(path, shards))
}

/// As [`open_streamed`], but goes on after a problem, to list all of them.
pub fn inspect_streamed(
    path: &Path,
    shards: impl Fn(&[String]) -> Result<Arc<dyn Store>, OpenError>,
) -> Inspection {
    match check_folder(path) {
        Ok(()) => inspect(&DirFolder(path), path.display().to_string(), Vec::new(), shards),
        Err(problem) => Inspection { problems: vec![problem], checkpoint: None },
    }
}

/// As [`open_streamed`], of a folder that is still being set up: `shards` has headers, and little else may be
/// read. Whether the released spine is there is for the caller to know.
pub fn open_unfinished(
    path: &Path,
    shards: impl Fn(&[String]) -> Result<Arc<dyn Store>, OpenError>,
) -> Result<Checkpoint, OpenError> {
    let opened = inspect(&DirFolder(path), path.display().to_string(), Vec::new(), shards);
    first_problem(opened).map(|checkpoint| Checkpoint { freed: None, ..checkpoint })
}

fn check_folder(path: &Path) -> Result<(), OpenError> {
    let is_unfinished = || UNFINISHED.iter().any(|record| path.join(record).exists());
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() && is_unfinished() => {
            Err(OpenError::Unfinished { path: path.to_owned() })
        }
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(OpenError::NotAFolder { path: path.to_owned() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match path.is_symlink() {
            true => Err(not_found(path)),
            false => Err(OpenError::NoFolder { path: path.to_owned() }),
        },
        Err(error) => Err(OpenError::Io { path: path.to_owned(), reason: reason(&error) }),
    }
}

fn refuse_incomplete(path: &Path, total: usize, missing: Vec<String>) -> Result<(), OpenError> {
    if missing.is_empty() {
        return Ok(());
    }
    let leftovers = match leftovers(path) {
        names if names.is_empty() => String::new(),
        names => format!("; a transfer was stopped, it left {}", some_names(&names)),
    };
    Err(OpenError::Incomplete {
        path: path.to_owned(),
        present: total - missing.len(),
        total,
        missing: some_names(&missing),
        leftovers,
        index: path.join(INDEX).exists().then(|| INDEX.to_owned()),
    })
}

fn first_problem(inspection: Inspection) -> Result<Checkpoint, OpenError> {
    let listed = inspection.problems.len() as u64;
    let more = match inspection.problems.last() {
        Some(OpenError::Unlisted { count, .. }) => listed - 2 + count,
        _ => listed.saturating_sub(1),
    };
    match (inspection.problems.into_iter().next(), inspection.checkpoint) {
        (None, Some(checkpoint)) => Ok(checkpoint),
        (Some(first), _) if more > 0 => Err(OpenError::Several { first: Box::new(first), more }),
        (Some(first), _) => Err(first),
        (None, None) => unreachable!("a checkpoint is refused for a reason"),
    }
}

type OpenShards<'o> = &'o dyn Fn(&[String]) -> Result<Arc<dyn Store>, OpenError>;

fn inspect(
    folder: &dyn Folder,
    source: String,
    notices: Vec<String>,
    shards: impl Fn(&[String]) -> Result<Arc<dyn Store>, OpenError>,
) -> Inspection {
    let mut problems = Vec::new();
    let checkpoint = assemble(folder, source, notices, &shards, &mut problems);
    let checkpoint = checkpoint.filter(|_| problems.is_empty());
    Inspection { problems, checkpoint }
}

/// Keeps a problem and goes on without the part.
fn noted<T>(result: Result<T, OpenError>, problems: &mut Vec<OpenError>) -> Option<T> {
    result.map_err(|problem| problems.push(problem)).ok()
}

fn assemble(
    folder: &dyn Folder,
    source: String,
    notices: Vec<String>,
    open_shards: OpenShards<'_>,
    problems: &mut Vec<OpenError>,
) -> Option<Checkpoint> {
    let config = noted(read_config(folder), problems);
    let vocab = config.as_ref().map_or(usize::MAX, |config| config.spec.vocab);
    let generation = noted(read_generation(folder, vocab), problems);
    let tokenizer = noted(read_tokenizer(folder), problems);
    let index_bytes = noted(folder.read(INDEX, INDEX_LIMIT), problems)?;
    let index = match &index_bytes {
        Some(bytes) => Some(noted(parse_index(folder, bytes), problems)?),
        None => None,
    };
    let names = noted(shard_names(folder, index.as_ref()), problems)?;
    let Some(store) = noted(open_shards(&names), problems) else {
        look_at_present(folder, &config?, &names, open_shards, problems);
        return None;
    };
    let config = config?;
    let note = folder.directory().map_or(Ok(None), SpineNote::read_if_any);
    let note = noted(note, problems)?;
    let catalog = read_catalog(folder, &config, index.as_ref(), &*store, problems)?;
    Some(Checkpoint {
        config,
        generation: generation?,
        catalog: Arc::new(catalog),
        store,
        tokenizer: tokenizer?,
        source,
        notices,
        folder: folder.directory().map(Path::to_owned),
        recipe: Recipe::Bf16,
        chosen: note.map(|note| note.recipe),
        freed: note.filter(|note| note.is_freed).map(|note| note.recipe),
        packed: None,
    })
}

fn read_config(folder: &dyn Folder) -> Result<Config, OpenError> {
    let path = || folder.path(CONFIG);
    let bytes = folder.read(CONFIG, SMALL_LIMIT)?;
    let bytes = bytes.ok_or_else(|| OpenError::NoConfig { path: path() })?;
    Config::parse(&bytes).map_err(|error| OpenError::Config { path: path(), error })
}

fn read_generation(folder: &dyn Folder, vocab: usize) -> Result<Generation, OpenError> {
    let Some(bytes) = folder.read(GENERATION, SMALL_LIMIT)? else {
        return Ok(Generation::default());
    };
    let path = || folder.path(GENERATION);
    Generation::parse(&bytes, vocab).map_err(|error| OpenError::Config { path: path(), error })
}

fn read_tokenizer(folder: &dyn Folder) -> Result<Option<TokenizerFiles>, OpenError> {
    let Some(ranks) = folder.read(RANKS, SMALL_LIMIT)? else {
        return Ok(None);
    };
    let config = folder.read(TOKENIZER_CONFIG, SMALL_LIMIT)?;
    Ok(Some(TokenizerFiles { ranks, config }))
}

fn parse_index<'b>(folder: &dyn Folder, bytes: &'b [u8]) -> Result<Index<'b>, OpenError> {
    Index::parse(bytes).map_err(|error| OpenError::Index { path: folder.path(INDEX), error })
}

/// The shards that the index names. Without one, those whose names say that they belong to a model:
/// the single file of small checkpoints, or the series that any one of its members implies.
fn shard_names(folder: &dyn Folder, index: Option<&Index<'_>>) -> Result<Vec<String>, OpenError> {
    if let Some(index) = index {
        return Ok(index.shards.iter().map(|name| name.to_string()).collect());
    }
    let files = folder.shard_files();
    if files.iter().any(|name| name == SINGLE) {
        return Ok(vec![SINGLE.to_owned()]);
    }
    let series = files.iter().find_map(|name| whole_series(name));
    series.ok_or_else(|| OpenError::NoIndex { path: folder.path("") })
}

/// All names of the series that `model-00003-of-000096.safetensors` is one of.
fn whole_series(name: &str) -> Option<Vec<String>> {
    /// No released model has more; a name alone must not make a long list.
    const MOST: usize = 4096;
    let inner = name.strip_prefix("model-")?.strip_suffix(".safetensors")?;
    let (number, total) = inner.split_once("-of-")?;
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (width, count) = (number.len(), total.parse::<usize>().ok()?);
    let sane = digits(number) && digits(total) && width <= 9 && (1..=MOST).contains(&count);
    let member = |i: usize| format!("model-{i:0width$}-of-{total}.safetensors");
    sane.then(|| (1..=count).map(member).collect())
}

/// Says what is wrong with the shards that are there while others are not, so that one look is
/// enough to know all that has to be fetched again.
fn look_at_present(
    folder: &dyn Folder,
    config: &Config,
    names: &[String],
    open_shards: OpenShards<'_>,
    problems: &mut Vec<OpenError>,
) {
    let present: Vec<_> = names.iter().filter(|name| folder.has(name)).cloned().collect();
    if present.len() == names.len() {
        return;
    }
    if let Some(store) = noted(open_shards(&present), problems)
        && let Some(builder) = add_shards(config, &*store, problems)
    {
        list(folder, builder.shard_problems(), problems);
    }
}

fn read_catalog(
    folder: &dyn Folder,
    config: &Config,
    index: Option<&Index<'_>>,
    store: &dyn Store,
    problems: &mut Vec<OpenError>,
) -> Option<Catalog> {
    let builder = add_shards(config, store, problems)?;
    builder.finish(index).map_err(|found| list(folder, found, problems)).ok()
}

fn add_shards<'c>(
    config: &'c Config,
    store: &dyn Store,
    problems: &mut Vec<OpenError>,
) -> Option<CatalogBuilder<'c>> {
    let mut builder = CatalogBuilder::new(config);
    let mut buf = Vec::new();
    for (number, shard) in store.shards().iter().enumerate() {
        let id = ShardId::new(number as u32);
        let header = noted(read_header(store, id, shard.len, &mut buf), problems)?;
        builder.add_shard(&shard.name, shard.len, header);
    }
    Some(builder)
}

fn list(folder: &dyn Folder, found: Problems, problems: &mut Vec<OpenError>) {
    let path: PathBuf = folder.path("");
    let count = found.unlisted();
    let problem =
        |problem| OpenError::Checkpoint { path: path.clone(), problem: Box::new(problem) };
    problems.extend(found.into_iter().map(problem));
    if count > 0 {
        problems.push(OpenError::Unlisted { path, count });
    }
}

/// Reads and parses a shard's header; the buffer is used again and again.
fn read_header<'b>(
    store: &dyn Store,
    shard: ShardId,
    len: u64,
    buf: &'b mut Vec<u8>,
) -> Result<Result<Header<'b>, HeaderError>, OpenError> {
    read_front(store, shard, len.min(8), buf)?;
    match header_extent(buf, len) {
        Ok(extent) => read_front(store, shard, extent, buf)?,
        Err(error) => return Ok(Err(error)),
    }
    Ok(Header::parse(buf, len))
}

fn read_front(
    store: &dyn Store,
    shard: ShardId,
    len: u64,
    buf: &mut Vec<u8>,
) -> Result<(), OpenError> {
    buf.resize(len as usize, 0);
    let span = Span::new(shard, 0, len).expect("from the start, nothing overflows");
    Ok(store.read_exact(span, buf)?)
}
