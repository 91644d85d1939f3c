//! Headers and index to a catalog, or to every problem between them.
//!
//! Shards are added one by one, so that no more than one header is held at a time. What is
//! kept per tensor is its id and its bytes. Memory follows what the files hold, never what
//! the configuration claims.

use std::collections::HashSet;

use deltafin_spec::{
    ExpertTensor, FfnKind, GlobalTensor, ModelSpec, Shape, SpineTensor, TEXT_PREFIX, TensorId,
};

use super::{Catalog, Globals, Ignored, RowTable, Shard, SpanTensor};
use crate::json::quote;
use crate::record::ExpertTable;
use crate::spine::{FoundSpine, Spine};
use crate::{Config, Header, HeaderError, Index, Problem, Problems, ShardId, Span, TensorInfo};

/// Collects the shards of a checkpoint.
#[derive(Debug)]
pub struct CatalogBuilder<'c> {
    config: &'c Config,
    shards: Vec<Shard>,
    broken: HashSet<ShardId>,
    found: Vec<Found>,
    /// Tensors that are none of the text model's, to compare with the index.
    foreign: HashSet<(ShardId, Box<str>)>,
    ignored: Ignored,
    /// Bytes of all tensors, the ignored ones too.
    tensor_bytes: u64,
    problems: Problems,
}

/// A tensor of the roster in a shard.
#[derive(Clone, Copy, Debug)]
struct Found {
    id: TensorId,
    span: Span,
}

