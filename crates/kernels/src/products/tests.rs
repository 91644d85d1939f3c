//! Every way of computing products against one way, bit for bit; `scales`, `twin` and
//! `latent` also compare with a twin in f64.

mod latent;
mod scales;
mod twin;

use crate::{Isa, Kernels, Matrix, Parallel, Product, Scratch, Weights};
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
                let magnitude = match scales[i / 32] {
                    255 => f64::NAN,
                    scale => e2m1 * 2f64.powi(i32::from(scale) - 127),
                };
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

/// Bits, but for NaN: that one comes out is promised, which one is not.
#[track_caller]
fn assert_same_bits(got: &[f32], wanted: &[f32], what: &dyn std::fmt::Debug) {
    assert_eq!(got.len(), wanted.len(), "{what:?}: length");
    let same = |(g, w): (&f32, &f32)| g.to_bits() == w.to_bits() || g.is_nan() && w.is_nan();
    if let Some(i) = got.iter().zip(wanted).position(|pair| !same(pair)) {
        panic!("{what:?}: element {i} is {:e}, wanted {:e}", got[i], wanted[i]);
    }
}

fn every_way() -> impl Iterator<Item = (String, Kernels)> {
    Isa::available().flat_map(|isa| {
        [1, 2, 3, 7].into_iter().map(move |threads| {
            (format!("{} x {threads}", isa.kind()), Kernels::new(isa, Arc::new(Threads(threads))))
        })
    })
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
                let one_by_one = &one_by_one[..y.len()];
                assert_same_bits(&y, one_by_one, &(kind, &name, positions));
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
                assert_same_bits(y, &alone, &(s.kind, s.rows, s.cols, &name));
            }
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
            let got = product(&kernels, stored.matrix(), &x, 5);
            assert_same_bits(&got, &wanted, &(kind, name));
        }
    }
}
