//! Recorded results of the references.

use crate::fixture;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

/// A prompt of a miniature checkpoint and its greedy continuation.
#[derive(Debug, Deserialize)]
pub struct Prompt {
    /// Begins the names of its tensors.
    pub name: String,
    /// The prompt.
    pub ids: Vec<u32>,
    /// Logits are recorded from this position on.
    pub first_logit_row: usize,
    /// The ids that follow, stop ids not treated as stops.
    pub greedy: Vec<u32>,
    /// Where in `greedy` the first stop id is.
    pub eos_at: Option<usize>,
}

#[derive(Deserialize)]
struct Index {
    moe_layers: Vec<u32>,
    float32_run_max_abs_deviation: f32,
    prompts: Vec<Prompt>,
}

/// The golden vectors of a miniature checkpoint.
pub struct Golden {
    /// Layer numbers, in the order of the routing arrays.
    pub moe_layers: Vec<u32>,
    /// What a plain float32 evaluation of the same mathematics differs by.
    pub float32_noise: f32,
    /// The prompts.
    pub prompts: Vec<Prompt>,
    tensors: Vec<u8>,
}

impl Golden {
    /// Those of `k3-micro` or `k3-calm`.
    pub fn load(name: &str) -> Golden {
        let dir = fixture(name);
        let index: Index =
            serde_json::from_slice(&std::fs::read(dir.join("golden.json")).unwrap()).unwrap();
        Golden {
            moe_layers: index.moe_layers,
            float32_noise: index.float32_run_max_abs_deviation,
            prompts: index.prompts,
            tensors: std::fs::read(dir.join("golden.safetensors")).unwrap(),
        }
    }

    /// A tensor of floats and its shape, if it was recorded.
    pub fn floats(&self, name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        let (shape, bytes) = self.bytes(name, Dtype::F32)?;
        Some((shape, bytes.as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect()))
    }

    /// A tensor of ids and its shape, if it was recorded.
    pub fn ids(&self, name: &str) -> Option<(Vec<usize>, Vec<u32>)> {
        let (shape, bytes) = self.bytes(name, Dtype::I32)?;
        Some((shape, bytes.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(*c)).collect()))
    }

    fn bytes(&self, name: &str, dtype: Dtype) -> Option<(Vec<usize>, Vec<u8>)> {
        let tensors = SafeTensors::deserialize(&self.tensors).unwrap();
        let tensor = tensors.tensor(name).ok()?;
        assert_eq!(tensor.dtype(), dtype, "{name}");
        Some((tensor.shape().to_vec(), tensor.data().to_vec()))
    }
}

/// A prompt of the demo model.
#[derive(Debug, Deserialize)]
pub struct DemoPrompt {
    /// Its name.
    pub name: String,
    /// The prompt.
    pub ids: Vec<u32>,
    /// The ids that follow, stop ids not treated as stops.
    pub greedy: Vec<u32>,
    /// Where in `greedy` the first stop id is.
    pub eos_at: Option<usize>,
}

/// The recorded continuations of the demo model.
#[derive(Debug, Deserialize)]
pub struct DemoGolden {
    /// The prompts.
    pub prompts: Vec<DemoPrompt>,
}

impl DemoGolden {
    /// Reads them.
    pub fn load() -> DemoGolden {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../demo/model/golden.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }
}

/// The largest distance between two numbers at the same place; not a number where one of them is none, so
/// that no bound holds for it.
///
/// # Panics
/// When there are not equally many.
pub fn largest_difference(found: &[f32], wanted: &[f32]) -> f32 {
    assert_eq!(found.len(), wanted.len(), "as many numbers");
    let apart = found.iter().zip(wanted).map(|(a, b)| (a - b).abs());
    // `f32::max` would drop what is not a number.
    apart.fold(0.0, |most: f32, next| if most.is_nan() || most > next { most } else { next })
}

#[cfg(test)]
mod tests {
    use super::largest_difference;

    #[test]
    fn what_is_no_number_is_within_no_bound() {
        assert_eq!(largest_difference(&[1.0, -2.0, 3.0], &[1.0, 2.0, 2.0]), 4.0);
        for at in 0..3 {
            let mut found = [1.0, 2.0, 3.0];
            found[at] = f32::NAN;
            let worst = largest_difference(&found, &[1.0, 2.0, 2.0]);
            assert!(worst.is_nan(), "{worst}");
        }
    }
}
