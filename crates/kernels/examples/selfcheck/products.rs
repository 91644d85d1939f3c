//! The matrix products, in every weight format.

use super::cases::{Case, Random};
use deltafin_kernels::{Kernels, LatentDims, Matrix, Product, Scratch, Weights};

pub(crate) const CASES: &[Case] = &[
    Case { name: "products/f32", compute: |k, r| products(k, r, Format::F32, &FEW) },
    Case { name: "products/bf16", compute: |k, r| products(k, r, Format::Bf16, &FEW) },
    Case { name: "products/int8", compute: |k, r| products(k, r, Format::Int8, &FEW) },
    Case { name: "products/mxfp4", compute: |k, r| products(k, r, Format::Mxfp4, &FEW) },
    Case { name: "latent/f32", compute: |k, r| latent(k, r, Format::F32, &[1, 3]) },
    Case { name: "latent/bf16", compute: |k, r| latent(k, r, Format::Bf16, &[1, 3]) },
    Case { name: "latent/int8", compute: |k, r| latent(k, r, Format::Int8, &[1, 3]) },
    Case { name: "latent/mxfp4", compute: |k, r| latent(k, r, Format::Mxfp4, &[1, 3]) },
    Case { name: "products/many/f32", compute: |k, r| products(k, r, Format::F32, &MANY) },
    Case { name: "products/many/bf16", compute: |k, r| products(k, r, Format::Bf16, &MANY) },
    Case { name: "products/many/int8", compute: |k, r| products(k, r, Format::Int8, &MANY) },
    Case { name: "products/many/mxfp4", compute: |k, r| products(k, r, Format::Mxfp4, &MANY) },
    Case { name: "latent/many/f32", compute: |k, r| latent(k, r, Format::F32, &[2, 4, 9]) },
    Case { name: "latent/many/bf16", compute: |k, r| latent(k, r, Format::Bf16, &[2, 4, 9]) },
    Case { name: "latent/many/int8", compute: |k, r| latent(k, r, Format::Int8, &[2, 4, 9]) },
    Case { name: "latent/many/mxfp4", compute: |k, r| latent(k, r, Format::Mxfp4, &[2, 4, 9]) },
    Case { name: "products/scales/int8", compute: |k, r| scaled(k, r, Format::Int8) },
    Case { name: "products/scales/mxfp4", compute: |k, r| scaled(k, r, Format::Mxfp4) },
    Case { name: "latent/scales/int8", compute: |k, r| latent_scaled(k, r, Format::Int8) },
    Case { name: "latent/scales/mxfp4", compute: |k, r| latent_scaled(k, r, Format::Mxfp4) },
];

/// Sizes of products: rows, columns (in whole groups, and with a tail where the format may have one), and
/// how many positions, one product after the other.
struct Sizes {
    rows: usize,
    whole_cols: usize,
    cols: usize,
    positions: &'static [usize],
}

/// Up to some tiles of positions.
const FEW: Sizes = Sizes { rows: 23, whole_cols: 96, cols: 107, positions: &[1, 3, 8, 15] };
/// Around one pass of 64 positions (63 where tiles have three) and beyond two; of columns more than one
/// chunk of 512, so that sums go on from one to the next.
const MANY: Sizes =
    Sizes { rows: 13, whole_cols: 544, cols: 523, positions: &[16, 63, 64, 65, 131] };

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    F32,
    Bf16,
    Int8,
    Mxfp4,
}

/// A matrix's bytes: of its weights and of its scales.
struct Bytes {
    format: Format,
    main: Vec<u8>,
    scales: Vec<u8>,
}

impl Bytes {
    fn seeded(random: &mut Random, format: Format, rows: usize, cols: usize) -> Bytes {
        let count = rows * cols;
        let floats =
            |random: &mut Random| random.vector(count, 1.0).into_iter().map(f32::to_le_bytes);
        let any = |random: &mut Random, len: usize| (0..len).map(|_| random.bits() as u8).collect();
        let (main, scales) = match format {
            Format::F32 => (floats(random).flatten().collect(), vec![]),
            Format::Bf16 => (floats(random).flat_map(|f| [f[2], f[3]]).collect(), vec![]),
            // Half-precision scales between 2^-7 and 2^-3.
            Format::Int8 => {
                let scale = |_| [random.bits() as u8, 0x20 + (random.bits() % 16) as u8];
                let scales = (0..rows).flat_map(scale).collect();
                (any(random, count), scales)
            }
            Format::Mxfp4 => {
                let scale = |_| 120 + (random.bits() % 12) as u8;
                let scales = (0..count / 32).map(scale).collect();
                (any(random, count / 2), scales)
            }
        };
        Bytes { format, main, scales }
    }

