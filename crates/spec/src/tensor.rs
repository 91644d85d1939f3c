//! One tensor of the roster, and the way between it and its name.

use std::fmt;

use crate::{
    Dtype, ExpertId, ExpertTensor, FfnKind, GlobalTensor, LayerId, ModelSpec, Shape, SpineTensor,
};

/// What every text tensor's name begins with.
pub const TEXT_PREFIX: &str = "language_model.";

const LAYERS: &str = "model.layers.";
const EXPERTS: &str = "block_sparse_moe.experts.";

/// A tensor of the text model. The order is that of [`ModelSpec::roster`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TensorId {
    /// A tensor that every token uses.
    Spine(LayerId, SpineTensor),
    /// A tensor of a routed expert.
    Expert(LayerId, ExpertId, ExpertTensor),
    /// A tensor outside the layers.
    Global(GlobalTensor),
}

/// Displays the full name in a checkpoint.
impl fmt::Display for TensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TEXT_PREFIX)?;
        match self {
            TensorId::Spine(layer, role) => write!(f, "{LAYERS}{layer}.{}", role.suffix()),
            TensorId::Expert(layer, expert, role) => {
                write!(f, "{LAYERS}{layer}.{EXPERTS}{expert}.{}", role.suffix())
            }
            TensorId::Global(role) => f.write_str(role.suffix()),
        }
    }
}

impl TensorId {
    /// The full name in a checkpoint.
    pub fn name(&self) -> String {
        self.to_string()
    }

    /// The tensor of this model that has the name; the inverse of [`TensorId::name`].
    pub fn parse(name: &str, spec: &ModelSpec) -> Option<TensorId> {
        let name = name.strip_prefix(TEXT_PREFIX)?;
        let Some(inner) = name.strip_prefix(LAYERS) else {
            let role = GlobalTensor::ALL.iter().find(|role| role.suffix() == name)?;
            return Some(TensorId::Global(*role));
        };
        let (layer, rest) = number(inner)?;
        let kind = *spec.layers.get(layer as usize)?;
        let layer = LayerId::new(layer);
        let Some(inner) = rest.strip_prefix(EXPERTS) else {
            let role = SpineTensor::ALL.iter().find(|role| {
                role.suffix() == rest && role.belongs_to(kind, spec.moe.latent_norm)
            })?;
            return Some(TensorId::Spine(layer, *role));
        };
        let (expert, rest) = number(inner)?;
        let role = ExpertTensor::ALL.iter().find(|role| role.suffix() == rest)?;
        let known = kind.ffn == FfnKind::Moe && (expert as usize) < spec.moe.experts;
        known.then_some(TensorId::Expert(layer, ExpertId::new(expert), *role))
    }

    /// The dtype in the released checkpoint.
    pub fn dtype(&self) -> Dtype {
        match self {
            TensorId::Spine(_, role) => role.dtype(),
            TensorId::Expert(_, _, role) => role.dtype(),
            TensorId::Global(role) => role.dtype(),
        }
    }

    /// The shape in a checkpoint of this model.
    pub fn shape(&self, spec: &ModelSpec) -> Shape {
        match self {
            TensorId::Spine(_, role) => role.shape(spec),
            TensorId::Expert(_, _, role) => role.shape(spec),
            TensorId::Global(role) => role.shape(spec),
        }
    }

    /// The bytes it takes in a released checkpoint of this model.
    pub fn bytes(&self, spec: &ModelSpec) -> u64 {
        let bytes = self.shape(spec).bytes(self.dtype());
        bytes.expect("a checked spec has no size that overflows")
    }

    /// Whether a stored dtype will do.
    pub fn accepts_dtype(&self, stored: Dtype) -> bool {
        match self {
            TensorId::Expert(_, _, role) => role.accepts_dtype(stored),
            _ => stored == self.dtype(),
        }
    }

    /// Whether a stored shape will do.
    pub fn accepts_shape(&self, spec: &ModelSpec, stored: &Shape) -> bool {
        match self {
            TensorId::Spine(_, role) => role.accepts(spec, stored),
            _ => *stored == self.shape(spec),
        }
    }
}

/// `12.rest` to 12 and `rest`. Only the way we would write the number ourselves counts:
/// `012.` is another name.
fn number(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_once('.')?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit());
    let canonical = digits == "0" || !digits.starts_with('0');
    (plain && canonical).then_some((digits.parse().ok()?, rest))
}

impl ModelSpec {
    /// The spine tensors of a layer, in roster order.
    pub fn spine(&self, layer: LayerId) -> impl Iterator<Item = SpineTensor> + use<> {
        let (kind, norm) = (self.layer(layer), self.moe.latent_norm);
        SpineTensor::ALL.iter().copied().filter(move |role| role.belongs_to(kind, norm))
    }

    /// Every tensor a checkpoint of the text model holds, in the order of [`TensorId`].
    pub fn roster(&self) -> impl Iterator<Item = TensorId> + '_ {
        let spine = self
            .layer_ids()
            .flat_map(|layer| self.spine(layer).map(move |role| TensorId::Spine(layer, role)));
        let experts = self.moe_layers().flat_map(|layer| {
            self.moe.expert_ids().flat_map(move |expert| {
                ExpertTensor::ALL.iter().map(move |role| TensorId::Expert(layer, expert, *role))
            })
        });
        let globals = GlobalTensor::ALL.iter().map(|role| TensorId::Global(*role));
        spine.chain(experts).chain(globals)
    }

    /// How many tensors [`ModelSpec::roster`] yields, without counting them one by one.
    pub fn roster_len(&self) -> u64 {
        let spine: u64 = self.layer_ids().map(|layer| self.spine(layer).count() as u64).sum();
        let experts = self.count_ffn(FfnKind::Moe) as u64 * self.moe.experts as u64;
        spine + experts * ExpertTensor::ALL.len() as u64 + GlobalTensor::ALL.len() as u64
    }
}
