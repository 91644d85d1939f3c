//! Bytes of a record, seen as the matrices and vectors that the catalog says they are.
//!
//! The catalog has checked names, dtypes and shapes, so nothing here can fail but by our own fault.

use deltafin_checkpoint::{ExpertLayout, PlacedTensor, PlacedTensors, SpanTensor};
use deltafin_kernels::{Matrix, Weights};
use deltafin_model::{
    Attention, AttentionView, Expert, Ffn, FfnView, Glu, Kda, Mla, Moe, ResidualMix, TailView,
    Vector,
};
use deltafin_spec::{Dtype, ExpertTensor, FfnKind, LayerKind, MoeSpec, Shape, SpineTensor as T};

const CHECKED: &str = "the catalog has checked dtype and shape";

/// A tensor as a vector.
pub(super) fn vector(dtype: Dtype, bytes: &[u8]) -> Vector<'_> {
    match dtype {
        Dtype::F32 => Vector::F32(bytes),
        Dtype::Bf16 => Vector::Bf16(bytes),
        _ => unreachable!("{CHECKED}"),
    }
}

/// A tensor as a matrix; `scales` are those of its rows, where it has any.
fn matrix<'a>(
    dtype: Dtype,
    shape: &Shape,
    bytes: &'a [u8],
    scales: Option<&'a [u8]>,
) -> Matrix<'a> {
    let weights = match (dtype, scales) {
        (Dtype::F32, None) => Weights::F32(bytes),
        (Dtype::Bf16, None) => Weights::Bf16(bytes),
        (Dtype::I8, Some(scales)) => Weights::Int8 { codes: bytes, scales },
        _ => unreachable!("{CHECKED}"),
    };
    let &[rows, cols] = shape.dims() else { unreachable!("{CHECKED}") };
    Matrix::new(rows as usize, cols as usize, weights).expect(CHECKED)
}

/// Half a spine and its bytes, to look tensors up in.
struct Tensors<'a> {
    half: &'a PlacedTensors,
    bytes: &'a [u8],
}

impl<'a> Tensors<'a> {
    fn find(&self, role: T) -> (&'a PlacedTensor, &'a [u8]) {
        let tensor = self.half.tensor(role).expect(CHECKED);
        (tensor, &self.bytes[tensor.place.range()])
    }

    fn matrix(&self, role: T) -> Matrix<'a> {
        let (tensor, bytes) = self.find(role);
        let scales = tensor.scales.map(|place| &self.bytes[place.range()]);
        matrix(tensor.dtype, &tensor.shape, bytes, scales)
    }

    fn vector(&self, role: T) -> Vector<'a> {
        let (tensor, bytes) = self.find(role);
        vector(tensor.dtype, bytes)
    }

    fn mix(&self, norm: T, proj: T) -> ResidualMix<'a> {
        ResidualMix { norm: self.vector(norm), proj: self.vector(proj) }
    }

    fn glu(&self, gate: T, up: T, down: T) -> Glu<'a> {
        Glu { gate: self.matrix(gate), up: self.matrix(up), down: self.matrix(down) }
    }

    fn kda(&self) -> Kda<'a> {
        Kda {
            qkv: [T::KdaQ, T::KdaK, T::KdaV].map(|role| self.matrix(role)),
            conv: [T::KdaQConv, T::KdaKConv, T::KdaVConv].map(|role| self.vector(role)),
            f_a: self.matrix(T::KdaDecayA),
            f_b: self.matrix(T::KdaDecayB),
            beta: self.matrix(T::KdaBeta),
            a_log: self.vector(T::KdaALog),
            dt_bias: self.vector(T::KdaDtBias),
            gate: self.matrix(T::KdaGate),
            o_norm: self.vector(T::KdaOutNorm),
            output: self.matrix(T::KdaOut),
        }
    }

    fn mla(&self) -> Mla<'a> {
        Mla {
            q_a: self.matrix(T::MlaQA),
            q_norm: self.vector(T::MlaQANorm),
            q_b: self.matrix(T::MlaQB),
            kv_a: self.matrix(T::MlaKvA),
            kv_norm: self.vector(T::MlaKvANorm),
            kv_b: self.matrix(T::MlaKvB),
            gate: self.matrix(T::MlaGate),
            output: self.matrix(T::MlaOut),
        }
    }

    fn moe(&self, spec: &MoeSpec) -> Moe<'a> {
        Moe {
            router: self.matrix(T::Router),
            correction: self.vector(T::RouterBias),
            to_latent: self.matrix(T::LatentDown),
            latent_norm: spec.latent_norm.then(|| self.vector(T::LatentNorm)),
            from_latent: self.matrix(T::LatentUp),
            shared: self.glu(T::SharedGate, T::SharedUp, T::SharedDown),
        }
    }
}

/// The attention half of a layer of this kind.
pub(super) fn attention<'a>(
    kind: LayerKind,
    half: &'a PlacedTensors,
    bytes: &'a [u8],
) -> AttentionView<'a> {
    let tensors = Tensors { half, bytes };
    AttentionView {
        mix: tensors.mix(T::AttnResNorm, T::AttnResProj),
        norm: tensors.vector(T::InputNorm),
        attention: match kind {
            LayerKind::Kda => Attention::Kda(tensors.kda()),
            LayerKind::Mla => Attention::Mla(tensors.mla()),
        },
    }
}

/// The feed-forward half of a layer of this kind.
pub(super) fn ffn<'a>(
    spec: &MoeSpec,
    kind: FfnKind,
    half: &'a PlacedTensors,
    bytes: &'a [u8],
) -> FfnView<'a> {
    let tensors = Tensors { half, bytes };
    FfnView {
        mix: tensors.mix(T::MlpResNorm, T::MlpResProj),
        norm: tensors.vector(T::PostAttentionNorm),
        ffn: match kind {
            FfnKind::Dense => Ffn::Dense(tensors.glu(T::DenseGate, T::DenseUp, T::DenseDown)),
            FfnKind::Moe => Ffn::Moe(tensors.moe(spec)),
        },
    }
}

/// Mix norm, mix projection and norm.
pub(super) fn tail<'a>(tensors: [&SpanTensor; 3], bytes: [&'a [u8]; 3]) -> TailView<'a> {
    let vector_at = |i: usize| vector(tensors[i].dtype, bytes[i]);
    TailView { mix: ResidualMix { norm: vector_at(0), proj: vector_at(1) }, norm: vector_at(2) }
}

/// The output head.
pub(super) fn head<'a>(tensor: &SpanTensor, bytes: &'a [u8]) -> Matrix<'a> {
    let scales = tensor.scales.map(|place| &bytes[place.range()]);
    matrix(tensor.dtype, &tensor.shape, &bytes[tensor.elements().range()], scales)
}

/// A routed expert.
pub(super) fn expert<'a>(spec: &MoeSpec, layout: &ExpertLayout, bytes: &'a [u8]) -> Expert<'a> {
    let mxfp4 = |rows, cols, packed, scales| {
        let (packed, scales) = (&bytes[layout.range(packed)], &bytes[layout.range(scales)]);
        Matrix::new(rows, cols, Weights::Mxfp4 { packed, scales }).expect(CHECKED)
    };
    use ExpertTensor::{W1Packed, W1Scale, W2Packed, W2Scale, W3Packed, W3Scale};
    Glu {
        gate: mxfp4(spec.width, spec.latent, W1Packed, W1Scale),
        up: mxfp4(spec.width, spec.latent, W3Packed, W3Scale),
        down: mxfp4(spec.latent, spec.width, W2Packed, W2Scale),
    }
}