    /// With rows whose scales are spread over all there are: every byte of MXFP4, infinities and
    /// what is no number included, and every exponent of half precision.
    fn with_every_scale(mut self, rows: usize) -> Bytes {
        let low = self.scales.clone();
        self.scales = match self.format {
            Format::Mxfp4 => {
                let per_row = low.len() / rows;
                (0..rows).flat_map(|row| vec![(row * 256 / rows) as u8; per_row]).collect()
            }
            _ => (0..rows)
                .flat_map(|row| {
                    let high = (row * 64 / rows * 4) as u8 | (low[2 * row + 1] & 3);
                    [low[2 * row], high]
                })
                .collect(),
        };
        self
    }

    fn weights(&self) -> Weights<'_> {
        let (main, scales) = (&self.main[..], &self.scales[..]);
        match self.format {
            Format::F32 => Weights::F32(main),
            Format::Bf16 => Weights::Bf16(main),
            Format::Int8 => Weights::Int8 { codes: main, scales },
            Format::Mxfp4 => Weights::Mxfp4 { packed: main, scales },
        }
    }

    fn matrix(&self, rows: usize, cols: usize) -> Matrix<'_> {
        Matrix::new(rows, cols, self.weights()).expect("the bytes are made for the shape")
    }
}

fn products(kernels: &Kernels, random: &mut Random, format: Format, sizes: &Sizes) -> Vec<f32> {
    let cols = if format == Format::Mxfp4 { sizes.whole_cols } else { sizes.cols };
    let bytes = Bytes::seeded(random, format, sizes.rows, cols);
    multiplied(kernels, random, bytes.matrix(sizes.rows, cols), sizes.positions)
}

/// A scale of its own for every row, for one position, for some and for tiles of them.
fn scaled(kernels: &Kernels, random: &mut Random, format: Format) -> Vec<f32> {
    const ROWS: usize = 256;
    let bytes = Bytes::seeded(random, format, ROWS, 32).with_every_scale(ROWS);
    multiplied(kernels, random, bytes.matrix(ROWS, 32), &[1, 2, 9])
}

fn multiplied(
    kernels: &Kernels,
    random: &mut Random,
    w: Matrix<'_>,
    positions: &[usize],
) -> Vec<f32> {
    let mut results = Vec::new();
    for &positions in positions {
        let x = random.vector(positions * w.cols(), 1.0);
        let mut y = vec![0.0; positions * w.rows()];
        kernels.products(&mut Scratch::default(), &mut [Product { w, x: &x, y: &mut y }]);
        results.extend(y);
    }
    results
}

/// Into the latent space and out of it, for so many positions one after the other.
fn latent(kernels: &Kernels, random: &mut Random, format: Format, positions: &[usize]) -> Vec<f32> {
    let width = if format == Format::Mxfp4 { 64 } else { 75 };
    let dims = LatentDims { heads: 3, nope: 10, rope: 5, v: 7, latent: width };
    let bytes = Bytes::seeded(random, format, dims.kv_b_rows(), width);
    let kv_b = bytes.matrix(dims.kv_b_rows(), width);
    let mut results = Vec::new();
    for &positions in positions {
        let sums = absorbed(kernels, random, kv_b, &dims, positions);
        let values = expanded(kernels, kv_b, &dims, &sums);
        results.extend(sums);
        results.extend(values);
    }
    results
}

/// Heads of one key and one value, each with a scale of its own: no sum mixes two of them.
fn latent_scaled(kernels: &Kernels, random: &mut Random, format: Format) -> Vec<f32> {
    let dims = LatentDims { heads: 256, nope: 1, rope: 1, v: 1, latent: 32 };
    let rows = dims.kv_b_rows();
    let bytes = Bytes::seeded(random, format, rows, dims.latent).with_every_scale(rows);
    let kv_b = bytes.matrix(rows, dims.latent);
    let mut results = Vec::new();
    for positions in [1, 5] {
        results.extend(absorbed(kernels, random, kv_b, &dims, positions));
        let sums = random.vector(dims.heads * positions * dims.latent, 1.0);
        results.extend(expanded(kernels, kv_b, &dims, &sums));
    }
    results
}

fn absorbed(
    kernels: &Kernels,
    random: &mut Random,
    kv_b: Matrix<'_>,
    dims: &LatentDims,
    positions: usize,
) -> Vec<f32> {
    let q = random.vector(positions * dims.heads * dims.query(), 1.0);
    let mut out = vec![0.0; dims.heads * positions * dims.latent];
    kernels.absorb_keys(kv_b, dims, &q, &mut out);
    out
}

fn expanded(kernels: &Kernels, kv_b: Matrix<'_>, dims: &LatentDims, sums: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; sums.len() / dims.latent * dims.v];
    kernels.expand_values(&mut Scratch::default(), kv_b, dims, sums, &mut out);
    out
}
