//! Writing what the parsers read: headers, the index, the configuration, and the released
//! way to spread a model over shards.
//!
//! Nothing here writes files. It plans a checkpoint from a [`ModelSpec`] and gives the
//! bytes around the tensors, so that whoever has the tensors can put them in between.

mod config;

use deltafin_spec::{Dtype, LayerId, ModelSpec, Shape, TensorId};

pub use config::config_json;

/// A tensor in a planned shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTensor {
    /// The full name.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// The dimensions.
    pub shape: Shape,
}

impl PlannedTensor {
    /// The planned form of a tensor of the roster.
    pub fn of(id: TensorId, spec: &ModelSpec) -> PlannedTensor {
        PlannedTensor { name: id.name(), dtype: id.dtype(), shape: id.shape(spec) }
    }

    /// The tensor's bytes.
    ///
    /// # Panics
    /// If the size overflows.
    pub fn bytes(&self) -> u64 {
        self.shape.bytes(self.dtype).expect("a planned tensor has a size that fits")
    }
}

/// One planned file: its tensors in the order of their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedShard {
    /// The file name.
    pub name: String,
    /// The tensors.
    pub tensors: Vec<PlannedTensor>,
}

impl PlannedShard {
    /// The bytes in front of the tensors.
    pub fn header(&self) -> Vec<u8> {
        header(&self.tensors)
    }

    /// The bytes of the tensors.
    pub fn data_bytes(&self) -> u64 {
        self.tensors.iter().map(PlannedTensor::bytes).sum()
    }
}

/// The length and the JSON that go in front of these tensors, padded with spaces to a
/// multiple of 8. There is no `__metadata__`, as the released shards have none.
pub fn header(tensors: &[PlannedTensor]) -> Vec<u8> {
    let mut json = String::new();
    let mut begin = 0;
    for tensor in tensors {
        let end = begin + tensor.bytes();
        json.push(if json.is_empty() { '{' } else { ',' });
        push_string(&mut json, &tensor.name);
        json.push_str(r#":{"dtype":""#);
        json.push_str(tensor.dtype.name());
        json.push_str(r#"","shape":["#);
        for (position, dim) in tensor.shape.dims().iter().enumerate() {
            json.push_str(if position == 0 { "" } else { "," });
            json.push_str(&dim.to_string());
        }
        json.push_str(&format!(r#"],"data_offsets":[{begin},{end}]}}"#));
        begin = end;
    }
    json.push_str(if json.is_empty() { "{}" } else { "}" });
    while !json.len().is_multiple_of(8) {
        json.push(' ');
    }
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes
}

/// The index of these shards.
pub fn index_json(shards: &[PlannedShard]) -> String {
    let total: u64 = shards.iter().map(PlannedShard::data_bytes).sum();
    let mut lines: Vec<(&str, &str)> = shards
        .iter()
        .flat_map(|shard| shard.tensors.iter().map(|t| (t.name.as_str(), shard.name.as_str())))
        .collect();
    lines.sort_unstable();
    let mut json =
        format!("{{\n  \"metadata\": {{\n    \"total_size\": {total}\n  }},\n  \"weight_map\": {{");
    for (position, (tensor, shard)) in lines.into_iter().enumerate() {
        json.push_str(if position == 0 { "\n    " } else { ",\n    " });
        push_string(&mut json, tensor);
        json.push_str(": ");
        push_string(&mut json, shard);
    }
    json.push_str("\n  }\n}");
    json
}

/// The released layout: a shard per layer, one for the tensors outside the layers, and one
/// for each group of `extra` tensors.
pub fn layout(spec: &ModelSpec, extra: &[Vec<PlannedTensor>]) -> Vec<PlannedShard> {
    let layers = spec.layer_ids().map(|layer| layer_tensors(spec, layer));
    let globals = deltafin_spec::GlobalTensor::ALL.iter();
    let globals = globals.map(|role| PlannedTensor::of(TensorId::Global(*role), spec)).collect();
    let mut groups: Vec<Vec<PlannedTensor>> = layers.collect();
    groups.push(globals);
    groups.extend_from_slice(extra);
    let total = groups.len();
    let shard = |(index, mut tensors): (usize, Vec<PlannedTensor>)| {
        sort_as_released(&mut tensors);
        PlannedShard { name: shard_name(index, total), tensors }
    };
    groups.into_iter().enumerate().map(shard).collect()
}

/// The released file name of a shard: five digits of the number, six of the total.
pub fn shard_name(index: usize, total: usize) -> String {
    format!("model-{:05}-of-{total:06}.safetensors", index + 1)
}

fn layer_tensors(spec: &ModelSpec, layer: LayerId) -> Vec<PlannedTensor> {
    let spine = spec.spine(layer).map(|role| TensorId::Spine(layer, role));
    let mut tensors: Vec<_> = spine.map(|id| PlannedTensor::of(id, spec)).collect();
    if spec.layer(layer).ffn == deltafin_spec::FfnKind::Moe {
        let roles = deltafin_spec::ExpertTensor::ALL;
        for expert in spec.moe.expert_ids() {
            let ids = roles.iter().map(|role| TensorId::Expert(layer, expert, *role));
            tensors.extend(ids.map(|id| PlannedTensor::of(id, spec)));
        }
    }
    tensors
}

/// Wide elements first, names ascending within a type: FP32, BF16, U8.
fn sort_as_released(tensors: &mut [PlannedTensor]) {
    let key = |t: &PlannedTensor| std::cmp::Reverse((t.dtype.bits(), t.dtype));
    tensors.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name)));
}

fn push_string(json: &mut String, text: &str) {
    let quoted = serde_json::to_string(text).expect("a string is always JSON");
    json.push_str(&quoted);
}
