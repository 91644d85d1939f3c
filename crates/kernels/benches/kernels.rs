//! The kernels one call at a time, in the shapes of Kimi K3, on one thread and every instruction set.
//!
//! `cargo bench -p deltafin-kernels WORD` runs those whose name contains the word. Weights stay in a
//! cache that is large enough: streaming from memory is measured by `deltafin bench kernels`.
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

use deltafin_kernels::{
    Isa, IsaKind, Kernels, LatentDims, Matrix, POSITIONS_PER_BLOCK, Product, Scratch, Serial,
    Weights,
};
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use std::sync::Arc;

fn main() {
    divan::main();
}

/// What this machine has, but for the scalar twin.
fn isas() -> impl Iterator<Item = IsaKind> {
    Isa::available().map(Isa::kind).filter(|kind| *kind != IsaKind::Scalar)
}

fn kernels(isa: IsaKind) -> Kernels {
    Kernels::new(Isa::new(isa).unwrap(), Arc::new(Serial))
}

fn floats(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i % 17) as f32 * 0.125 - 1.0).collect()
}

/// The three products of an expert: gate and up share their activations, then comes down. Items are
/// multiply-adds.
mod products {
    use super::*;

    const LATENT: usize = 3584;
    const EXPERT: usize = 3072;
    const WEIGHTS: usize = LATENT * EXPERT;

    fn settings() -> impl Iterator<Item = (IsaKind, usize)> {
        isas().flat_map(|isa| [1, 8, 64].map(|rows| (isa, rows)))
    }

    #[divan::bench(args = settings())]
    fn mxfp4(bencher: Bencher<'_, '_>, setting: &(IsaKind, usize)) {
        let (packed, scales) = (bytes(WEIGHTS / 2), vec![123; WEIGHTS / 32]);
        expert(bencher, *setting, Weights::Mxfp4 { packed: &packed, scales: &scales });
    }

    #[divan::bench(args = settings())]
    fn int8(bencher: Bencher<'_, '_>, setting: &(IsaKind, usize)) {
        // Each shape takes the scales of as many rows as it has.
        let (codes, scales) = (bytes(WEIGHTS), vec![0x2c; 2 * LATENT]);
        expert(bencher, *setting, Weights::Int8 { codes: &codes, scales: &scales });
    }

    #[divan::bench(args = settings())]
    fn bf16(bencher: Bencher<'_, '_>, setting: &(IsaKind, usize)) {
        expert(bencher, *setting, Weights::Bf16(&bytes(2 * WEIGHTS)));
    }

    #[divan::bench(args = settings())]
    fn f32(bencher: Bencher<'_, '_>, setting: &(IsaKind, usize)) {
        expert(bencher, *setting, Weights::F32(&bytes(4 * WEIGHTS)));
    }

    /// Bytes that are ordinary numbers in every format.
    fn bytes(n: usize) -> Vec<u8> {
        (0..n).map(|i| if i % 2 == 1 { 0x3c } else { i as u8 }).collect()
    }

    fn expert(bencher: Bencher<'_, '_>, (isa, rows): (IsaKind, usize), weights: Weights<'_>) {
        let (kernels, mut scratch) = (kernels(isa), Scratch::default());
        let (up, down) = (matrix(EXPERT, LATENT, weights), matrix(LATENT, EXPERT, weights));
        let (x, mut gate) = (floats(rows * LATENT), floats(rows * EXPERT));
        let (mut inner, mut y) = (gate.clone(), x.clone());
        let bytes = BytesCount::new(2 * up.bytes() + down.bytes());
        let macs = ItemsCount::new(3 * WEIGHTS * rows);
        bencher.counter(bytes).counter(macs).bench_local(|| {
            let both = &mut [
                Product { w: up, x: &x, y: &mut gate },
                Product { w: up, x: &x, y: &mut inner },
            ];
            kernels.products(&mut scratch, both);
            kernels.products(&mut scratch, &mut [Product { w: down, x: &inner, y: &mut y }]);
        });
    }

    fn matrix(rows: usize, cols: usize, weights: Weights<'_>) -> Matrix<'_> {
        let weights = match weights {
            Weights::Int8 { codes, scales } => Weights::Int8 { codes, scales: &scales[..2 * rows] },
            other => other,
        };
        Matrix::new(rows, cols, weights).unwrap()
    }
}

/// One row of all heads over the last block of a cache. Items are pairs of a head and a position.
#[divan::bench(args = isas())]
fn attention_block(bencher: Bencher<'_, '_>, isa: &IsaKind) {
    let dims = LatentDims { heads: 96, nope: 128, rope: 64, v: 128, latent: 512 };
    let positions = POSITIONS_PER_BLOCK;
    let (q, q_latent) = (floats(dims.heads * dims.query()), floats(dims.heads * dims.latent));
    let (c, k_pe) = (floats(positions * dims.latent), floats(positions * dims.rope));
    let (kernels, mut out) = (kernels(*isa), q_latent.clone());
    bencher.counter(ItemsCount::new(dims.heads * positions)).bench_local(|| {
        kernels.latent_attention(&dims, &q, &q_latent, &c, &k_pe, positions - 1, 0.07, &mut out);
    });
}

/// One row of all heads of a KDA layer. Bytes are those of the state.
#[divan::bench(args = isas())]
fn kda_step(bencher: Bencher<'_, '_>, isa: &IsaKind) {
    const HEADS: usize = 96;
    const DIM: usize = 128;
    let (q, k, v) = (floats(HEADS * DIM), vec![0.05; HEADS * DIM], floats(HEADS * DIM));
    let (alpha, beta) = (vec![0.9; HEADS * DIM], vec![0.5; HEADS]);
    let (mut state, mut out) = (floats(HEADS * DIM * DIM), v.clone());
    let kernels = kernels(*isa);
    bencher.counter(BytesCount::new(size_of_val(&state[..]))).bench_local(|| {
        kernels.kda_recurrence(HEADS, &q, &k, &v, &alpha, &beta, &mut state, &mut out);
    });
}
