//! What Kimi K3 is: layer kinds, dimensions, tensor names, shapes and byte sizes.
//!
//! This crate is a table with arithmetic on it. It does no I/O, has no dependencies and
//! knows neither files nor arithmetic on weights. Two questions lead through it:
//!
//! * *How large is everything?* — [`ModelSpec`], with the released dimensions in
//!   [`ModelSpec::k3`] and the byte totals in its `*_bytes` methods.
//! * *Which tensors must a checkpoint hold?* — [`ModelSpec::roster`], an iterator of
//!   [`TensorId`], each of which knows its name, dtype and shape; [`TensorId::parse`] goes
//!   the other way.
//!
//! A [`ModelSpec`] that passed [`ModelSpec::check`] has no zero dimension and no size that
//! overflows 63 bits, so the arithmetic below is plain.
#![forbid(unsafe_code)]

mod check;
mod dtype;
mod half;
mod ids;
mod model;
mod roster;
mod sizes;
mod tensor;

pub use check::{SpecError, check_layer_count};
pub use dtype::{Dtype, MAX_RANK, Shape};
pub use half::Half;
pub use ids::{ExpertId, LayerId};
pub use model::{
    FfnKind, KdaSpec, L2_NORM_EPS, LayerKind, LayerSpec, MLA_NORM_EPS, MXFP4_GROUP, MlaSpec,
    ModelSpec, MoeSpec, SituSpec,
};
pub use roster::{ExpertTensor, GlobalTensor, SpineTensor};
pub use tensor::{TEXT_PREFIX, TensorId};
