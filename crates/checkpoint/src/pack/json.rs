//! The manifest as text: written, and read from strangers.

use deltafin_spec::{Dtype, Shape};
use serde::{Deserialize, Serialize};

use super::layout::PackLayout;
use super::{CHUNK_BYTES, Digest, Manifest, PackError, PackFile, PackPart, PackTensor};
use crate::json::quote;
use crate::record::TensorPlace;
use crate::{Identity, Recipe};

/// What the manifest says it is.
const FORMAT: &str = "deltafin spine pack";
/// The version written and read here.
const VERSION: u64 = 1;

/// Looked at first: what a later version holds besides is for later programs.
#[derive(Deserialize)]
struct Front {
    format: String,
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestText {
    format: String,
    version: u64,
    recipe: String,
    source: String,
    files: Vec<FileText>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    name: String,
    bytes: u64,
    tensors: Vec<TensorText>,
    blake3: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorText {
    name: String,
    dtype: String,
    shape: Vec<u64>,
    offset: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    scales_offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blake3: Option<String>,
}

impl Manifest {
    /// The bytes of the manifest's file: the same for the same manifest.
    pub fn to_json(&self) -> Vec<u8> {
        let text = ManifestText {
            format: FORMAT.to_owned(),
            version: VERSION,
            recipe: self.recipe.name().to_owned(),
            source: self.source.to_string(),
            files: self.files.iter().map(file_text).collect(),
        };
        let mut json = serde_json::to_vec_pretty(&text).expect("strings and numbers are JSON");
        json.push(b'\n');
        json
    }

    /// Parses the bytes of a manifest's file.
    pub fn parse(bytes: &[u8]) -> Result<Manifest, PackError> {
        let json = |error: serde_json::Error| PackError::Json { what: error.to_string() };
        let front: Front = serde_json::from_slice(bytes).map_err(json)?;
        if front.format != FORMAT {
            return Err(PackError::Format { found: quote(&front.format) });
        }
        if front.version != VERSION {
            return Err(PackError::Version { found: front.version, known: VERSION });
        }
        let text: ManifestText = serde_json::from_slice(bytes).map_err(json)?;
        let recipe = Recipe::parse(&text.recipe)
            .ok_or_else(|| PackError::Recipe { found: quote(&text.recipe) })?;
        let source = Identity::parse(&text.source)
            .ok_or_else(|| PackError::Source { found: quote(&text.source) })?;
        let files = text.files.iter().map(read_file).collect::<Result<Vec<_>, _>>()?;
        match files.windows(2).find(|pair| pair[0].part >= pair[1].part) {
            Some(pair) => Err(PackError::FileOrder { file: pair[1].part.file_name() }),
            None => Ok(Manifest { source, recipe, files }),
        }
    }
}

fn file_text(file: &PackFile) -> FileText {
    let tensor = |tensor: &PackTensor| TensorText {
        name: tensor.name.clone(),
        dtype: tensor.dtype.name().to_owned(),
        shape: tensor.shape.dims().to_vec(),
        offset: tensor.place.offset,
        bytes: tensor.place.len,
        scales_offset: tensor.scales.map(|scales| scales.offset),
        blake3: tensor.digest.map(|digest| digest.to_string()),
    };
    FileText {
        name: file.part.file_name(),
        bytes: file.bytes,
        tensors: file.tensors.iter().map(tensor).collect(),
        blake3: file.digests.iter().map(Digest::to_string).collect(),
    }
}

fn read_file(text: &FileText) -> Result<PackFile, PackError> {
    let part = PackPart::of_file(&text.name)
        .ok_or_else(|| PackError::FileName { found: quote(&text.name) })?;
    let file = || text.name.clone();
    let mut layout = PackLayout::default();
    let read = |tensor| read_tensor(&text.name, tensor, &mut layout);
    let tensors = text.tensors.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let wanted = layout.file_bytes().unwrap_or(u64::MAX);
    if text.bytes != wanted {
        return Err(PackError::FileBytes { file: file(), wanted, found: text.bytes });
    }
    let (wanted, found) = (wanted.div_ceil(CHUNK_BYTES), text.blake3.len() as u64);
    if found != wanted {
        return Err(PackError::DigestCount { file: file(), wanted, found });
    }
    let digests = text.blake3.iter().map(|hex| read_digest(&text.name, hex));
    let digests = digests.collect::<Result<Vec<_>, _>>()?;
    Ok(PackFile { part, bytes: text.bytes, tensors, digests })
}

fn read_digest(file: &str, hex: &str) -> Result<Digest, PackError> {
    Digest::parse(hex).ok_or_else(|| PackError::Digest { file: file.to_owned(), found: quote(hex) })
}

/// Checks a tensor and that it lies where the layout puts it.
fn read_tensor(
    file: &str,
    text: &TensorText,
    layout: &mut PackLayout,
) -> Result<PackTensor, PackError> {
    let (file, tensor) = (|| file.to_owned(), || quote(&text.name));
    let dtype = Dtype::parse(&text.dtype).ok_or_else(|| PackError::UnknownDtype {
        file: file(),
        tensor: tensor(),
        found: quote(&text.dtype),
    })?;
    let shape = Shape::new(&text.shape).ok_or_else(|| PackError::Rank {
        file: file(),
        tensor: tensor(),
        found: text.shape.len(),
    })?;
    let wanted = shape.bytes(dtype).filter(|bytes| *bytes > 0).ok_or_else(|| PackError::Size {
        file: file(),
        tensor: tensor(),
        shape: Box::new(shape),
        dtype,
    })?;
    if text.bytes != wanted {
        let (file, tensor, found) = (file(), tensor(), text.bytes);
        return Err(PackError::TensorBytes { file, tensor, wanted, found });
    }
    let present = text.scales_offset.is_some();
    if present != (dtype == Dtype::I8) || (present && shape.dims().len() != 2) {
        return Err(PackError::Scales { file: file(), tensor: tensor(), dtype, present });
    }
    let digest = text.blake3.as_ref().map(|hex| read_digest(&file(), hex)).transpose()?;
    if digest.is_some() != PackTensor::is_small(dtype, wanted) {
        let present = digest.is_some();
        return Err(PackError::TensorDigest { file: file(), tensor: tensor(), present });
    }
    let mut place =
        |what: &'static str, bytes: u64, found: u64| -> Result<TensorPlace, PackError> {
            let overflow = || PackError::Overflow { file: file(), tensor: tensor() };
            let place = layout.place(bytes).ok_or_else(overflow)?;
            if place.offset != found {
                let (file, tensor, wanted) = (file(), tensor(), place.offset);
                return Err(PackError::Place { file, tensor, what, wanted, found });
            }
            Ok(place)
        };
    let elements = place("the elements", wanted, text.offset)?;
    // What does not fit into 64 bits has no place either.
    let scale_bytes = shape.rows().saturating_mul(Dtype::F16.size_bytes());
    let scales = text.scales_offset.map(|offset| place("the scales", scale_bytes, offset));
    Ok(PackTensor {
        name: text.name.clone(),
        dtype,
        shape,
        place: elements,
        scales: scales.transpose()?,
        digest,
    })
}
