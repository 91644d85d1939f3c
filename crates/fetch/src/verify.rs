//! Whether an installed folder still has what was proven when it came, and what to fetch again if not.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use deltafin_checkpoint::{Header, Recipe, header_extent};
use deltafin_store::SpineNote;

use crate::cut::{self, LENGTH_BYTES, Owner, Piece};
use crate::folder::{self, Folder, Kind};
use crate::layered::{self, Compact};
use crate::listing::RemoteFile;
use crate::map::{Digest, Known, Map};
use crate::packed::{Pack, mend};
use crate::wanted::Goal;
use crate::{Event, FetchError, Wanted, Watch, prospect};

/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Bytes of a file that are not what they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// The first byte of the piece.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// What is in it, in words.
    pub of: String,
    /// The recipe of the pack that it is in, where a conversion made that: another one makes it good, of what is here.
    /// All else is fetched again.
    pub converted: Option<Recipe>,
    /// The file that it was in and that ends before it, where experts lie layer by layer.
    pub cut_from: Option<String>,
}

/// What a look at an installed folder found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Files that were looked at.
    pub files: usize,
    /// Bytes that were read and held against digests.
    pub bytes: u64,
    /// What is damaged, file by file in the order of bytes.
    pub damage: Vec<Damage>,
}

/// Something to read.
enum Task<'r> {
    /// Of a file, this piece, which had this digest, and lies here; or all of it, if no pieces are known.
    File { file: &'r RemoteFile, piece: Option<(u64, u64, Digest)>, place: Option<(PathBuf, u64)> },
    /// The file of this number of a pack.
    Packed { pack: &'r Pack, number: usize },
}

/// Looks at every file that was installed in a folder, and at its packs; `is_deep`, at every byte.
pub fn verify(
    dir: &Path,
    is_deep: bool,
    watch: &dyn Watch,
    stop: &AtomicBool,
) -> Result<Verified, FetchError> {
    let nothing = || FetchError::NotInstalled { path: dir.to_owned() };
    let record = folder::record(dir)?.ok_or_else(nothing)?;
    let files = &record.listing.files;
    let state = folder::state(dir);
    let is_streamed = state.is_some_and(|(kind, _)| kind == Kind::Stream);
    let frees = mend::told(dir).is_ok_and(|note| note.is_freed);
    let goal = Goal::of(Wanted::Spine, frees);
    // Before it is finished, what its map lacks is what has not come yet.
    let goal = state.filter(|(_, is_finished)| *is_finished).map(|_| &goal);
    let mut found = Verified { files: files.len(), ..Verified::default() };
    found.damage.extend(mend::is_needed(dir)?.then(lost_note));
    let mut tasks = Vec::new();
    for file in files {
        let length = fs::metadata(dir.join(&file.name)).map_or(0, |meta| meta.len());
        let part = folder::part_path(dir, &file.name);
        let is_part = || fs::metadata(part).is_ok_and(|meta| meta.len() == file.bytes);
        let known = known(dir, file)?;
        let compact = Compact::here(dir, file, &known);
        if is_streamed && (is_part() || layered::has_length(dir, file, &known, &compact)) {
            // Of what has holes, or lies layer by layer, what is noted is here.
            let lost = lost(dir, file, &known, goal)?;
            let is_left =
                |task: &Task<'_>| is_deep && !lost.iter().any(|lost| task.is_at(lost.offset));
            tasks.extend(noted(dir, file, &known, &compact).into_iter().filter(is_left));
            found.damage.extend(lost);
        } else if length != file.bytes {
            let of = format!("{length} bytes of {}", file.bytes);
            found.damage.push(whole(file, of));
        } else if is_deep {
            match covers(&known, file.bytes) {
                true => tasks.extend(known.pieces.into_iter().map(|piece| task(file, piece))),
                false => tasks.push(Task::File { file, piece: None, place: None }),
            }
        }
    }
    let packs = Pack::all(dir);
    tasks.extend(look_at(&packs, is_deep, &mut found));
    read(dir, &record.listing.source, &tasks, found, watch, stop)
}

/// As [`verify`], of the packs that lie in a folder, whoever brought its checkpoint; `is_deep`, at every byte.
pub fn verify_packs(
    dir: &Path,
    is_deep: bool,
    watch: &dyn Watch,
    stop: &AtomicBool,
) -> Result<Verified, FetchError> {
    let (packs, mut found) = (Pack::all(dir), Verified::default());
    let tasks = look_at(&packs, is_deep, &mut found);
    read(dir, &dir.display().to_string(), &tasks, found, watch, stop)
}

/// What lengths tell of packs; gives what is to be read of those that are whole by these.
fn look_at<'p>(packs: &'p [Pack], is_deep: bool, found: &mut Verified) -> Vec<Task<'p>> {
    let mut tasks = Vec::new();
    for pack in packs {
        found.files += pack.files();
        let damage = pack.shallow();
        if is_deep && damage.is_empty() {
            tasks.extend((0..pack.files()).map(|number| Task::Packed { pack, number }));
        }
        found.damage.extend(damage);
    }
    tasks
}

