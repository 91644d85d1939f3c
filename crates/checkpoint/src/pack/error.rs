//! Everything that can be wrong with a pack's manifest.

use deltafin_spec::{Dtype, Shape};
use thiserror::Error;

/// Why a manifest is refused, by itself or for a model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum PackError {
    #[error("not the JSON it should be: {what}")]
    Json { what: String },
    #[error("{found} is no manifest of a spine pack")]
    Format { found: String },
    #[error("version {found} of the pack format; this program reads version {known}")]
    Version { found: u64, known: u64 },
    #[error("recipe {found}; this program knows bf16 and int8")]
    Recipe { found: String },
    #[error("source {found} is no identity of a checkpoint")]
    Source { found: String },
    #[error("{found} is no file name of a pack")]
    FileName { found: String },
    #[error("{file} is out of order")]
    FileOrder { file: String },
    #[error("{file} is given {found} bytes, its tensors make {wanted}")]
    FileBytes { file: String, wanted: u64, found: u64 },
    #[error("{file} is given {found} digests, its chunks are {wanted}")]
    DigestCount { file: String, wanted: u64, found: u64 },
    #[error("{file}: {found} is no BLAKE3 digest")]
    Digest { file: String, found: String },
    #[error("{file}: tensor {tensor} has dtype {found}, which is unknown")]
    UnknownDtype { file: String, tensor: String, found: String },
    #[error("{file}: tensor {tensor} has {found} dimensions")]
    Rank { file: String, tensor: String, found: usize },
    #[error("{file}: tensor {tensor} with shape {shape} and dtype {dtype} has no size")]
    Size { file: String, tensor: String, shape: Box<Shape>, dtype: Dtype },
    #[error("{file}: tensor {tensor} is given {found} bytes, its shape and dtype demand {wanted}")]
    TensorBytes { file: String, tensor: String, wanted: u64, found: u64 },
    #[error("{file}: {what} of tensor {tensor} are at {found}, the layout puts them at {wanted}")]
    Place { file: String, tensor: String, what: &'static str, wanted: u64, found: u64 },
    #[error("{file}: the places of tensor {tensor} overflow")]
    Overflow { file: String, tensor: String },
    #[error("{file}: tensor {tensor} of dtype {dtype} {}", scales_words(*.present))]
    Scales { file: String, tensor: String, dtype: Dtype, present: bool },
    #[error("{file}: tensor {tensor} {}", digest_words(*.present))]
    TensorDigest { file: String, tensor: String, present: bool },
    #[error("{part} is missing; the pack is not whole")]
    MissingPart { part: String },
    #[error("{file} belongs to no part of this model")]
    ForeignPart { file: String },
    #[error("{file}: tensor {tensor} is missing")]
    MissingTensor { file: String, tensor: String },
    #[error("{file}: tensor {tensor} does not belong there")]
    ForeignTensor { file: String, tensor: String },
    #[error("{file}: tensor {tensor} lies behind those of its layer's other half")]
    TensorOrder { file: String, tensor: String },
    #[error("{file}: tensor {tensor} is there twice")]
    Duplicate { file: String, tensor: String },
    #[error("{file}: tensor {tensor} has dtype {found}, which recipe {recipe} has no place for")]
    Dtype { file: String, tensor: String, recipe: &'static str, found: Dtype },
    #[error("{file}: tensor {tensor} has shape {found}, the checkpoint's has {wanted}")]
    Shape { file: String, tensor: String, wanted: Box<Shape>, found: Box<Shape> },
}

fn scales_words(present: bool) -> &'static str {
    if present { "has scales, which only I8 has" } else { "lacks its scales" }
}

fn digest_words(present: bool) -> &'static str {
    if present { "has a digest, which only small tensors have" } else { "lacks its digest" }
}
