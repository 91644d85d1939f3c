//! Every kernel but the matrix products, on inputs made of nothing but exact arithmetic.

use deltafin_kernels as k;
use deltafin_kernels::{Kernels, LatentDims};

/// A kernel on inputs that it makes itself.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) compute: fn(&Kernels, &mut Random) -> Vec<f32>,
}

impl Case {
    pub(crate) fn run(&self, kernels: &Kernels) -> Vec<f32> {
        let seed = self.name.bytes().fold(1, |seed: u64, b| seed.wrapping_mul(31) + u64::from(b));
        (self.compute)(kernels, &mut Random(seed))
    }
}

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `-size..size`.
    pub(crate) fn vector(&mut self, len: usize, size: f32) -> Vec<f32> {
        let mut unit = || (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0;
        (0..len).map(|_| unit() * size).collect()
    }

    fn fractions(&mut self, len: usize) -> Vec<f32> {
        self.vector(len, 0.5).iter().map(|x| x + 0.5).collect()
    }
}

pub(crate) const CASES: &[Case] = &[
    Case { name: "exp", compute: |kernels, _| everywhere(|x| k::exp(kernels.isa(), x)) },
    Case { name: "tanh", compute: |kernels, _| everywhere(|x| k::tanh(kernels.isa(), x)) },
    Case { name: "sigmoid", compute: |kernels, _| everywhere(|x| k::sigmoid(kernels.isa(), x)) },
    Case { name: "add", compute: |kernels, r| two(r, |x, y| k::add(kernels.isa(), x, y)) },
    Case {
        name: "add_scaled",
        compute: |kernels, r| two(r, |x, y| k::add_scaled(kernels.isa(), x, y, 0.7)),
    },
    Case {
        name: "multiply",
        compute: |kernels, r| two(r, |x, y| k::multiply(kernels.isa(), x, y)),
    },
    Case {
        name: "multiply_sigmoid",
        compute: |kernels, r| two(r, |x, y| k::multiply_sigmoid(kernels.isa(), x, y)),
    },
    Case { name: "all_finite", compute: all_finite },
    Case { name: "situ", compute: |kernels, r| two(r, |x, y| kernels.situ_all(x, y, 4.0, 25.0)) },
    Case { name: "rms_norm", compute: rms_norm },
    Case { name: "l2_normalize", compute: l2_normalize },
    Case { name: "gated_head_norm", compute: gated_head_norm },
    Case { name: "attention_residual", compute: attention_residual },
    Case { name: "short_conv", compute: short_conv },
    Case { name: "kda_decay", compute: kda_decay },
    Case { name: "kda_recurrence/50", compute: |kernels, r| kda_recurrence(kernels, r, 3, 50) },
    Case { name: "kda_recurrence/128", compute: |kernels, r| kda_recurrence(kernels, r, 2, 128) },
    Case { name: "latent_attention/33", compute: |kernels, r| latent_attention(kernels, r, 33, 9) },
    Case {
        name: "latent_attention/512",
        compute: |kernels, r| latent_attention(kernels, r, 512, 64),
    },
];

/// A function of one element on floats of every exponent.
fn everywhere(run: impl Fn(&mut [f32])) -> Vec<f32> {
    let mut x: Vec<f32> = (0..=u32::MAX).step_by(1_000_003).map(f32::from_bits).collect();
    run(&mut x);
    x
}

/// A function of two operands, of ordinary size and then of any.
fn two(random: &mut Random, run: impl Fn(&mut [f32], &[f32])) -> Vec<f32> {
    let (mut x, mut y) = (random.vector(301, 9.0), random.vector(301, 9.0));
    x.extend((0..300).map(|_| f32::from_bits(random.bits() as u32)));
    y.extend((0..300).map(|_| f32::from_bits(random.bits() as u32)));
    run(&mut x, &y);
    x
}

