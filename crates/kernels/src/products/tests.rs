//! Products against a twin in f64, and every way of computing them against one way, bit for bit.

use crate::{Isa, Kernels, LatentDims, Matrix, Parallel, Product, Scratch, Serial, Weights};
use std::sync::Arc;

/// Threads that start anew for every run.
struct Threads(usize);

impl Parallel for Threads {
    fn width(&self) -> usize {
        self.0
    }
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            for first in 0..self.0 {
                scope.spawn(move || (first..tasks).step_by(self.0).for_each(task));
            }
        });
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 32) as u32
    }
    fn unit(&mut self) -> f32 {
        self.next() as f32 / u32::MAX as f32 * 2.0 - 1.0
    }
    fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit()).collect()
    }
    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    F32,
    Bf16,
    Int8,
    Mxfp4,
}

const KINDS: [Kind; 4] = [Kind::F32, Kind::Bf16, Kind::Int8, Kind::Mxfp4];

/// The bytes of a matrix, one byte past an aligned address.
struct Stored {
    kind: Kind,
    rows: usize,
    cols: usize,
    main: Vec<u8>,
    scales: Vec<u8>,
}

impl Stored {
    fn random(kind: Kind, rows: usize, cols: usize, random: &mut Random) -> Stored {
        let cols = if kind == Kind::Mxfp4 { cols.next_multiple_of(32) } else { cols };
        let n = rows * cols;
        let (main, scales) = match kind {
            Kind::F32 => ((0..n).flat_map(|_| random.unit().to_le_bytes()).collect(), vec![]),
            Kind::Bf16 => {
                let upper = |x: f32| ((x.to_bits() >> 16) as u16).to_le_bytes();
                ((0..n).flat_map(|_| upper(random.unit())).collect(), vec![])
            }
            Kind::Int8 => {
                // Halves between 2^-10 and 2^-6, of either sign.
                let scale = |r: &mut Random| (r.next() as u16 & 0x8fff | 0x1400).to_le_bytes();
                (random.bytes(n), (0..rows).flat_map(|_| scale(random)).collect())
            }
            Kind::Mxfp4 => {
                let scales = (0..n / 32).map(|_| 120 + (random.next() % 12) as u8).collect();
                (random.bytes(n / 2), scales)
            }
        };
        let shifted = |v: Vec<u8>| [vec![0], v].concat();
        Stored { kind, rows, cols, main: shifted(main), scales: shifted(scales) }
    }

    fn matrix(&self) -> Matrix<'_> {
        let (main, scales) = (&self.main[1..], &self.scales[1..]);
        let weights = match self.kind {
            Kind::F32 => Weights::F32(main),
            Kind::Bf16 => Weights::Bf16(main),
            Kind::Int8 => Weights::Int8 { codes: main, scales },
            Kind::Mxfp4 => Weights::Mxfp4 { packed: main, scales },
        };
        Matrix::new(self.rows, self.cols, weights).unwrap()
    }

    /// Weight (`r`, `c`) without an int8 row scale, and that scale.
    fn weight(&self, r: usize, c: usize) -> (f64, f64) {
        let (main, scales) = (&self.main[1..], &self.scales[1..]);
        let i = r * self.cols + c;
        match self.kind {
            Kind::F32 => (f32::from_le_bytes(main[4 * i..][..4].try_into().unwrap()).into(), 1.0),
            Kind::Bf16 => {
                let upper = u16::from_le_bytes(main[2 * i..][..2].try_into().unwrap());
                (f32::from_bits(u32::from(upper) << 16).into(), 1.0)
            }
            Kind::Int8 => {
                let half = u16::from_le_bytes(scales[2 * r..][..2].try_into().unwrap());
                (f64::from(main[i] as i8), crate::matrix::f16_to_f32(half).into())
            }
            Kind::Mxfp4 => {
                let code = usize::from(main[i / 2] >> (4 * (i % 2)) & 15);
                let e2m1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][code % 8];
                let magnitude = e2m1 * 2f64.powi(i32::from(scales[i / 32]) - 127);
                (f64::from((if code < 8 { magnitude } else { -magnitude }) as f32), 1.0)
            }
        }
    }
}

fn product(kernels: &Kernels, w: Matrix<'_>, x: &[f32], positions: usize) -> Vec<f32> {
    let mut y = vec![f32::NAN; positions * w.rows()];
    kernels.products(&mut Scratch::default(), &mut [Product { w, x, y: &mut y }]);
    y
}