/// Reads what is to be read, beside what was found without.
fn read(
    dir: &Path,
    source: &str,
    tasks: &[Task<'_>],
    mut found: Verified,
    watch: &dyn Watch,
    stop: &AtomicBool,
) -> Result<Verified, FetchError> {
    found.bytes = tasks.iter().map(Task::bytes).sum();
    watch.event(Event::Plan { source, files: found.files, bytes: found.bytes });
    found.damage.extend(read_all(dir, tasks, watch, stop)?);
    found.damage.sort_by(|a, b| (&a.file, a.offset).cmp(&(&b.file, b.offset)));
    Ok(found)
}

/// That nothing says that the spine is in a pack alone.
fn lost_note() -> Damage {
    let file = SpineNote::path(Path::new("")).display().to_string();
    let of = "the note that what every token uses is in a pack alone".to_owned();
    Damage { file, offset: 0, bytes: 0, of, converted: None, cut_from: None }
}

fn whole(file: &RemoteFile, of: String) -> Damage {
    Damage {
        file: file.name.clone(),
        offset: 0,
        bytes: file.bytes,
        of,
        converted: None,
        cut_from: None,
    }
}

fn known(dir: &Path, file: &RemoteFile) -> Result<Known, FetchError> {
    let path = folder::map_path(dir, &file.name);
    let map = Map::read(&path, file).map_err(|error| FetchError::disk(&path, error))?;
    Ok(map.unwrap_or_default())
}

/// What is not here of a shard in the making, without a look at its bytes: pieces that its map has lost, and experts
/// whose layer's file ends before them.
fn lost(
    dir: &Path,
    file: &RemoteFile,
    known: &Known,
    goal: Option<&Goal>,
) -> Result<Vec<Damage>, FetchError> {
    let path = prospect::path(dir, file);
    let damage = |offset: u64, bytes: u64, why: &str| {
        let damage = damage(&path, file, Some((offset, bytes, [0; 32])));
        Damage { of: format!("{}, {why}", damage.of), ..damage }
    };
    let unnoted = goal.map_or_else(Vec::new, |goal| prospect::unnoted(dir, file, known, goal));
    // A header that is none tells no pieces of what follows it.
    let is_known = |piece: &&Piece| piece.owner != Owner::File || piece.offset <= LENGTH_BYTES;
    let unnoted = unnoted.iter().filter(is_known);
    let unnoted = unnoted.map(|piece| damage(piece.offset, piece.bytes, "not in its map"));
    let cut = layered::cut_off(dir, known);
    // What was taken away meanwhile was so in the map before its room was given back.
    let later = if cut.is_empty() { Known::default() } else { self::known(dir, file)? };
    let cut = cut.into_iter().filter(|(offset, _, slot)| later.slots.get(offset) == Some(slot));
    let cut = cut.map(|(offset, bytes, slot)| {
        let name = layered::records_path(Path::new(""), slot.layer).display().to_string();
        let damage = damage(offset, bytes, &format!("{name} ends before it"));
        Damage { cut_from: Some(name), ..damage }
    });
    Ok(unnoted.chain(cut).collect())
}

/// All that a map speaks of.
fn noted<'r>(dir: &Path, file: &'r RemoteFile, known: &Known, compact: &Compact) -> Vec<Task<'r>> {
    let place = |at| match known.is_layered {
        true => layered::place(dir, file, known, compact, at),
        false => None,
    };
    let task = |(at, (bytes, digest)): (&u64, &(u64, Digest))| Task::File {
        file,
        piece: Some((*at, *bytes, *digest)),
        place: place(*at),
    };
    known.pieces.iter().map(task).collect()
}

