//! The convolution, the decay and the recurrence of KDA against f64, and split every way.

mod common;

use common::{
    Contents, Random, all_kernels, assert_close, assert_same_bits, same_everywhere, sigmoid, wide,
};
use deltafin_kernels::Kernels;
use proptest::prelude::*;

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

/// Convolves at once, everywhere and in calls of the given row counts, and compares with f64.
#[track_caller]
fn check_convolution(
    channels: usize,
    rows: usize,
    contents: Contents,
    random: &mut Random,
    splits: &[&[usize]],
) {
    let weight = random.vector(channels * TAPS, 1.0);
    let history = contents.floats(random, 3 * channels, 2.0);
    let x = contents.floats(random, rows * channels, 2.0);
    let got = same_everywhere(|kernels| convolve(kernels, &weight, &history, &x, &[rows]));
    let all = [history.clone(), x.clone()].concat();
    assert_same_bits(&got[x.len()..], &all[rows * channels..], "history");
    if contents != Contents::Anything {
        let all = wide(&all);
        let exact = (0..rows * channels).map(|i| {
            let tap = |j| f64::from(weight[i % channels * TAPS + j]) * all[i + j * channels];
            let y: f64 = (0..TAPS).map(tap).sum();
            y * sigmoid(y)
        });
        assert_close(&got[..x.len()], &exact.collect::<Vec<_>>(), 1e-6);
    }
    for (calls, kernels) in
        splits.iter().flat_map(|c| all_kernels().into_iter().map(move |k| (c, k)))
    {
        let split = convolve(&kernels, &weight, &history, &x, calls);
        assert_same_bits(&split, &got, "in several calls");
    }
}

#[test]
fn convolution_matches_f64_in_any_split() {
    for channels in [1, 16, 37, 3000] {
        let splits: [&[usize]; 4] = [&[1; 9], &[2, 1, 3, 2, 1], &[0, 4, 5], &[8, 1]];
        let mut random = Random(channels as u64);
        check_convolution(channels, 9, Contents::Ordinary, &mut random, &splits);
    }
}

#[track_caller]
fn check_decay(heads: usize, dim: usize, rows: usize, contents: Contents, random: &mut Random) {
    let a_log = random.vector(heads + 7, 2.0);
    let dt_bias = contents.floats(random, heads * dim, 3.0);
    let z = contents.floats(random, rows * heads * dim, 5.0);
    let got = same_everywhere(|kernels| {
        let mut z = z.clone();
        kernels.kda_decay(heads, &a_log, &dt_bias, -5.0, &mut z);
        z
    });
    if contents == Contents::Anything {
        return;
    }
    let exact = wide(&z).into_iter().enumerate().map(|(i, z)| {
        let channel = i % (heads * dim);
        let rate = f64::from(a_log[channel / dim]).exp();
        (-5.0 * sigmoid(rate * (z + f64::from(dt_bias[channel])))).exp()
    });
    assert_close(&got, &exact.collect::<Vec<_>>(), 2e-6);
    assert!(got.iter().all(|alpha| (0.006..=1.0).contains(alpha)));
}

#[test]
fn decay_matches_f64_and_ignores_padding_of_a_log() {
    for (heads, dim) in [(1, 1), (3, 20), (5, 128)] {
        check_decay(heads, dim, 40, Contents::Ordinary, &mut Random(dim as u64));
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
    fn new(
        (heads, dim): (usize, usize),
        rows: usize,
        contents: Contents,
        random: &mut Random,
    ) -> Inputs {
        let len = rows * heads * dim;
        let size = 1.7 / (dim as f32).sqrt(); // keys of about unit length
        Inputs {
            heads,
            dim,
            rows,
            vectors: [
                contents.floats(random, len, size),
                contents.floats(random, len, size),
                contents.floats(random, len, 2.0),
                random.fractions(len),
            ],
            beta: random.fractions(rows * heads),
            state: contents.floats(random, heads * dim * dim, 0.5),
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
        let mut random = Random((heads * dim * 7) as u64);
        let inputs = Inputs::new((heads, dim), 7, Contents::Ordinary, &mut random);
        let got = same_everywhere(|kernels| inputs.run(kernels, &[7]));
        assert_close(&got, &inputs.exact(), 3e-6);
        for calls in [&[1; 7][..], &[3, 4], &[2, 1, 4], &[6, 0, 1]] {
            for kernels in all_kernels() {
                assert_same_bits(&inputs.run(&kernels, calls), &got, "in several calls");
            }
        }
    }
}

proptest! {
    #![proptest_config(common::cases(48))]

    #[test]
    fn any_convolution(
        channels in 1usize..600,
        before in 0usize..6,
        after in 0usize..6,
        contents in Contents::any(),
        seed in any::<u64>(),
    ) {
        let splits: [&[usize]; 1] = [&[before, after]];
        check_convolution(channels, before + after, contents, &mut Random(seed), &splits);
    }

    #[test]
    fn any_decay(
        heads in 1usize..6,
        dim in 1usize..70,
        rows in 0usize..5,
        contents in Contents::any(),
        seed in any::<u64>(),
    ) {
        check_decay(heads, dim, rows, contents, &mut Random(seed));
    }

    #[test]
    fn any_recurrence(
        shape in (1usize..5, 1usize..90),
        before in 0usize..4,
        after in 0usize..4,
        contents in Contents::any(),
        seed in any::<u64>(),
    ) {
        let inputs = Inputs::new(shape, before + after, contents, &mut Random(seed));
        let got = same_everywhere(|kernels| inputs.run(kernels, &[before, after]));
        let at_once = inputs.run(&Kernels::reference(), &[before + after]);
        assert_same_bits(&got, &at_once, "in two calls");
        if contents != Contents::Anything {
            assert_close(&got, &inputs.exact(), 3e-6);
        }
    }
}
