//! The convolution, the decay and the recurrence of KDA against f64, and split every way.

mod common;

use common::{Random, all_kernels, assert_close, assert_same_bits, same_everywhere, sigmoid, wide};
use deltafin_kernels::Kernels;

const TAPS: usize = 4;

/// Convolves `x` in calls of the given row counts; returns the outputs and then the history.
fn convolve(
    kernels: &Kernels,
    weight: &[f32],
    history: &[f32],
    x: &[f32],
    calls: &[usize],
) -> Vec<f32> {
    let channels = weight.len() / TAPS;
    let (mut history, mut x) = (history.to_vec(), x.to_vec());
    let mut rest = &mut x[..];
    for rows in calls {
        let (now, later) = rest.split_at_mut(rows * channels);
        kernels.short_conv(weight, TAPS, &mut history, now);
        rest = later;
    }
    assert!(rest.is_empty());
    [x, history].concat()
}

#[test]
fn convolution_matches_f64_in_any_split() {
    for channels in [1, 16, 37, 3000] {
        let rows = 9;
        let mut random = Random(channels as u64);
        let weight = random.vector(channels * TAPS, 1.0);
        let (history, x) = (random.vector(3 * channels, 2.0), random.vector(rows * channels, 2.0));
        let got = same_everywhere(|kernels| convolve(kernels, &weight, &history, &x, &[rows]));
        let all = wide(&[history.clone(), x.clone()].concat());
        let exact = (0..rows * channels).map(|i| {
            let tap = |j| f64::from(weight[i % channels * TAPS + j]) * all[i + j * channels];
            let y: f64 = (0..TAPS).map(tap).sum();
            y * sigmoid(y)
        });
        assert_close(&got[..x.len()], &exact.collect::<Vec<_>>(), 1e-6);
        assert_same_bits(&got[x.len()..], &x[(rows - 3) * channels..], "history");
        for calls in [&[1; 9][..], &[2, 1, 3, 2, 1], &[0, 4, 5], &[8, 1]] {
            for kernels in all_kernels() {
                let split = convolve(&kernels, &weight, &history, &x, calls);
                assert_same_bits(&split, &got, "in several calls");
            }
        }
    }
}

#[test]
fn decay_matches_f64_and_ignores_padding_of_a_log() {
    for (heads, dim) in [(1, 1), (3, 20), (5, 128)] {
        let mut random = Random(dim as u64);
        let a_log = random.vector(heads + 7, 2.0);
        let (dt_bias, z) = (random.vector(heads * dim, 3.0), random.vector(40 * heads * dim, 5.0));
        let got = same_everywhere(|kernels| {
            let mut z = z.clone();
            kernels.kda_decay(heads, &a_log, &dt_bias, -5.0, &mut z);
            z
        });
        let exact = wide(&z).into_iter().enumerate().map(|(i, z)| {
            let channel = i % (heads * dim);
            let rate = f64::from(a_log[channel / dim]).exp();
            (-5.0 * sigmoid(rate * (z + f64::from(dt_bias[channel])))).exp()
        });
        assert_close(&got, &exact.collect::<Vec<_>>(), 2e-6);
        assert!(got.iter().all(|alpha| (0.006..=1.0).contains(alpha)));
    }
}

struct Inputs {
    heads: usize,
    dim: usize,
    rows: usize,
    /// q, k, v and alpha.
    vectors: [Vec<f32>; 4],
    beta: Vec<f32>,
    state: Vec<f32>,
}

impl Inputs {
    fn seeded(heads: usize, dim: usize, rows: usize) -> Inputs {
        let mut random = Random((heads * dim * rows) as u64);
        let len = rows * heads * dim;
        let size = 1.7 / (dim as f32).sqrt(); // keys of about unit length
        Inputs {
            heads,
            dim,
            rows,
            vectors: [
                random.vector(len, size),
                random.vector(len, size),
                random.vector(len, 2.0),
                random.fractions(len),
            ],
            beta: random.fractions(rows * heads),
            state: random.vector(heads * dim * dim, 0.5),
        }
    }

    /// The outputs of calls of the given row counts, and then the state.
    fn run(&self, kernels: &Kernels, calls: &[usize]) -> Vec<f32> {
        let row = self.heads * self.dim;
        let mut state = self.state.clone();
        let mut out = vec![f32::NAN; self.rows * row];
        let mut from = 0;
        for rows in calls {
            let [q, k, v, alpha] = self.vectors.each_ref().map(|x| &x[from * row..][..rows * row]);
            let beta = &self.beta[from * self.heads..][..rows * self.heads];
            let out = &mut out[from * row..][..rows * row];
            kernels.kda_recurrence(self.heads, q, k, v, alpha, beta, &mut state, out);
            from += rows;
        }
        [out, state].concat()
    }

    /// The same in f64, word for word the recurrence of the specification.
    fn exact(&self) -> Vec<f64> {
        let (heads, dim) = (self.heads, self.dim);
        let [q, k, v, alpha] = self.vectors.each_ref().map(|x| wide(x));
        let mut state = wide(&self.state);
        let mut out = vec![0.0; q.len()];
        for unit in 0..self.rows * heads {
            let s = &mut state[unit % heads * dim * dim..][..dim * dim];
            let at = unit * dim;
            for d in 0..dim {
                s[d * dim..][..dim].iter_mut().for_each(|s| *s *= alpha[at + d]);
            }
            for j in 0..dim {
                let predicted: f64 = (0..dim).map(|d| s[d * dim + j] * k[at + d]).sum();
                let error = v[at + j] - predicted;
                for d in 0..dim {
                    s[d * dim + j] += f64::from(self.beta[unit]) * k[at + d] * error;
                }
                out[at + j] = (0..dim).map(|d| s[d * dim + j] * q[at + d]).sum();
            }
        }
        [out, state].concat()
    }
}

#[test]
fn recurrence_matches_f64_in_any_split() {
    for (heads, dim) in [(1, 1), (2, 7), (3, 16), (2, 50), (5, 64), (3, 100), (9, 128)] {
        let inputs = Inputs::seeded(heads, dim, 7);
        let got = same_everywhere(|kernels| inputs.run(kernels, &[7]));
        assert_close(&got, &inputs.exact(), 3e-6);
        for calls in [&[1; 7][..], &[3, 4], &[2, 1, 4], &[6, 0, 1]] {
            for kernels in all_kernels() {
                assert_same_bits(&inputs.run(&kernels, calls), &got, "in several calls");
            }
        }
    }
}