fn task(file: &RemoteFile, (offset, (bytes, digest)): (u64, (u64, Digest))) -> Task<'_> {
    Task::File { file, piece: Some((offset, bytes, digest)), place: None }
}

/// Takes damaged pieces back, so that the next installation fetches them and nothing else.
pub fn give_up(dir: &Path, damage: &[Damage]) -> Result<(), FetchError> {
    let folder = Folder::open(dir)?;
    let Some(record) = folder.record()? else { return Ok(()) };
    let disk = |error| FetchError::disk(dir, error);
    let packs = Pack::all(dir);
    packs.iter().try_for_each(Pack::check_version)?;
    // Unfinished first: whatever comes between, the folder does not run as it is.
    let (kind, _) = folder.state().unwrap_or((Kind::Full, false));
    folder.begin(&record, kind).map_err(disk)?;
    packs.iter().try_for_each(|pack| pack.give_up(damage)).map_err(disk)?;
    for file in &record.listing.files {
        let lost: Vec<u64> =
            damage.iter().filter(|damage| damage.file == file.name).map(|d| d.offset).collect();
        let (finished, part) = (folder.file(&file.name), folder.part(&file.name));
        let base = layered::base_path(dir, &file.name);
        if lost.is_empty() || ![&finished, &part, &base].iter().any(|path| path.exists()) {
            continue;
        }
        let map = folder.map(&file.name);
        let mut known = Map::read(&map, file).map_err(disk)?.unwrap_or_default();
        if known.proven && known.hole_bytes() > 0 && is_data(dir, file, &known, &lost) {
            // With holes it cannot be held against its digest as a whole; but what these pieces were is known.
            let is_lost = |offset: &u64| lost.contains(offset);
            let (more, pieces) = known.pieces.into_iter().partition(|(at, _)| is_lost(at));
            known.pieces = pieces;
            known.freed.extend::<BTreeMap<_, _>>(more);
            Map::create(&map, file, known).map_err(disk)?;
            continue;
        }
        known.pieces.retain(|offset, _| !lost.contains(offset));
        known.proven = false;
        // A map without proof before a part with damage: the other order could pass for a finished one.
        Map::create(&map, file, known).map_err(disk)?;
        if finished.exists() {
            fs::rename(&finished, part).map_err(disk)?;
        }
    }
    folder.sync().map_err(disk)
}

/// Whether no header is among what was lost.
fn is_data(dir: &Path, file: &RemoteFile, known: &Known, lost: &[u64]) -> bool {
    let pieces = prospect::pieces_here(dir, file, known).unwrap_or_default();
    let is_data = |piece: &&Piece| piece.owner != Owner::File;
    lost.iter().all(|at| pieces.iter().filter(is_data).any(|piece| piece.offset == *at))
}

/// Whether pieces, and holes that a pack has the bytes of, follow each other from the first byte to the last.
fn covers(known: &Known, bytes: u64) -> bool {
    let all: BTreeMap<_, _> = known.freed.iter().chain(&known.pieces).collect();
    let end =
        all.iter().try_fold(0, |end, (offset, piece)| (**offset == end).then_some(end + piece.0));
    end == Some(bytes)
}

/// Reads all of it, on as many threads as there are processors; gives the damage.
fn read_all(
    dir: &Path,
    tasks: &[Task<'_>],
    watch: &dyn Watch,
    stop: &AtomicBool,
) -> Result<Vec<Damage>, FetchError> {
    let (next, damaged) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<(), FetchError> {
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(FetchError::Interrupted);
            }
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(number) else { return Ok(()) };
            let found = task.damage(dir, &mut block)?;
            damaged.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
            watch.event(Event::Kept { bytes: task.bytes() });
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = running.into_iter().map(|thread| match thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect::<Result<(), _>>()
    })?;
    Ok(damaged.into_inner().unwrap_or_else(PoisonError::into_inner))
}