impl<'c> CatalogBuilder<'c> {
    /// A builder for the model that `config` describes.
    pub fn new(config: &'c Config) -> CatalogBuilder<'c> {
        CatalogBuilder {
            config,
            shards: Vec::new(),
            broken: HashSet::new(),
            found: Vec::new(),
            foreign: HashSet::new(),
            ignored: Ignored::default(),
            tensor_bytes: 0,
            problems: Problems::none(),
        }
    }

    /// Adds the next shard. Shards get their ids in the order of these calls, which should
    /// be the order of their names, so that the ids do not depend on who lists them.
    pub fn add_shard(
        &mut self,
        name: &str,
        file_len: u64,
        header: Result<Header<'_>, HeaderError>,
    ) -> ShardId {
        let shard = ShardId::new(self.shards.len() as u32);
        self.shards.push(Shard { name: name.to_owned(), len: file_len });
        match header {
            Ok(header) => header.tensors.iter().for_each(|tensor| self.add_tensor(shard, tensor)),
            Err(error) => {
                self.broken.insert(shard);
                self.problems.push(Problem::Header { shard: name.to_owned(), error });
            }
        }
        shard
    }

    fn add_tensor(&mut self, shard: ShardId, tensor: &TensorInfo<'_>) {
        self.tensor_bytes = self.tensor_bytes.saturating_add(tensor.len);
        match TensorId::parse(&tensor.name, &self.config.spec) {
            Some(id) => self.add_known(shard, id, tensor),
            None => self.add_foreign(shard, tensor),
        }
    }

    fn add_known(&mut self, shard: ShardId, id: TensorId, info: &TensorInfo<'_>) {
        let spec = &self.config.spec;
        let place = || (self.shards[shard.index()].name.clone(), quote(&info.name));
        if !id.accepts_dtype(info.dtype) {
            let (shard, tensor) = place();
            let (wanted, found) = (id.dtype(), info.dtype);
            self.problems.push(Problem::Dtype { shard, tensor, wanted, found });
        } else if !id.accepts_shape(spec, &info.shape) {
            let (shard, tensor) = place();
            let (wanted, found) = (id.shape(spec), info.shape);
            self.problems.push(Problem::Shape { shard, tensor, wanted, found });
        }
        let span = Span::new(shard, info.offset, info.len);
        let span = span.expect("a parsed header has no range outside its file");
        self.found.push(Found { id, span });
    }

    fn add_foreign(&mut self, shard: ShardId, tensor: &TensorInfo<'_>) {
        let name = tensor.name.as_ref();
        self.foreign.insert((shard, name.into()));
        let place = || (self.shards[shard.index()].name.clone(), quote(name));
        if name.starts_with(TEXT_PREFIX) && !self.is_next_token_layer(name) {
            let (shard, tensor) = place();
            self.problems.push(Problem::Unknown { shard, tensor });
        } else if is_unprefixed(name, &self.config.spec) {
            let (shard, tensor) = place();
            self.problems.push(Problem::Prefix { shard, tensor });
        } else {
            self.ignored.tensors += 1;
            self.ignored.bytes += tensor.len;
        }
    }

    /// Layers after the last are the extra heads for multi-token prediction, if the
    /// configuration declares any. The engine does without.
    fn is_next_token_layer(&self, name: &str) -> bool {
        let rest = name.strip_prefix(TEXT_PREFIX).and_then(|n| n.strip_prefix("model.layers."));
        let number = rest.and_then(|rest| rest.split('.').next()?.parse::<u64>().ok());
        let first = self.config.spec.layers.len() as u64;
        number.is_some_and(|n| n >= first && n - first < self.config.nextn_layers)
    }

    /// What is wrong with the shards by themselves, for a checkpoint that is known not to be whole.
    pub fn shard_problems(self) -> Problems {
        self.problems
    }

    /// Checks all that was added against the roster and the index.
    pub fn finish(mut self, index: Option<&Index<'_>>) -> Result<Catalog, Problems> {
        self.found.sort_unstable_by_key(|found| (found.id, found.span));
        self.refuse_duplicates();
        let indexed = index.map(|index| self.indexed(index));
        if let (Some(index), Some(indexed)) = (index, &indexed) {
            self.compare(index, indexed);
        }
        self.refuse_missing(indexed.as_deref());
        if self.problems.is_empty() { Ok(self.build()) } else { Err(self.problems) }
    }

    fn shard_name(&self, shard: ShardId) -> String {
        self.shards[shard.index()].name.clone()
    }

    fn refuse_duplicates(&mut self) {
        for at in 1..self.found.len() {
            let (first, second) = (self.found[at - 1], self.found[at]);
            if first.id == second.id {
                self.problems.push(Problem::Duplicate {
                    tensor: first.id.name(),
                    first: self.shard_name(first.span.shard()),
                    second: self.shard_name(second.span.shard()),
                });
            }
        }
        self.found.dedup_by_key(|found| found.id);
    }

    /// The index's lines about the text model, in the order of the roster. Its other lines only
    /// have to be true.
    fn indexed(&mut self, index: &Index<'_>) -> Vec<(TensorId, Option<ShardId>)> {
        let number = |name: &str| self.shards.iter().position(|shard| shard.name == name);
        let shards: Vec<Option<ShardId>> = index
            .shards
            .iter()
            .map(|name| number(name).map(|number| ShardId::new(number as u32)))
            .collect();
        for (name, shard) in index.shards.iter().zip(&shards) {
            if shard.is_none() {
                self.problems.push(Problem::NoShard { shard: quote(name) });
            }
        }
        let mut lines = Vec::new();
        for entry in &index.entries {
            let shard = shards[entry.shard as usize];
            match TensorId::parse(&entry.name, &self.config.spec) {
                Some(id) => lines.push((id, shard)),
                None => self.check_foreign(&entry.name, shard),
            }
        }
        lines.sort_unstable();
        lines
    }

    fn check_foreign(&mut self, name: &str, shard: Option<ShardId>) {
        let is_there = |shard: ShardId| self.foreign.contains(&(shard, name.into()));
        if shard.is_some_and(|shard| !is_there(shard)) {
            self.not_in_shard(|| quote(name), shard);
        }
    }

    /// Walks both sorted lists at once.
    fn compare(&mut self, index: &Index<'_>, indexed: &[(TensorId, Option<ShardId>)]) {
        let found = std::mem::take(&mut self.found);
        let mut lines = indexed.iter().copied().peekable();
        for tensor in &found {
            while let Some((id, shard)) = lines.next_if(|line| line.0 < tensor.id) {
                self.not_in_shard(|| id.name(), shard);
            }
            match lines.next_if(|line| line.0 == tensor.id) {
                Some((id, shard)) if shard != Some(tensor.span.shard()) => {
                    self.not_in_shard(|| id.name(), shard);
                }
                Some(_) => {}
                None => {
                    let shard = self.shard_name(tensor.span.shard());
                    let tensor = tensor.id.name();
                    self.problems.push(Problem::NotInIndex { tensor, shard });
                }
            }
        }
        lines.for_each(|(id, shard)| self.not_in_shard(|| id.name(), shard));
        self.found = found;
        let wanted = index.total_size.unwrap_or(self.tensor_bytes);
        if wanted != self.tensor_bytes && self.broken.is_empty() {
            self.problems.push(Problem::TotalSize { wanted, found: self.tensor_bytes });
        }
    }

    /// Says nothing about shards that have a problem of their own.
    fn not_in_shard(&mut self, name: impl FnOnce() -> String, shard: Option<ShardId>) {
        if let Some(shard) = shard.filter(|shard| !self.broken.contains(shard)) {
            let (tensor, shard) = (name(), self.shard_name(shard));
            self.problems.push(Problem::NotInShard { tensor, shard });
        }
    }

    /// Names what the roster has and no shard does. What the index places somewhere was
    /// judged already; without an index, a broken shard may hold anything.
    fn refuse_missing(&mut self, indexed: Option<&[(TensorId, Option<ShardId>)]>) {
        let mut missing = self.config.spec.roster_len() - self.found.len() as u64;
        if missing == 0 || (indexed.is_none() && !self.broken.is_empty()) {
            return;
        }
        let mut found = self.found.iter().map(|found| found.id).peekable();
        let mut lines = indexed.unwrap_or_default().iter().map(|line| line.0).peekable();
        for id in self.config.spec.roster() {
            if missing == 0 || self.problems.room() == 0 {
                break;
            }
            if found.next_if_eq(&id).is_some() {
                lines.next_if_eq(&id);
                continue;
            }
            missing -= 1;
            if lines.next_if_eq(&id).is_none() {
                self.problems.push(Problem::Missing { tensor: id.name() });
            }
        }
        self.problems.skip(missing);
    }

    /// Everything is there: `found` is exactly the roster, in its order.
    fn build(self) -> Catalog {
        let spec = &self.config.spec;
        let mut found = self.found.into_iter();
        let mut next = || found.next().expect("the roster is complete").span;
        let spines = spec.layer_ids().map(|layer| {
            let place = |role: SpineTensor| {
                let span = next();
                FoundSpine {
                    role,
                    dtype: role.dtype(),
                    shape: stored_shape(role, spec, span),
                    span,
                }
            };
            Spine::found(layer, &spec.spine(layer).map(place).collect::<Vec<_>>())
        });
        let spines = spines.collect();
        let (experts, first_expert) = build_experts(spec, &mut next);
        let globals = build_globals(spec, &mut next);
        Catalog {
            spec: spec.clone(),
            shards: self.shards,
            spines,
            experts,
            first_expert,
            globals,
            ignored: self.ignored,
            seals: Vec::new(),
        }
    }
}

/// The shape a found tensor has. Only a padded vector may differ from the roster, and its
/// bytes tell its length.
fn stored_shape(role: SpineTensor, spec: &ModelSpec, span: Span) -> Shape {
    let shape = role.shape(spec);
    let entries = span.len() / role.dtype().size_bytes();
    if shape.dims().len() == 1 { Shape::new(&[entries]).unwrap_or(shape) } else { shape }
}

fn build_experts(spec: &ModelSpec, next: &mut impl FnMut() -> Span) -> (ExpertTable, Vec<usize>) {
    let mut table = ExpertTable::with_capacity(spec.expert_count() as usize);
    let mut first = Vec::with_capacity(spec.layers.len());
    for layer in &spec.layers {
        first.push(table.len());
        if layer.ffn == FfnKind::Moe {
            (0..spec.moe.experts).for_each(|_| table.push(std::array::from_fn(|_| next())));
        }
    }
    (table, first)
}

fn build_globals(spec: &ModelSpec, next: &mut impl FnMut() -> Span) -> Globals {
    let mut tensor = |role: GlobalTensor| SpanTensor {
        role,
        dtype: role.dtype(),
        shape: role.shape(spec),
        span: next(),
        scales: None,
        digest: None,
    };
    Globals {
        embed: RowTable::new(tensor(GlobalTensor::Embed)),
        norm: tensor(GlobalTensor::Norm),
        output_res_norm: tensor(GlobalTensor::OutputResNorm),
        output_res_proj: tensor(GlobalTensor::OutputResProj),
        head: RowTable::new(tensor(GlobalTensor::Head)),
    }
}

/// Whether the name would be known with the prefix in front.
fn is_unprefixed(name: &str, spec: &ModelSpec) -> bool {
    let text = name.starts_with("model.") || name.starts_with("lm_head.");
    text && TensorId::parse(&format!("{TEXT_PREFIX}{name}"), spec).is_some()
}

const _: () = {
    // The order in which `build` takes spans is the order of these tables.
    assert!(matches!(GlobalTensor::ALL[0], GlobalTensor::Embed));
    assert!(matches!(GlobalTensor::ALL[4], GlobalTensor::Head));
    assert!(ExpertTensor::ALL.len() == 6);
};