fn all_finite(kernels: &Kernels, random: &mut Random) -> Vec<f32> {
    let mut x = random.vector(45, 1.0);
    let mut answers = vec![f32::from(k::all_finite(kernels.isa(), &x))];
    for i in 0..x.len() {
        let good = std::mem::replace(&mut x[i], if i % 2 == 0 { f32::NAN } else { f32::INFINITY });
        answers.push(f32::from(k::all_finite(kernels.isa(), &x)));
        x[i] = good;
    }
    answers
}

fn rms_norm(kernels: &Kernels, random: &mut Random) -> Vec<f32> {
    let (x, weight) = (random.vector(3 * 215, 4.0), random.vector(215, 1.0));
    let mut out = vec![0.0; x.len()];
    kernels.rms_norm_rows(&x, &weight, 1e-5, &mut out);
    out
}

fn l2_normalize(kernels: &Kernels, random: &mut Random) -> Vec<f32> {
    let mut x = random.vector(3 * 4 * 50, 4.0);
    kernels.l2_normalize_heads(4, 50, &mut x, 1e-6, 0.141);
    x
}

fn gated_head_norm(kernels: &Kernels, random: &mut Random) -> Vec<f32> {
    let (mut o, gate) = (random.vector(3 * 4 * 50, 4.0), random.vector(3 * 4 * 50, 9.0));
    kernels.gated_head_norms(4, &mut o, &random.vector(50, 1.0), 1e-5, &gate);
    o
}

fn attention_residual(kernels: &Kernels, random: &mut Random) -> Vec<f32> {
    let (blocks, p) = (random.vector(8 * 220, 3.0), random.vector(215, 1.0));
    let score_weight = random.vector(215, 0.5);
    let mut out = vec![0.0; 215];
    k::attention_residual(kernels.isa(), &blocks, 220, 8, &p, &score_weight, 1e-5, &mut out);
    out
}

fn short_conv(kernels: &Kernels, random: &mut Random) -> Vec<f32> {
    let weight = random.vector(70 * 4, 1.0);
    let (mut history, mut x) = (random.vector(3 * 70, 2.0), random.vector(10 * 70, 2.0));
    for rows in x.chunks_mut(4 * 70) {
        kernels.short_conv(&weight, 4, &mut history, rows);
    }
    [x, history].concat()
}

fn kda_decay(kernels: &Kernels, random: &mut Random) -> Vec<f32> {
    let (a_log, dt_bias) = (random.vector(5, 2.0), random.vector(3 * 50, 3.0));
    let mut z = random.vector(4 * 3 * 50, 5.0);
    kernels.kda_decay(3, &a_log, &dt_bias, -5.0, &mut z);
    z
}

fn kda_recurrence(kernels: &Kernels, random: &mut Random, heads: usize, dim: usize) -> Vec<f32> {
    const ROWS: usize = 5;
    let len = ROWS * heads * dim;
    let (q, key, v) = (random.vector(len, 0.2), random.vector(len, 0.2), random.vector(len, 2.0));
    let (alpha, beta) = (random.fractions(len), random.fractions(ROWS * heads));
    let mut state = random.vector(heads * dim * dim, 0.5);
    let mut out = vec![0.0; len];
    kernels.kda_recurrence(heads, &q, &key, &v, &alpha, &beta, &mut state, &mut out);
    [out, state].concat()
}

/// Rows on both sides of the border between two blocks of positions.
fn latent_attention(
    kernels: &Kernels,
    random: &mut Random,
    latent: usize,
    rope: usize,
) -> Vec<f32> {
    let dims = LatentDims { heads: 5, nope: 6, rope, v: 1, latent };
    let (first, rows) = (k::POSITIONS_PER_BLOCK - 3, 7);
    let positions = first + rows;
    let q = random.vector(rows * dims.heads * (dims.nope + rope), 1.5);
    let q_latent = random.vector(dims.heads * rows * latent, 1.5);
    let (c, k_pe) = (random.vector(positions * latent, 1.0), random.vector(positions * rope, 1.0));
    let mut out = vec![0.0; q_latent.len()];
    kernels.latent_attention(&dims, &q, &q_latent, &c, &k_pe, first, 0.1, &mut out);
    out
}
