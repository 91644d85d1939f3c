//! A catalog whose spine and head are those of a pack.

use deltafin_spec::{Dtype, GlobalTensor, ModelSpec, Shape, SpineTensor, TensorId};

use super::{Catalog, Globals, RowTable, Shard, SpanTensor};
use crate::json::quote;
use crate::pack::{Manifest, PackError, PackFile, PackPart, PackTensor, Seal};
use crate::record::TensorPlace;
use crate::spine::{PlacedTensor, Spine};
use crate::{Recipe, ShardId, Span};

impl Catalog {
    /// This catalog with the layers' spines and the tensors after the last layer where the pack has
    /// them. The pack's files follow the shards, in the manifest's order. That the pack was made
    /// from this checkpoint, and that its files are as long as it says, is for others to see.
    pub fn with_pack(&self, manifest: &Manifest) -> Result<Catalog, PackError> {
        let mut catalog = Catalog { seals: Vec::new(), ..self.clone() };
        let mut files = manifest.files.iter();
        for part in PackPart::all(&self.spec) {
            let missing = || PackError::MissingPart { part: part.to_string() };
            let file = files.next().ok_or_else(missing)?;
            if file.part != part {
                return Err(if file.part > part { missing() } else { foreign(file) });
            }
            let shard = ShardId::new(catalog.shards.len() as u32);
            let packed = Packed { released: self, recipe: manifest.recipe, file, shard };
            let used = match part {
                PackPart::Layer(layer) => {
                    catalog.spines[layer.index()] = packed.spine()?;
                    packed.span(0, catalog.spine(layer).record().len())?
                }
                PackPart::Head => {
                    catalog.globals = packed.globals()?;
                    catalog.globals.head.tensor().span
                }
            };
            catalog.seals.push(Seal::new(used, file.bytes, &file.digests));
            catalog.shards.push(Shard { name: part.file_name(), len: file.bytes });
        }
        files.next().map_or(Ok(catalog), |file| Err(foreign(file)))
    }

    /// The dtype and shape of a released tensor that a pack may hold.
    fn released(&self, tensor: TensorId) -> (Dtype, Shape) {
        let stored = match tensor {
            TensorId::Spine(layer, role) => {
                self.spine(layer).tensor(role).map(|found| (found.dtype, found.shape))
            }
            TensorId::Global(role) => {
                let found = self.globals.tensor(role);
                Some((found.dtype, found.shape))
            }
            TensorId::Expert(..) => None,
        };
        stored.unwrap_or_else(|| (tensor.dtype(), tensor.shape(&self.spec)))
    }
}

fn foreign(file: &PackFile) -> PackError {
    PackError::ForeignPart { file: file.part.file_name() }
}

/// A file of a pack beside the checkpoint it must fit.
struct Packed<'a> {
    released: &'a Catalog,
    recipe: Recipe,
    file: &'a PackFile,
    shard: ShardId,
}

