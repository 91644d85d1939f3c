//! The kernels as the engine calls them.

use crate::Memory;
use deltafin_kernels::{IsaKind, Kernels, Matrix, Product, Scratch, Weights};
use std::time::Instant;

/// Width of the latent space that experts work in, and of an expert.
const LATENT: usize = 3584;
const EXPERT: usize = 3072;
/// Width of the hidden state, the columns of most of the spine.
const HIDDEN: usize = 7168;

/// A weight format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A whole expert: two matrices that share their activations, then a third.
    Mxfp4,
    /// Rows of 7168 columns.
    Int8,
    /// Rows of 7168 columns.
    Bf16,
    /// Rows of 7168 columns.
    F32,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 4] = [Format::Mxfp4, Format::Int8, Format::Bf16, Format::F32];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Format::Mxfp4 => "mxfp4",
            Format::Int8 => "int8",
            Format::Bf16 => "bf16",
            Format::F32 => "f32",
        }
    }

    pub(crate) fn is_in(self, names: &[String]) -> bool {
        names.is_empty() || names.iter().any(|name| name == self.name())
    }

    /// Bytes of a weight with its share of the scales.
    pub fn bytes_per_weight(self) -> f64 {
        match self {
            Format::Mxfp4 => 17.0 / 32.0,
            Format::Int8 => 1.0 + 2.0 / HIDDEN as f64,
            Format::Bf16 => 2.0,
            Format::F32 => 4.0,
        }
    }

    /// A matrix over the bytes from `start` of the weights on.
    fn matrix(self, memory: &Memory, start: usize, rows: usize, cols: usize) -> Matrix<'_> {
        let weights = rows * cols;
        let main = |bytes: usize| &memory.weights()[start..start + bytes];
        let scales = |bytes: usize| {
            let start = start / 16;
            &memory.scales()[start..start + bytes]
        };
        let weights = match self {
            Format::Mxfp4 => {
                Weights::Mxfp4 { packed: main(weights / 2), scales: scales(weights / 32) }
            }
            Format::Int8 => Weights::Int8 { codes: main(weights), scales: scales(2 * rows) },
            Format::Bf16 => Weights::Bf16(main(2 * weights)),
            Format::F32 => Weights::F32(main(4 * weights)),
        };
        Matrix::new(rows, cols, weights).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A kernel to measure.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Weight format.
    pub format: Format,
    /// Positions computed at once.
    pub rows: usize,
}

impl Case {
    /// Makes one pass and returns how fast weights were used, in 10^9 bytes per second. Passes take turns
    /// on the memory, so that none finds its weights in a cache.
    pub fn run(
        &self,
        kernels: &Kernels,
        scratch: &mut Scratch,
        memory: &Memory,
        pass: usize,
    ) -> f64 {
        match self.format {
            Format::Mxfp4 => self.experts(kernels, scratch, memory, pass),
            _ => self.rows(kernels, scratch, memory, pass),
        }
    }

    /// Weights of a pass: enough for ten milliseconds or more, little enough for many passes.
    fn weights_per_pass(&self, kernels: &Kernels) -> usize {
        let macs = match kernels.isa().kind() {
            IsaKind::Scalar => 1 << 25,
            _ => 1 << 30,
        };
        macs / self.rows.max(1)
    }

    fn experts(
        &self,
        kernels: &Kernels,
        scratch: &mut Scratch,
        memory: &Memory,
        pass: usize,
    ) -> f64 {
        let matrix_bytes = LATENT * EXPERT / 2;
        let there = memory.weights().len() / (3 * matrix_bytes);
        let wanted = self.weights_per_pass(kernels).div_ceil(3 * LATENT * EXPERT);
        let count = wanted.clamp(1, there / 2);
        let (x, mut inner) = (activations(self.rows * LATENT), activations(self.rows * EXPERT));
        let (mut gate, mut y) = (inner.clone(), x.clone());
        let mut bytes = 0;
        let begin = Instant::now();
        for i in 0..count {
            let start = (pass * count + i) % there * 3 * matrix_bytes;
            let w = |i: usize, rows, cols| {
                Format::Mxfp4.matrix(memory, start + i * matrix_bytes, rows, cols)
            };
            let (w1, w3, w2) = (w(0, EXPERT, LATENT), w(1, EXPERT, LATENT), w(2, LATENT, EXPERT));
            let both = &mut [
                Product { w: w1, x: &x, y: &mut gate },
                Product { w: w3, x: &x, y: &mut inner },
            ];
            kernels.products(scratch, both);
            kernels.products(scratch, &mut [Product { w: w2, x: &inner, y: &mut y }]);
            bytes += w1.bytes() + w3.bytes() + w2.bytes();
        }
        gbps(bytes, begin)
    }

    fn rows(&self, kernels: &Kernels, scratch: &mut Scratch, memory: &Memory, pass: usize) -> f64 {
        let row_bytes = HIDDEN * self.format.bytes_per_weight() as usize;
        let there = memory.weights().len() / row_bytes;
        let wanted = self.weights_per_pass(kernels).div_ceil(HIDDEN);
        let rows = wanted.clamp(1, there / 2);
        let first = pass % (there / rows) * rows;
        let w = self.format.matrix(memory, first * row_bytes, rows, HIDDEN);
        let (x, mut y) = (activations(self.rows * HIDDEN), activations(self.rows * rows));
        let begin = Instant::now();
        kernels.products(scratch, &mut [Product { w, x: &x, y: &mut y }]);
        gbps(w.bytes(), begin)
    }
}

fn gbps(bytes: usize, begin: Instant) -> f64 {
    bytes as f64 / begin.elapsed().as_secs_f64() / 1e9
}

/// Numbers that have been written, so that no pass waits for the system to give it the memory.
fn activations(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i % 17) as f32 * 0.125 - 1.0).collect()
}