fn bits(x: &[f32]) -> Vec<u32> {
    // Which NaN comes out is not part of the contract.
    x.iter().map(|v| if v.is_nan() { f32::NAN.to_bits() } else { v.to_bits() }).collect()
}

fn every_way() -> impl Iterator<Item = (String, Kernels)> {
    Isa::available().flat_map(|isa| {
        [1, 2, 3, 7].into_iter().map(move |threads| {
            (format!("{} x {threads}", isa.kind()), Kernels::new(isa, Arc::new(Threads(threads))))
        })
    })
}

#[test]
fn close_to_the_twin_in_f64() {
    let mut random = Random(1);
    for kind in KINDS {
        for (rows, cols) in [(1, 1), (3, 15), (5, 16), (7, 33), (13, 64), (4, 95), (2, 515)] {
            let stored = Stored::random(kind, rows, cols, &mut random);
            let (w, cols) = (stored.matrix(), stored.cols);
            let x = random.floats(2 * cols);
            for (name, kernels) in every_way() {
                let y = product(&kernels, w, &x, 2);
                for (i, got) in y.iter().enumerate() {
                    let (t, r) = (i / rows, i % rows);
                    let (mut sum, mut size, mut scale) = (0.0, 0.0, 1.0);
                    for c in 0..cols {
                        let (weight, row_scale) = stored.weight(r, c);
                        let term = weight * f64::from(x[t * cols + c]);
                        (sum, size, scale) = (sum + term, size + term.abs(), row_scale);
                    }
                    let bound = size * scale.abs() * (cols / 16 + 8) as f64 * 2f64.powi(-24);
                    let error = (f64::from(*got) - sum * scale).abs();
                    assert!(error <= bound, "{kind:?} {rows}x{cols} {name}: {got} for {sum}");
                }
            }
        }
    }
}

#[test]
fn every_number_of_positions_gives_the_same_bits() {
    let mut random = Random(2);
    for kind in KINDS {
        let stored = Stored::random(kind, 29, 107, &mut random);
        let (w, cols) = (stored.matrix(), stored.cols);
        let x = random.floats(70 * cols);
        let one_by_one: Vec<f32> =
            x.chunks(cols).flat_map(|x| product(&Kernels::reference(), w, x, 1)).collect();
        for (name, kernels) in every_way() {
            for positions in 0..=70 {
                let y = product(&kernels, w, &x[..positions * cols], positions);
                assert_eq!(bits(&y), bits(&one_by_one[..y.len()]), "{kind:?} {name} T={positions}");
            }
        }
    }
}

#[test]
fn jobs_are_independent() {
    let mut random = Random(3);
    let stored: Vec<Stored> = [(0, 64), (40, 64), (1, 64), (100, 0), (33, 50)]
        .into_iter()
        .flat_map(|shape| KINDS.map(|kind| (shape, kind)))
        .map(|((rows, cols), kind)| Stored::random(kind, rows, cols, &mut random))
        .collect();
    let x = random.floats(64 * 5);
    let x_of = |s: &Stored, positions: usize| x[..positions * s.cols].to_vec();
    for (name, kernels) in every_way() {
        let mut scratch = Scratch::default();
        for positions in [5, 0, 3] {
            // All matrices of one width share the same slice.
            let mut ys: Vec<Vec<f32>> =
                stored.iter().map(|s| vec![f32::NAN; positions * s.rows]).collect();
            let mut jobs: Vec<Product<'_>> = stored
                .iter()
                .zip(&mut ys)
                .map(|(s, y)| Product { w: s.matrix(), x: &x[..positions * s.cols], y })
                .collect();
            kernels.products(&mut scratch, &mut jobs);
            for (s, y) in stored.iter().zip(&ys) {
                let x = x_of(s, positions);
                let alone = product(&Kernels::reference(), s.matrix(), &x, positions);
                assert_eq!(bits(y), bits(&alone), "{:?} {}x{} {name}", s.kind, s.rows, s.cols);
            }
        }
    }
}

