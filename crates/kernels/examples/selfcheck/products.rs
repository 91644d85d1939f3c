//! The matrix products, in every weight format.

use super::cases::{Case, Random};
use deltafin_kernels::{Kernels, LatentDims, Matrix, Product, Scratch, Weights};

pub(crate) const CASES: &[Case] = &[
    Case { name: "products/f32", compute: |kernels, r| products(kernels, r, Format::F32, 107) },
    Case { name: "products/bf16", compute: |kernels, r| products(kernels, r, Format::Bf16, 107) },
    Case { name: "products/int8", compute: |kernels, r| products(kernels, r, Format::Int8, 107) },
    Case { name: "products/mxfp4", compute: |kernels, r| products(kernels, r, Format::Mxfp4, 96) },
    Case { name: "latent/f32", compute: |kernels, r| latent(kernels, r, Format::F32, 75) },
    Case { name: "latent/bf16", compute: |kernels, r| latent(kernels, r, Format::Bf16, 75) },
    Case { name: "latent/int8", compute: |kernels, r| latent(kernels, r, Format::Int8, 75) },
    Case { name: "latent/mxfp4", compute: |kernels, r| latent(kernels, r, Format::Mxfp4, 64) },
];

#[derive(Clone, Copy)]
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

/// One, three, eight and fifteen positions.
fn products(kernels: &Kernels, random: &mut Random, format: Format, cols: usize) -> Vec<f32> {
    const ROWS: usize = 23;
    let bytes = Bytes::seeded(random, format, ROWS, cols);
    let mut results = Vec::new();
    for positions in [1, 3, 8, 15] {
        let x = random.vector(positions * cols, 1.0);
        let mut y = vec![0.0; positions * ROWS];
        let job = Product { w: bytes.matrix(ROWS, cols), x: &x, y: &mut y };
        kernels.products(&mut Scratch::default(), &mut [job]);
        results.extend(y);
    }
    results
}

/// Into the latent space and out of it, for one and for three positions.
fn latent(kernels: &Kernels, random: &mut Random, format: Format, width: usize) -> Vec<f32> {
    let dims = LatentDims { heads: 3, nope: 10, rope: 5, v: 7, latent: width };
    let bytes = Bytes::seeded(random, format, dims.kv_b_rows(), width);
    let kv_b = bytes.matrix(dims.kv_b_rows(), width);
    let mut results = Vec::new();
    for positions in [1, 3] {
        let q = random.vector(positions * dims.heads * dims.query(), 1.0);
        let mut absorbed = vec![0.0; dims.heads * positions * width];
        kernels.absorb_keys(kv_b, &dims, &q, &mut absorbed);
        let mut values = vec![0.0; positions * dims.heads * dims.v];
        kernels.expand_values(&mut Scratch::default(), kv_b, &dims, &absorbed, &mut values);
        results.extend(absorbed);
        results.extend(values);
    }
    results
}
