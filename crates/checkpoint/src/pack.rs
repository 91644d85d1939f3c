//! Packs: the spine of a checkpoint in files of its own, one per layer and one for the head.
//!
//! A pack lies beside the released shards and replaces none of them. In each file the tensors
//! follow each other in the order a pass uses them, so that a layer is one long read, and a reader
//! that is a little ahead is ahead in the right place. `docs/FORMAT.md` writes the format down.
//!
//! ```text
//! layer-000.spine   tensors from byte 0 on, each at a multiple of 64, zeros between them;
//! …                 the file's length is a multiple of 4096
//! head.spine        the final mix, the final norm, the output head
//! manifest.json     source, recipe, every tensor's place, a digest of every 16 MiB; written last
//! ```
//!
//! A [`Manifest`] that was parsed is sound in itself: places lie inside their files, in order,
//! aligned and without overlap, and are as long as dtype and shape demand.
//! [`crate::Catalog::with_pack`] holds it against a model. The files' bytes are held against a [`Seal`].

mod digest;
mod error;
mod json;
mod layout;
mod part;
mod seal;

use deltafin_spec::{Dtype, Shape};

use crate::record::TensorPlace;
use crate::{Identity, Recipe};

pub use digest::{CHUNK_BYTES, ChunkHasher, Digest, PartsHasher};
pub use error::PackError;
pub use layout::{FILE_ALIGN, PackLayout, TENSOR_ALIGN};
pub use part::PackPart;
pub use seal::Seal;

/// The manifest's file name.
pub const MANIFEST: &str = "manifest.json";

/// What a pack holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The checkpoint that the pack was made from.
    pub source: Identity,
    /// How its tensors are represented.
    pub recipe: Recipe,
    /// The files, in the order of their parts. A pack in the making has some of them only.
    pub files: Vec<PackFile>,
}

/// One file of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackFile {
    /// What is in it.
    pub part: PackPart,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its tensors, in the order of their bytes.
    pub tensors: Vec<PackTensor>,
    /// A digest of every [`CHUNK_BYTES`], the last chunk being shorter.
    pub digests: Vec<Digest>,
}

/// One tensor of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackTensor {
    /// The full name that it has in the checkpoint.
    pub name: String,
    /// The stored element type: the released one, or [`Dtype::I8`].
    pub dtype: Dtype,
    /// The dimensions.
    pub shape: Shape,
    /// Where its elements are in the file.
    pub place: TensorPlace,
    /// Where the scales of its rows are, one [`Dtype::F16`] each; [`Dtype::I8`] alone has them.
    pub scales: Option<TensorPlace>,
    /// The digest of its elements; tensors that [`PackTensor::is_small`] alone have one.
    pub digest: Option<Digest>,
}

/// Released tensors up to this length have a digest of their own. It is above the vectors of K3 and
/// below its matrices: all that are small are read in a moment, and held against it at every start.
const SMALL_BYTES: u64 = 256 << 10;

impl PackTensor {
    /// Whether a tensor of this type and length has a digest of its own.
    pub fn is_small(dtype: Dtype, bytes: u64) -> bool {
        dtype != Dtype::I8 && bytes <= SMALL_BYTES
    }
}

impl Manifest {
    /// Bytes of all files, without the manifest's own.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    }
}
