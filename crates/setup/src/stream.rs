//! The tensors of a part, read and quantised block by block.
//!
//! Runs on a thread of its own, so that reading and quantising go on while the last block is hashed
//! and written. Memory is bounded: a few blocks, whatever the size of a tensor.

use std::sync::mpsc::SyncSender;

use deltafin_checkpoint::pack::{PackFile, PackPart, PackTensor};
use deltafin_checkpoint::{Catalog, Recipe, Span};
use deltafin_spec::{Dtype, Shape, TensorId};
use deltafin_store::{Store, StoreError, prove_at_rest};

use crate::quantize;

/// About so many bytes of source are read at once: whole rows, one at least.
const BLOCK_BYTES: u64 = 8 << 20;
/// Blocks that may wait to be written.
pub(crate) const BLOCKS_WAITING: usize = 2;

/// What a part is made of, in the order it is written.
#[derive(Debug)]
pub(crate) enum Piece {
    /// A tensor begins.
    Begin { id: TensorId, dtype: Dtype, shape: Shape },
    /// The next elements, made from so many bytes of source.
    Elements { bytes: Vec<u8>, source_bytes: u64 },
    /// The scales of all rows; they end the tensor.
    Scales(Vec<u8>),
    /// The tensor that began is not to be: it comes again as released.
    Again,
}

/// Whoever writes has gone, and says why itself; or a read failed.
pub(crate) enum Stop {
    Reader(StoreError),
    Writer,
}

/// A tensor of the released checkpoint.
struct Source {
    id: TensorId,
    dtype: Dtype,
    shape: Shape,
    span: Span,
}

impl Source {
    fn row_bytes(&self) -> u64 {
        self.span.len() / self.shape.rows()
    }

    /// The blocks of the tensor.
    fn blocks(&self) -> impl Iterator<Item = Span> + use<'_> {
        let row = self.row_bytes();
        let step = (BLOCK_BYTES / row).max(1) * row;
        let starts = (0..self.span.len()).step_by(step as usize);
        starts.filter_map(move |start| self.span.part(start, step.min(self.span.len() - start)))
    }
}

/// The dtype and shape of every tensor of a part as the recipe wants them, in order.
pub(crate) fn planned(
    catalog: &Catalog,
    part: PackPart,
    recipe: Recipe,
) -> impl Iterator<Item = (Dtype, Shape)> {
    sources(catalog, part).map(move |source| (wanted(recipe, &source), source.shape))
}

/// Whether a file of the model is said to have the tensors that this recipe puts there, in their order;
/// any matrix may be as released.
pub(crate) fn describes(catalog: &Catalog, recipe: Recipe, file: &PackFile) -> bool {
    let sources: Vec<Source> = sources(catalog, file.part).collect();
    let is = |(source, tensor): (&Source, &PackTensor)| {
        let dtypes = [wanted(recipe, source), source.dtype];
        source.id.name() == tensor.name
            && source.shape == tensor.shape
            && dtypes.contains(&tensor.dtype)
    };
    sources.len() == file.tensors.len() && sources.iter().zip(&file.tensors).all(is)
}

/// Bytes of the released tensors of a part.
pub(crate) fn source_bytes(catalog: &Catalog, part: PackPart) -> u64 {
    sources(catalog, part).map(|source| source.span.len()).sum()
}

/// The released tensors of a part, in the order they are read.
pub(crate) fn spans(catalog: &Catalog, part: PackPart) -> impl Iterator<Item = Span> {
    sources(catalog, part).map(|source| source.span)
}

fn wanted(recipe: Recipe, source: &Source) -> Dtype {
    let quantized = recipe.quantizes(source.id) && source.dtype == Dtype::Bf16;
    if quantized { Dtype::I8 } else { source.dtype }
}

fn sources(catalog: &Catalog, part: PackPart) -> impl Iterator<Item = Source> {
    let tensors = part.tensors(catalog.spec());
    tensors.into_iter().filter_map(|id| match id {
        TensorId::Spine(layer, role) => {
            let spine = catalog.spine(layer);
            let tensor = spine.tensor(role)?;
            let span = spine.record().locate(tensor.place)?;
            Some(Source { id, dtype: tensor.dtype, shape: tensor.shape, span })
        }
        TensorId::Global(role) => {
            let tensor = catalog.globals().tensor(role);
            Some(Source { id, dtype: tensor.dtype, shape: tensor.shape, span: tensor.span })
        }
        TensorId::Expert(..) => None,
    })
}

/// Sends a part piece by piece, of a checkpoint that is what somebody noted of it: a pack has digests of its own, and
/// what was wrong before would be right for ever.
pub(crate) fn send(
    catalog: &Catalog,
    store: &dyn Store,
    part: PackPart,
    recipe: Recipe,
    pieces: &SyncSender<Piece>,
) -> Result<(), Stop> {
    prove_at_rest(store, spans(catalog, part)).map_err(Stop::Reader)?;
    let mut line = Line { store, pieces, block: Vec::new() };
    for source in sources(catalog, part) {
        if wanted(recipe, &source) == Dtype::I8 {
            line.quantized(&source)?;
        } else {
            line.released(&source)?;
        }
    }
    Ok(())
}

/// The way from the store to the writer.
struct Line<'a> {
    store: &'a dyn Store,
    pieces: &'a SyncSender<Piece>,
    block: Vec<u8>,
}

impl Line<'_> {
    fn put(&self, piece: Piece) -> Result<(), Stop> {
        self.pieces.send(piece).map_err(|_| Stop::Writer)
    }

    fn begin(&self, source: &Source, dtype: Dtype) -> Result<(), Stop> {
        self.put(Piece::Begin { id: source.id, dtype, shape: source.shape })
    }

    fn released(&mut self, source: &Source) -> Result<(), Stop> {
        self.begin(source, source.dtype)?;
        for block in source.blocks() {
            let mut bytes = vec![0; block.len() as usize];
            self.store.read_exact(block, &mut bytes).map_err(Stop::Reader)?;
            self.put(Piece::Elements { bytes, source_bytes: block.len() })?;
        }
        Ok(())
    }

    fn quantized(&mut self, source: &Source) -> Result<(), Stop> {
        self.begin(source, Dtype::I8)?;
        let columns = (source.row_bytes() / source.dtype.size_bytes()) as usize;
        let mut scales = Vec::new();
        for block in source.blocks() {
            self.block.resize(block.len() as usize, 0);
            self.store.read_exact(block, &mut self.block).map_err(Stop::Reader)?;
            let mut bytes = Vec::with_capacity(self.block.len() / 2);
            if quantize::rows(&self.block, columns, &mut bytes, &mut scales).is_err() {
                self.put(Piece::Again)?;
                return self.released(source);
            }
            self.put(Piece::Elements { bytes, source_bytes: block.len() })?;
        }
        self.put(Piece::Scales(scales))
    }
}
