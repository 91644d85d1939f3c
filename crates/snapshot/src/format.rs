//! The file format: a head, ids, rows of latent cache, the recurrent part, a digest.
//!
//! **Promise.** A file that is read to its end without a flaw was written whole for this checkpoint,
//! recipe and these tokens. Nothing is allocated for what a file says about itself: lengths are compared
//! with those that are expected, and with the file's own, before anything is read by them.
//! `docs/FORMAT.md` has the layout.

use crate::Flaw;
use deltafin_checkpoint::{Identity, Recipe};
use deltafin_model::{Recurrent, State};
use deltafin_spec::ModelSpec;
use std::io::{self, Read, Write};

/// The version of the format. It is raised when the layout changes, and when the same weights and tokens
/// come to give other bits: an old state would not continue the new text.
pub(crate) const VERSION: u8 = 1;

const MAGIC: [u8; 7] = *b"DFSNAP\0";
const HEAD_BYTES: usize = 56;
const DIGEST_BYTES: usize = 32;
/// Values are converted so many bytes at a time.
const PIECE_BYTES: usize = 1 << 20;
/// The class of device that computed it: a processor.
const CPU: u8 = 0;

/// Whose state it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The checkpoint.
    pub identity: Identity,
    /// How its spine is represented.
    pub recipe: Recipe,
}

/// How large a state is, in values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The recurrent part.
    pub recurrent: usize,
    /// One position of the latent cache.
    pub row: usize,
}

impl Shape {
    /// The shape of a model's states.
    pub fn of(spec: &ModelSpec) -> Shape {
        Shape { recurrent: Recurrent::len_for(spec), row: State::latent_row_len(spec) }
    }

    /// Bytes of the recurrent part.
    pub fn recurrent_bytes(self) -> u64 {
        self.recurrent as u64 * 4
    }

    /// Bytes of a file of so many positions; nothing where that cannot be.
    pub fn file_bytes(self, positions: u64) -> Option<u64> {
        let per_position = (self.row as u64).checked_add(1)?.checked_mul(4)?;
        let fixed = (HEAD_BYTES + DIGEST_BYTES) as u64;
        let recurrent = (self.recurrent as u64).checked_mul(4)?;
        positions.checked_mul(per_position)?.checked_add(recurrent)?.checked_add(fixed)
    }
}

/// What stands at the beginning of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Whose state it is.
    pub origin: Origin,
    /// How large it is.
    pub shape: Shape,
    /// The tokens it comes after.
    pub positions: u64,
}

