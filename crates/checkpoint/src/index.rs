//! `model.safetensors.index.json`: which shard holds which tensor.
//!
//! The index is believed about nothing that a shard's header says itself. It is read to
//! know which shards belong to the checkpoint, and compared with the headers.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use thiserror::Error;

use crate::json::{Name, has_byte_order_mark, quote, skip};

/// What is wrong with the index.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum IndexError {
    #[error("the index is not the JSON it should be: {what}")]
    Json { what: String },
    #[error(
        "the index begins with a byte order mark (the bytes EF BB BF), which JSON does not have"
    )]
    ByteOrderMark,
    #[error("the index has no weight_map")]
    NoWeightMap,
    #[error("the index has {field} twice")]
    DuplicateField { field: &'static str },
    #[error("the weight_map is empty")]
    NoTensors,
    #[error("the weight_map names tensor {tensor} twice")]
    DuplicateName { tensor: String },
    #[error("the weight_map sends tensor {tensor} to {shard}, which is no plain file name")]
    ShardName { tensor: String, shard: String },
}

/// One line of the weight map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    /// The tensor's name.
    pub name: Cow<'a, str>,
    /// Which of [`Index::shards`] holds it.
    pub shard: u32,
}

/// A parsed index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index<'a> {
    /// The bytes of all tensors, if the index says.
    pub total_size: Option<u64>,
    /// The shards' file names, ascending; plain names without any folder.
    pub shards: Vec<Cow<'a, str>>,
    /// The weight map, in its own order.
    pub entries: Vec<IndexEntry<'a>>,
}

impl<'a> Index<'a> {
    /// Parses the bytes of the index file.
    pub fn parse(bytes: &'a [u8]) -> Result<Index<'a>, IndexError> {
        if has_byte_order_mark(bytes) {
            return Err(IndexError::ByteOrderMark);
        }
        let mut typed = None;
        let mut deserializer = serde_json::Deserializer::from_slice(bytes);
        let read = IndexSeed(&mut typed).deserialize(&mut deserializer);
        match read.and_then(|index| deserializer.end().map(|()| index)) {
            Ok(index) => index.finish(),
            Err(error) => Err(typed.unwrap_or(IndexError::Json { what: error.to_string() })),
        }
    }

    /// Checks names, and puts the shards in the order of their names.
    fn finish(mut self) -> Result<Self, IndexError> {
        if self.entries.is_empty() {
            return Err(IndexError::NoTensors);
        }
        let mut seen = HashSet::with_capacity(self.entries.len());
        if let Some(twice) = self.entries.iter().find(|entry| !seen.insert(entry.name.as_ref())) {
            return Err(IndexError::DuplicateName { tensor: quote(&twice.name) });
        }
        drop(seen);
        if let Some(entry) =
            self.entries.iter().find(|entry| !is_file_name(&self.shards[entry.shard as usize]))
        {
            let (tensor, shard) = (&entry.name, &self.shards[entry.shard as usize]);
            return Err(IndexError::ShardName { tensor: quote(tensor), shard: quote(shard) });
        }
        self.sort_shards();
        Ok(self)
    }

    fn sort_shards(&mut self) {
        let mut order: Vec<u32> = (0..self.shards.len() as u32).collect();
        order.sort_by(|&a, &b| self.shards[a as usize].cmp(&self.shards[b as usize]));
        let mut rank = vec![0; order.len()];
        for (to, &from) in order.iter().enumerate() {
            rank[from as usize] = to as u32;
        }
        for entry in &mut self.entries {
            entry.shard = rank[entry.shard as usize];
        }
        self.shards = order.iter().map(|&from| self.shards[from as usize].clone()).collect();
    }
}

/// A shard is a file of the checkpoint's own folder. Anything else could read elsewhere.
fn is_file_name(name: &str) -> bool {
    let special = name.is_empty() || name == "." || name == "..";
    !special && !name.contains(['/', '\\', '\0'])
}

struct IndexSeed<'t>(&'t mut Option<IndexError>);

impl IndexSeed<'_> {
    fn fail<E: serde::de::Error>(self, error: IndexError) -> E {
        *self.0 = Some(error);
        E::custom("see the typed error")
    }
}

impl<'de> DeserializeSeed<'de> for IndexSeed<'_> {
    type Value = Index<'de>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for IndexSeed<'_> {
    type Value = Index<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a weight_map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut weight_map, mut metadata) = (None, None);
        while let Some(Name(key)) = map.next_key()? {
            let twice = match key.as_ref() {
                "weight_map" => weight_map.replace(map.next_value::<WeightMap<'de>>()?).is_some(),
                "metadata" => metadata.replace(map.next_value::<Metadata>()?).is_some(),
                _ => {
                    skip(&mut map)?;
                    false
                }
            };
            if twice {
                let field = if key == "metadata" { "metadata" } else { "weight_map" };
                return Err(self.fail(IndexError::DuplicateField { field }));
            }
        }
        let Some(WeightMap { shards, entries }) = weight_map else {
            return Err(self.fail(IndexError::NoWeightMap));
        };
        Ok(Index { total_size: metadata.and_then(|m| m.total_size), shards, entries })
    }
}

struct Metadata {
    total_size: Option<u64>,
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MetadataVisitor;
        impl<'de> Visitor<'de> for MetadataVisitor {
            type Value = Metadata;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("metadata as an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut total_size = None;
                while let Some(Name(key)) = map.next_key()? {
                    if key != "total_size" {
                        skip(&mut map)?;
                    } else if total_size.replace(map.next_value()?).is_some() {
                        return Err(A::Error::duplicate_field("total_size"));
                    }
                }
                Ok(Metadata { total_size })
            }
        }
        deserializer.deserialize_map(MetadataVisitor)
    }
}

struct WeightMap<'a> {
    shards: Vec<Cow<'a, str>>,
    entries: Vec<IndexEntry<'a>>,
}

impl<'de> Deserialize<'de> for WeightMap<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WeightMapVisitor;
        impl<'de> Visitor<'de> for WeightMapVisitor {
            type Value = WeightMap<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("weight_map as an object of file names")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut numbers: HashMap<Cow<'de, str>, u32> = HashMap::new();
                let mut entries = Vec::new();
                while let Some((Name(name), Name(file))) =
                    map.next_entry::<Name<'de>, Name<'de>>()?
                {
                    let next = numbers.len() as u32;
                    let shard = *numbers.entry(file).or_insert(next);
                    entries.push(IndexEntry { name, shard });
                }
                let mut shards = vec![Cow::Borrowed(""); numbers.len()];
                for (file, number) in numbers {
                    shards[number as usize] = file;
                }
                Ok(WeightMap { shards, entries })
            }
        }
        deserializer.deserialize_map(WeightMapVisitor)
    }
}
