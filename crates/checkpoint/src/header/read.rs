//! JSON to raw tensors, streaming: no tree is built, names borrow from the bytes.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use deltafin_spec::{Dtype, MAX_RANK, Shape};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{HeaderError, dtype_of, rank_error};
use crate::json::{Name, quote};

const METADATA: &str = "__metadata__";

/// A tensor as written; `range` counts from the end of the header and is unchecked.
pub(super) struct RawTensor<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) dtype: Dtype,
    pub(super) shape: Shape,
    pub(super) range: (u64, u64),
}

pub(super) fn read_json(json: &[u8]) -> Result<Vec<RawTensor<'_>>, HeaderError> {
    let mut typed = None;
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let read = HeaderSeed { typed: &mut typed }.deserialize(&mut deserializer);
    match read.and_then(|tensors| deserializer.end().map(|()| tensors)) {
        Ok(tensors) => Ok(tensors),
        Err(error) => Err(typed.unwrap_or(HeaderError::Json { what: error.to_string() })),
    }
}

/// Reads the header's object. The error that serde can carry is a string, so the typed one
/// is left in `typed`.
struct HeaderSeed<'t> {
    typed: &'t mut Option<HeaderError>,
}

impl HeaderSeed<'_> {
    fn fail<E: Error>(self, error: HeaderError) -> E {
        *self.typed = Some(error);
        E::custom("see the typed error")
    }
}

impl<'de> DeserializeSeed<'de> for HeaderSeed<'_> {
    type Value = Vec<RawTensor<'de>>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for HeaderSeed<'_> {
    type Value = Vec<RawTensor<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut tensors = Vec::new();
        let mut metadata = false;
        while let Some(Name(name)) = map.next_key()? {
            if name == METADATA {
                map.next_value::<Metadata>()?;
                if std::mem::replace(&mut metadata, true) {
                    let tensor = quote(&name);
                    return Err(self.fail(HeaderError::DuplicateName { tensor }));
                }
                continue;
            }
            let entry = match map.next_value::<Entry<'de>>() {
                Ok(entry) => entry,
                Err(error) => {
                    let (tensor, what) = (quote(&name), error.to_string());
                    return Err(self.fail(HeaderError::Tensor { tensor, what }));
                }
            };
            match entry.typed(name) {
                Ok(tensor) => tensors.push(tensor),
                Err(error) => return Err(self.fail(error)),
            }
        }
        Ok(tensors)
    }
}

/// `__metadata__`: strings to strings, of which nothing is used.
struct Metadata;

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MetadataVisitor;
        impl<'de> Visitor<'de> for MetadataVisitor {
            type Value = Metadata;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("__metadata__ as an object of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut seen = HashSet::new();
                while let Some((key, Name(_))) = map.next_entry::<Name<'de>, Name<'de>>()? {
                    if let Some(twice) = seen.replace(key) {
                        let key = quote(&twice.0);
                        return Err(A::Error::custom(format_args!("{key} appears twice")));
                    }
                }
                Ok(Metadata)
            }
        }
        deserializer.deserialize_map(MetadataVisitor)
    }
}

/// The value of one tensor: exactly `dtype`, `shape` and `data_offsets`.
struct Entry<'a> {
    dtype: Name<'a>,
    shape: Dims,
    range: (u64, u64),
}

impl<'a> Entry<'a> {
    fn typed(self, name: Cow<'a, str>) -> Result<RawTensor<'a>, HeaderError> {
        let dtype = dtype_of(&name, &self.dtype.0)?;
        let shape = self.shape.0.ok_or_else(|| rank_error(&name))?;
        Ok(RawTensor { name, dtype, shape, range: self.range })
    }
}

const FIELDS: &[&str] = &["dtype", "shape", "data_offsets"];

impl<'de> Deserialize<'de> for Entry<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntryVisitor;
        impl<'de> Visitor<'de> for EntryVisitor {
            type Value = Entry<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with dtype, shape and data_offsets")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut dtype, mut shape, mut range) = (None, None, None);
                while let Some(Name(field)) = map.next_key()? {
                    let twice = match field.as_ref() {
                        "dtype" => dtype.replace(map.next_value()?).is_some(),
                        "shape" => shape.replace(map.next_value()?).is_some(),
                        "data_offsets" => range.replace(map.next_value()?).is_some(),
                        other => return Err(A::Error::unknown_field(&quote(other), FIELDS)),
                    };
                    if twice {
                        return Err(A::Error::custom(format_args!("{field} appears twice")));
                    }
                }
                Ok(Entry {
                    dtype: dtype.ok_or_else(|| A::Error::missing_field("dtype"))?,
                    shape: shape.ok_or_else(|| A::Error::missing_field("shape"))?,
                    range: range.ok_or_else(|| A::Error::missing_field("data_offsets"))?,
                })
            }
        }
        deserializer.deserialize_map(EntryVisitor)
    }
}

/// Dimensions, held in place; nothing if there are too many.
struct Dims(Option<Shape>);

impl<'de> Deserialize<'de> for Dims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DimsVisitor;
        impl<'de> Visitor<'de> for DimsVisitor {
            type Value = Dims;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of dimensions")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Dims, A::Error> {
                let (mut dims, mut rank) = ([0; MAX_RANK], 0);
                while let Some(dim) = seq.next_element::<u64>()? {
                    if let Some(slot) = dims.get_mut(rank) {
                        *slot = dim;
                    }
                    rank += 1;
                }
                Ok(Dims(dims.get(..rank).and_then(Shape::new)))
            }
        }
        deserializer.deserialize_seq(DimsVisitor)
    }
}