impl Head {
    fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = VERSION;
        bytes[8..24].copy_from_slice(&self.origin.identity.to_bytes());
        bytes[24] = recipe_byte(self.origin.recipe);
        bytes[25] = CPU;
        for (at, number) in
            [(32, self.positions), (40, self.shape.recurrent as u64), (48, self.shape.row as u64)]
        {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads a head.
    ///
    /// # Errors
    /// When the bytes are no head of this version.
    pub fn parse(bytes: &[u8]) -> Result<Head, Flaw> {
        let short = Flaw::Short { bytes: bytes.len() as u64 };
        let head = bytes.first_chunk::<HEAD_BYTES>().ok_or(short)?;
        if head[..7] != MAGIC {
            return Err(Flaw::Magic);
        }
        if head[7] != VERSION {
            return Err(Flaw::Version { found: head[7] });
        }
        let recipe = Recipe::ALL.into_iter().find(|recipe| recipe_byte(*recipe) == head[24]);
        let recipe = recipe.filter(|_| head[25..32] == [CPU, 0, 0, 0, 0, 0, 0]);
        let len = |at: usize| usize::try_from(number(head, at)).map_err(|_| Flaw::Shape);
        let mut identity = [0; 16];
        identity.copy_from_slice(&head[8..24]);
        Ok(Head {
            origin: Origin {
                identity: Identity::from_bytes(identity),
                recipe: recipe.ok_or(Flaw::Recipe)?,
            },
            positions: number(head, 32),
            shape: Shape { recurrent: len(40)?, row: len(48)? },
        })
    }

    /// Whether it is what somebody wants who has these ids.
    fn admit(&self, origin: Origin, shape: Shape, ids: &[u32]) -> Result<(), Flaw> {
        if self.origin.identity != origin.identity {
            return Err(Flaw::Checkpoint);
        }
        if self.origin.recipe != origin.recipe {
            return Err(Flaw::Recipe);
        }
        if self.shape != shape {
            return Err(Flaw::Shape);
        }
        if self.positions == ids.len() as u64 { Ok(()) } else { Err(Flaw::Ids) }
    }
}

fn recipe_byte(recipe: Recipe) -> u8 {
    match recipe {
        Recipe::Bf16 => 0,
        Recipe::Int8 => 1,
    }
}

fn number(head: &[u8; HEAD_BYTES], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&head[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Writes a whole file: `rows` piece by piece in the order of positions, then the recurrent part.
///
/// # Errors
/// When `out` does not take it.
pub fn write<'a>(
    out: &mut impl Write,
    head: Head,
    ids: impl Iterator<Item = &'a [u32]>,
    rows: impl Iterator<Item = &'a [f32]>,
    recurrent: &'a [f32],
) -> io::Result<()> {
    let mut out = Hashing { out, hasher: blake3::Hasher::new(), piece: Vec::new() };
    out.bytes(&head.to_bytes())?;
    for ids in ids {
        out.words(ids, |id| id.to_le_bytes())?;
    }
    for values in rows.chain([recurrent]) {
        out.words(values, |value| value.to_le_bytes())?;
    }
    let digest = out.hasher.finalize();
    out.out.write_all(digest.as_bytes())
}

struct Hashing<'a, W> {
    out: &'a mut W,
    hasher: blake3::Hasher,
    piece: Vec<u8>,
}

impl<W: Write> Hashing<'_, W> {
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.out.write_all(bytes)
    }

    fn words<T: Copy>(&mut self, words: &[T], bytes: impl Fn(T) -> [u8; 4]) -> io::Result<()> {
        for words in words.chunks(PIECE_BYTES / 4) {
            let mut piece = std::mem::take(&mut self.piece);
            piece.clear();
            piece.extend(words.iter().flat_map(|word| bytes(*word)));
            self.bytes(&piece)?;
            self.piece = piece;
        }
        Ok(())
    }
}

/// A file that is being read. What was filled counts only once [`Reader::finish`] has agreed.
pub struct Reader<R> {
    source: R,
    hasher: blake3::Hasher,
    piece: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Begins to read a file of `file_bytes` that is to be of this origin, shape and of these ids.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn open(
        mut source: R,
        file_bytes: u64,
        origin: Origin,
        shape: Shape,
        ids: &[u32],
    ) -> Result<Reader<R>, Flaw> {
        let mut start = Vec::with_capacity(HEAD_BYTES);
        source.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut start)?;
        let head = Head::parse(&start)?;
        head.admit(origin, shape, ids)?;
        match shape.file_bytes(head.positions) {
            Some(wanted) if wanted == file_bytes => {}
            wanted => {
                let wanted = wanted.unwrap_or(u64::MAX);
                return Err(Flaw::Length { wanted, found: file_bytes });
            }
        }
        let mut reader = Reader { source, hasher: blake3::Hasher::new(), piece: Vec::new() };
        reader.hasher.update(&start);
        let mut agree = true;
        for ids in ids.chunks(PIECE_BYTES / 4) {
            let found = reader.next(ids.len() * 4)?.as_chunks::<4>().0;
            agree &= ids.iter().zip(found).all(|(id, found)| id.to_le_bytes() == *found);
        }
        if agree { Ok(reader) } else { Err(Flaw::Ids) }
    }

    /// Fills in the values that follow: the rows in the order of positions, then the recurrent part.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn fill(&mut self, values: &mut [f32]) -> Result<(), Flaw> {
        for values in values.chunks_mut(PIECE_BYTES / 4) {
            let bytes = self.next(values.len() * 4)?.as_chunks::<4>().0;
            for (value, bytes) in values.iter_mut().zip(bytes) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        Ok(())
    }

    /// Compares the digest.
    ///
    /// # Errors
    /// When any byte is not what was written.
    pub fn finish(mut self) -> Result<(), Flaw> {
        let wanted = self.hasher.finalize();
        let mut found = [0; DIGEST_BYTES];
        self.source.read_exact(&mut found)?;
        if wanted == found { Ok(()) } else { Err(Flaw::Digest) }
    }

    fn next(&mut self, bytes: usize) -> Result<&[u8], Flaw> {
        self.piece.resize(bytes, 0);
        self.source.read_exact(&mut self.piece)?;
        self.hasher.update(&self.piece);
        Ok(&self.piece)
    }
}