#[test]
fn every_scale_byte() {
    let mut random = Random(4);
    let mut stored = Stored::random(Kind::Mxfp4, 256, 32, &mut random);
    stored.scales = (0..=255u8).flat_map(|s| if s == 0 { vec![0, 0] } else { vec![s] }).collect();
    for (code, scale_of_x) in (0..16u8).flat_map(|c| [(c, 1.0), (c, 1e-30), (c, 1e30)]) {
        stored.main[1..].fill(code * 17);
        let mut x = random.floats(32);
        x.iter_mut().for_each(|x| *x *= scale_of_x);
        let wanted = product(&Kernels::reference(), stored.matrix(), &x, 1);
        assert!(!wanted[255].is_finite());
        for (scale, y) in wanted[..255].iter().enumerate() {
            let weight = stored.weight(scale, 0).0;
            let exact: f64 = x.iter().map(|x| weight * f64::from(*x)).sum();
            let size: f64 = x.iter().map(|x| (weight * f64::from(*x)).abs()).sum();
            let close = (f64::from(*y) - exact).abs() <= size * 1e-6 + 1e-43;
            assert!(close || size > f64::from(f32::MAX), "scale {scale}: {y} for {exact}");
        }
        for (name, kernels) in every_way() {
            assert_eq!(bits(&product(&kernels, stored.matrix(), &x, 1)), bits(&wanted), "{name}");
        }
    }
}

#[test]
fn subnormals_and_infinities_agree() {
    let mut random = Random(5);
    for kind in KINDS {
        let mut stored = Stored::random(kind, 9, 64, &mut random);
        stored.main = random.bytes(stored.main.len());
        stored.scales = random.bytes(stored.scales.len());
        let x: Vec<f32> = (0..64 * 5)
            .map(|_| f32::from_bits(random.next() & [0x807f_ffff, !0][random.next() as usize % 2]))
            .collect();
        let wanted = product(&Kernels::reference(), stored.matrix(), &x, 5);
        for (name, kernels) in every_way() {
            assert_eq!(bits(&product(&kernels, stored.matrix(), &x, 5)), bits(&wanted), "{name}");
        }
    }
}

#[test]
fn latent_products_keep_their_order() {
    let mut random = Random(6);
    for (kind, latent) in KINDS.into_iter().flat_map(|k| [(k, 64), (k, 50)]) {
        let mut dims = LatentDims { heads: 3, nope: 7, rope: 2, v: 5, latent };
        let stored = Stored::random(kind, dims.kv_b_rows(), latent, &mut random);
        dims.latent = stored.cols;
        for positions in [0, 1, 2, 9] {
            let q = random.floats(positions * dims.heads * dims.query());
            let ctx = random.floats(dims.heads * positions * dims.latent);
            let absorbed = absorb_twin(&stored, &dims, &q, positions);
            let expanded = expand_twin(&stored, &dims, &ctx, positions);
            for (name, kernels) in every_way() {
                let mut out = vec![f32::NAN; absorbed.len()];
                kernels.absorb_keys(stored.matrix(), &dims, &q, &mut out);
                assert_eq!(bits(&out), bits(&absorbed), "absorb {kind:?} {name}");
                let mut out = vec![f32::NAN; expanded.len()];
                let scratch = &mut Scratch::default();
                kernels.expand_values(scratch, stored.matrix(), &dims, &ctx, &mut out);
                assert_eq!(bits(&out), bits(&expanded), "expand {kind:?} {name}");
            }
        }
    }
}

/// The definition of `absorb_keys`, written out.
fn absorb_twin(stored: &Stored, dims: &LatentDims, q: &[f32], positions: usize) -> Vec<f32> {
    let mut out = Vec::new();
    for (h, t) in (0..dims.heads).flat_map(|h| (0..positions).map(move |t| (h, t))) {
        for c in 0..dims.latent {
            out.push((0..dims.nope).fold(0f32, |sum, r| {
                let (weight, scale) = stored.weight(dims.key_row(h) + r, c);
                let q = q[(t * dims.heads + h) * dims.query() + r] * scale as f32;
                (weight as f32).mul_add(q, sum)
            }));
        }
    }
    out
}

/// `expand_values` as one product per head.
fn expand_twin(stored: &Stored, dims: &LatentDims, ctx: &[f32], positions: usize) -> Vec<f32> {
    let mut out = vec![0.0; positions * dims.heads * dims.v];
    for (h, t) in (0..dims.heads).flat_map(|h| (0..positions).map(move |t| (h, t))) {
        let w = stored.matrix().row_range(dims.value_row(h)..dims.value_row(h) + dims.v);
        let ctx = &ctx[(h * positions + t) * dims.latent..][..dims.latent];
        let y = product(&Kernels::new(Isa::SCALAR, Arc::new(Serial)), w, ctx, 1);
        out[(t * dims.heads + h) * dims.v..][..dims.v].copy_from_slice(&y);
    }
    out
}