impl Packed<'_> {
    fn spec(&self) -> &ModelSpec {
        &self.released.spec
    }

    fn file_name(&self) -> String {
        self.file.part.file_name()
    }

    /// The file's tensors with their ids, each known to fit, all of the part and nothing else.
    fn tensors(&self) -> Result<Vec<(TensorId, &PackTensor)>, PackError> {
        let wanted = self.file.part.tensors(self.spec());
        let mut found: Vec<(TensorId, &PackTensor)> = Vec::with_capacity(wanted.len());
        for tensor in &self.file.tensors {
            let id = TensorId::parse(&tensor.name, self.spec()).filter(|id| wanted.contains(id));
            let (file, name) = (self.file_name(), quote(&tensor.name));
            let Some(id) = id else {
                return Err(PackError::ForeignTensor { file, tensor: name });
            };
            if found.iter().any(|(known, _)| *known == id) {
                return Err(PackError::Duplicate { file, tensor: name });
            }
            self.check(id, tensor)?;
            found.push((id, tensor));
        }
        let is_found = |id: &TensorId| found.iter().any(|(known, _)| known == id);
        match wanted.iter().find(|id| !is_found(id)) {
            Some(id) => Err(PackError::MissingTensor { file: self.file_name(), tensor: id.name() }),
            None => Ok(found),
        }
    }

    fn check(&self, id: TensorId, stored: &PackTensor) -> Result<(), PackError> {
        let (dtype, wanted) = self.released.released(id);
        let (file, tensor) = (|| self.file_name(), || id.name());
        // A matrix whose scales would not hold is kept as released in any recipe.
        if stored.dtype != dtype && !(stored.dtype == Dtype::I8 && self.recipe.quantizes(id)) {
            let (recipe, found) = (self.recipe.name(), stored.dtype);
            return Err(PackError::Dtype { file: file(), tensor: tensor(), recipe, found });
        }
        if stored.shape != wanted {
            let (wanted, found) = (Box::new(wanted), Box::new(stored.shape));
            return Err(PackError::Shape { file: file(), tensor: tensor(), wanted, found });
        }
        Ok(())
    }

    fn spine(&self) -> Result<Spine, PackError> {
        let PackPart::Layer(layer) = self.file.part else {
            return Err(foreign(self.file));
        };
        let placed = |(id, tensor): (TensorId, &PackTensor)| match id {
            TensorId::Spine(_, role) => Some(place(role, tensor)),
            _ => None,
        };
        let mut tensors: Vec<_> = self.tensors()?.into_iter().filter_map(placed).collect();
        tensors.sort_unstable_by_key(|tensor| tensor.role);
        let last = tensors.iter().flat_map(|tensor| [Some(tensor.place), tensor.scales]).flatten();
        let end = last.map(|place| place.offset + place.len).max().unwrap_or(0);
        let out_of_order = |role| PackError::TensorOrder {
            file: self.file_name(),
            tensor: TensorId::Spine(layer, role).name(),
        };
        Spine::in_one_piece(layer, self.span(0, end)?, tensors).map_err(out_of_order)
    }

    fn globals(&self) -> Result<Globals, PackError> {
        let tensors = self.tensors()?;
        let find = |role: GlobalTensor| -> Result<SpanTensor, PackError> {
            let found = tensors.iter().find(|(id, _)| *id == TensorId::Global(role));
            match found {
                Some((_, tensor)) => self.global(role, tensor),
                None => Ok(*self.released.globals.tensor(role)),
            }
        };
        Ok(Globals {
            embed: self.released.globals.embed,
            norm: find(GlobalTensor::Norm)?,
            output_res_norm: find(GlobalTensor::OutputResNorm)?,
            output_res_proj: find(GlobalTensor::OutputResProj)?,
            head: RowTable::new(find(GlobalTensor::Head)?),
        })
    }

    fn global(&self, role: GlobalTensor, tensor: &PackTensor) -> Result<SpanTensor, PackError> {
        let first = tensor.place.offset;
        let end = tensor.scales.unwrap_or(tensor.place);
        Ok(SpanTensor {
            role,
            dtype: tensor.dtype,
            shape: tensor.shape,
            span: self.span(first, end.offset + end.len - first)?,
            scales: tensor
                .scales
                .map(|scales| TensorPlace { offset: scales.offset - first, len: scales.len }),
            digest: tensor.digest,
        })
    }

    /// The places of a parsed manifest do not overflow; this says so without a panic.
    fn span(&self, offset: u64, len: u64) -> Result<Span, PackError> {
        let overflow = || PackError::Overflow { file: self.file_name(), tensor: String::new() };
        Span::new(self.shard, offset, len).ok_or_else(overflow)
    }
}

fn place(role: SpineTensor, tensor: &PackTensor) -> PlacedTensor {
    PlacedTensor {
        role,
        dtype: tensor.dtype,
        shape: tensor.shape,
        place: tensor.place,
        scales: tensor.scales,
    }
}