impl Task<'_> {
    /// Whether it is the piece that begins there.
    fn is_at(&self, offset: u64) -> bool {
        matches!(self, Task::File { piece: Some((at, ..)), .. } if *at == offset)
    }

    fn bytes(&self) -> u64 {
        match self {
            Task::File { file, piece, .. } => piece.map_or(file.bytes, |(_, bytes, _)| bytes),
            Task::Packed { pack, number } => pack.bytes(*number),
        }
    }

    /// Reads it; gives what is damaged.
    fn damage(&self, dir: &Path, block: &mut [u8]) -> Result<Vec<Damage>, FetchError> {
        let (file, piece, place) = match self {
            Task::Packed { pack, number } => return Ok(pack.deep(*number)),
            Task::File { file, piece, place } => (*file, *piece, place.clone()),
        };
        let path = prospect::path(dir, file);
        match is_damaged(dir, &path, file, piece, place, block) {
            Ok(false) => Ok(Vec::new()),
            Ok(true) => Ok(vec![damage(&path, file, piece)]),
            Err(error) => Err(FetchError::disk(&path, error)),
        }
    }
}

/// Whether it is not what it was. A program that runs the model may take experts away while they are read here.
fn is_damaged(
    dir: &Path,
    path: &Path,
    file: &RemoteFile,
    piece: Option<(u64, u64, Digest)>,
    mut place: Option<(PathBuf, u64)>,
    block: &mut [u8],
) -> io::Result<bool> {
    let Some((offset, bytes, digest)) = piece else {
        return Ok(!file.proof.holds(path, file.bytes)?.unwrap_or(true));
    };
    let holds = |place: &Option<(PathBuf, u64)>, block: &mut [u8]| -> io::Result<bool> {
        let (path, at) = place.as_ref().map_or((path, offset), |(path, at)| (path, *at));
        Ok(layered::digest_in(path, at, bytes, block)? == Some(digest))
    };
    if holds(&place, block)? {
        return Ok(false);
    }
    let noted = Piece { offset, bytes, owner: Owner::File };
    let map = folder::map_path(dir, &file.name);
    loop {
        let known = Map::read(&map, file)?.unwrap_or_default();
        let before = known.turns(&noted);
        if known.is_layered {
            let compact = Compact::here(dir, file, &known);
            place = layered::place(dir, file, &known, &compact, offset);
        }
        if before % 2 == 0 || holds(&place, block)? {
            return Ok(false);
        }
        if Map::read(&map, file)?.unwrap_or_default().turns(&noted) == before {
            return Ok(true);
        }
    }
}

fn damage(path: &Path, file: &RemoteFile, piece: Option<(u64, u64, Digest)>) -> Damage {
    let name = file.name.clone();
    let Some((offset, bytes, _)) = piece else {
        return whole(file, "the file".to_owned());
    };
    let of = match owner(path, file, offset).unwrap_or(Owner::File) {
        Owner::File if offset <= LENGTH_BYTES && file.is_shard() => "its header".to_owned(),
        Owner::File => "the file".to_owned(),
        Owner::Global => "weights outside the layers".to_owned(),
        Owner::Layer(layer) => format!("layer {layer}, what every token uses"),
        Owner::Expert(layer, expert) => format!("layer {layer}, expert {expert}"),
    };
    Damage { file: name, offset, bytes, of, converted: None, cut_from: None }
}

/// Whose bytes a shard has at an offset, as far as its header can be read.
fn owner(path: &Path, file: &RemoteFile, offset: u64) -> Option<Owner> {
    use std::os::unix::fs::FileExt as _;
    let open = File::open(path).ok().filter(|_| file.is_shard())?;
    let read = |bytes: u64| {
        let mut head = vec![0; bytes as usize];
        open.read_exact_at(&mut head, 0).ok().map(|()| head)
    };
    let head = read(header_extent(&read(LENGTH_BYTES)?, file.bytes).ok()?)?;
    let header = Header::parse(&head, file.bytes).ok()?;
    let holds = |piece: &Piece| (piece.offset..piece.end()).contains(&offset);
    cut::shard(&header).into_iter().find(holds).map(|piece| piece.owner)
}

/// What is known of a file that has its name though its map says that it is not proven: a repair was
/// stopped before it was taken back.
pub(crate) fn is_taken_back(known: &Known) -> bool {
    !known.proven && !known.pieces.is_empty()
}
