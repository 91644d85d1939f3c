//! Weights that are damaged or cannot be had: an error that names the place, never a token, and the
//! next request starts clean.
#![allow(clippy::unwrap_used)]

use deltafin_engine::{
    Engine, EngineError, EngineOptions, IoMode, Layout, Session, StreamedWeights,
};
use deltafin_model::{Expert, Weights};
use deltafin_spec::{ExpertId, ExpertTensor, GlobalTensor, LayerId, SpineTensor, TensorId};
use deltafin_testkit::{Golden, fixture, open};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::Path;

/// Copies `k3-micro` into `dir` and overwrites the front of a tensor. Returns the name of its file.
fn damage(dir: &Path, tensor: TensorId, bytes: &[u8]) -> String {
    for entry in std::fs::read_dir(fixture("k3-micro")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, dir.join(path.file_name().unwrap())).unwrap();
    }
    let name = tensor.name();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "safetensors") {
            continue;
        }
        let mut shard = std::fs::read(&path).unwrap();
        let found = safetensors::SafeTensors::deserialize(&shard)
            .unwrap()
            .tensor(&name)
            .ok()
            .map(|t| t.data().as_ptr() as usize - shard.as_ptr() as usize);
        if let Some(at) = found {
            shard[at..at + bytes.len()].copy_from_slice(bytes);
            std::fs::write(&path, shard).unwrap();
            return path.file_name().unwrap().to_str().unwrap().to_owned();
        }
    }
    panic!("{name} is in no shard");
}

fn prefill<W: Weights>(session: &mut Session<'_, W>, ids: &[u32]) -> Result<(), EngineError> {
    session.prefill(ids, &mut |_| ControlFlow::Continue(())).map(|_| ())
}

fn long_prompt() -> Vec<u32> {
    Golden::load("k3-micro").prompts.iter().find(|p| p.name == "long").unwrap().ids.clone()
}

/// The message that a damaged tensor leads to.
fn message(tensor: TensorId, bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = damage(dir.path(), tensor, bytes);
    let checkpoint = deltafin_store::open_dir(dir.path()).unwrap();
    let engine = Engine::open(checkpoint, EngineOptions::default()).unwrap();
    let mut session = engine.session();
    let error = prefill(&mut session, &long_prompt()).unwrap_err();
    let behind = engine.weights().files_behind(&error);
    assert!(behind.contains(&file.as_str()), "{tensor}: {behind:?}, not {file}");
    let error = error.to_string();
    assert!(session.ids().is_empty() && session.logits().is_empty());
    assert_eq!(session.greedy(), None);
    assert!(!error.contains('\n'));
    error
}

const BF16_NAN: [u8; 2] = [0xc0, 0x7f];
const BF16_INFINITY: [u8; 2] = [0x80, 0x7f];

fn spine(layer: u32, role: SpineTensor) -> TensorId {
    TensorId::Spine(LayerId::new(layer), role)
}

#[test]
fn values_that_are_not_finite_are_named_by_layer() {
    let cases = [
        (spine(1, SpineTensor::KdaQ), &BF16_NAN[..], "layer 1, attention"),
        // A bounded function follows each of these and would hide an infinity.
        (spine(2, SpineTensor::KdaGate), &BF16_INFINITY[..], "layer 2, attention"),
        (spine(2, SpineTensor::KdaBeta), &BF16_INFINITY[..], "layer 2, attention"),
        (spine(2, SpineTensor::KdaDecayB), &BF16_INFINITY[..], "layer 2, attention"),
        (spine(3, SpineTensor::MlaGate), &BF16_INFINITY[..], "layer 3, attention"),
        (spine(3, SpineTensor::MlaKvA), &BF16_INFINITY[..], "layer 3, attention"),
        (spine(0, SpineTensor::DenseUp), &BF16_INFINITY[..], "layer 0, feed-forward"),
        (spine(4, SpineTensor::SharedGate), &BF16_INFINITY[..], "layer 4, feed-forward"),
        (spine(5, SpineTensor::Router), &BF16_INFINITY[..], "layer 5, router"),
        (spine(5, SpineTensor::RouterBias), &f32::NAN.to_le_bytes()[..], "layer 5, router"),
        (spine(2, SpineTensor::KdaALog), &f32::INFINITY.to_le_bytes()[..], "layer 2, attention"),
        (
            spine(2, SpineTensor::KdaALog),
            &f32::NEG_INFINITY.to_le_bytes()[..],
            "layer 2, attention",
        ),
        (spine(2, SpineTensor::KdaDtBias), &f32::INFINITY.to_le_bytes()[..], "layer 2, attention"),
        (
            spine(2, SpineTensor::KdaDtBias),
            &f32::NEG_INFINITY.to_le_bytes()[..],
            "layer 2, attention",
        ),
        (spine(2, SpineTensor::MlpResNorm), &BF16_NAN[..], "layer 2, feed-forward"),
        (TensorId::Global(GlobalTensor::Head), &BF16_NAN[..], "the output head"),
        (TensorId::Global(GlobalTensor::Norm), &BF16_NAN[..], "the output head"),
    ];
    for (tensor, bytes, place) in cases {
        let message = message(tensor, bytes);
        assert!(message.starts_with(place), "{tensor}: {message}");
        assert!(message.contains("not finite"), "{tensor}: {message}");
    }
}

#[test]
fn an_embedding_that_is_not_finite_names_the_token() {
    let dir = tempfile::tempdir().unwrap();
    damage(dir.path(), TensorId::Global(GlobalTensor::Embed), &BF16_NAN);
    let checkpoint = deltafin_store::open_dir(dir.path()).unwrap();
    let engine = Engine::open(checkpoint, EngineOptions::default()).unwrap();
    let mut session = engine.session();
    prefill(&mut session, &[1, 2, 3]).unwrap();
    session.reset();
    let message = prefill(&mut session, &[1, 0]).unwrap_err().to_string();
    assert!(message.starts_with("the embedding of token 0: "), "{message}");
}

#[test]
fn vectors_that_are_not_finite_are_caught_too() {
    use SpineTensor::*;
    for role in
        [InputNorm, KdaQConv, KdaALog, KdaDtBias, KdaOutNorm, AttnResNorm, MlpResProj, LatentNorm]
    {
        let nan: &[u8] = match role {
            KdaQConv | KdaALog | KdaDtBias | KdaOutNorm => &f32::NAN.to_le_bytes(),
            _ => &BF16_NAN,
        };
        let message = message(spine(1, role), nan);
        assert!(message.starts_with("layer 1, "), "{role:?}: {message}");
    }
}

#[test]
fn a_scale_that_means_nan_names_the_expert() {
    // Every expert is used by some row of the long prompt.
    for role in [ExpertTensor::W1Scale, ExpertTensor::W2Scale, ExpertTensor::W3Scale] {
        let tensor = TensorId::Expert(LayerId::new(6), ExpertId::new(11), role);
        assert!(message(tensor, &[255]).starts_with("layer 6, expert 11: "));
    }
}

/// Every weight is read whenever it is needed.
fn nothing_stays(checkpoint: &deltafin_store::Checkpoint) -> Layout {
    let everything = Layout::everything(checkpoint.spec());
    let resident = vec![false; everything.resident.len()];
    Layout { resident, stream_bytes: 4 << 20, expert_slots: 4, cache: false, ..everything }
}

#[test]
fn a_shard_cut_in_use_is_an_error_with_its_name_and_the_engine_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    damage(dir.path(), spine(1, SpineTensor::InputNorm), &[]);
    let checkpoint = deltafin_store::open_dir(dir.path()).unwrap();
    let spec = checkpoint.spec().clone();
    let layout = nothing_stays(&checkpoint);
    let weights = StreamedWeights::open(checkpoint, layout, IoMode::Auto).unwrap();
    let engine = Engine::with_weights(spec, weights, vec![], EngineOptions::default()).unwrap();
    let mut session = engine.session();
    let ids = long_prompt();
    prefill(&mut session, &ids).unwrap();
    let logits = session.logits().to_vec();
    let shard = dir.path().join("model-00005-of-000012.safetensors");
    let whole = std::fs::read(&shard).unwrap();
    std::fs::OpenOptions::new().write(true).open(&shard).unwrap().set_len(100_000).unwrap();
    session.reset();
    let message = prefill(&mut session, &ids).unwrap_err().to_string();
    assert!(message.contains("model-00005-of-000012.safetensors"), "{message}");
    assert!(session.ids().is_empty());
    std::fs::write(&shard, whole).unwrap();
    prefill(&mut session, &ids).unwrap();
    assert_eq!(session.logits(), logits);
}

/// Weights whose experts fail once.
struct FailsOnce<W> {
    inner: W,
    calls_left: Cell<usize>,
}

#[derive(Debug)]
struct Unplugged;

impl std::fmt::Display for Unplugged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the drive is gone")
    }
}

impl std::error::Error for Unplugged {}

impl<W: Weights> Weights for FailsOnce<W> {
    type Error = Unplugged;
    type Attention<'a>
        = W::Attention<'a>
    where
        W: 'a;
    type Ffn<'a>
        = W::Ffn<'a>
    where
        W: 'a;
    type Tail<'a>
        = W::Tail<'a>
    where
        W: 'a;
    type Head<'a>
        = W::Head<'a>
    where
        W: 'a;

    fn begin(&self, pass: deltafin_model::PassPlan) {
        self.inner.begin(pass);
    }

    fn embed(&self, id: u32, out: &mut [f32]) -> Result<(), Unplugged> {
        self.inner.embed(id, out).map_err(|_| Unplugged)
    }

    fn attention(&self, layer: LayerId) -> Result<W::Attention<'_>, Unplugged> {
        self.inner.attention(layer).map_err(|_| Unplugged)
    }

    fn ffn(&self, layer: LayerId) -> Result<W::Ffn<'_>, Unplugged> {
        self.inner.ffn(layer).map_err(|_| Unplugged)
    }

    fn tail(&self) -> Result<W::Tail<'_>, Unplugged> {
        self.inner.tail().map_err(|_| Unplugged)
    }

    fn head(&self) -> Result<W::Head<'_>, Unplugged> {
        self.inner.head().map_err(|_| Unplugged)
    }

    fn demand(&self, layer: LayerId, ids: &[ExpertId]) {
        self.inner.demand(layer, ids);
    }

    fn experts(
        &self,
        layer: LayerId,
        ids: &[ExpertId],
        arrived: &mut dyn FnMut(ExpertId, Expert<'_>),
    ) -> Result<(), Unplugged> {
        let left = self.calls_left.get();
        self.calls_left.set(left.wrapping_sub(1));
        if left == 0 {
            Err(Unplugged)
        } else {
            self.inner.experts(layer, ids, arrived).map_err(|_| Unplugged)
        }
    }
}

#[test]
fn after_a_failed_read_the_next_request_starts_clean() {
    let ids = long_prompt();
    let clean = |calls_left| {
        let checkpoint = open("k3-micro");
        let spec = checkpoint.spec().clone();
        let layout = nothing_stays(&checkpoint);
        let inner = StreamedWeights::open(checkpoint, layout, IoMode::Auto).unwrap();
        let weights = FailsOnce { inner, calls_left: Cell::new(calls_left) };
        Engine::with_weights(spec, weights, vec![], EngineOptions::default()).unwrap()
    };
    let whole = clean(usize::MAX);
    let mut session = whole.session();
    prefill(&mut session, &ids).unwrap();
    let logits = session.logits().to_vec();
    for calls_left in 0..8 {
        let engine = clean(calls_left);
        let mut session = engine.session();
        let message = prefill(&mut session, &ids).unwrap_err().to_string();
        assert_eq!(message, "the drive is gone");
        prefill(&mut session, &ids).unwrap();
        assert_eq!(session.logits(), logits);
    }
}

#[test]
fn bad_ids_and_prompts_that_do_not_fit_are_refused_before_any_work() {
    let context = std::num::NonZeroUsize::new(8);
    let engine =
        Engine::open(open("k3-micro"), EngineOptions { context, ..Default::default() }).unwrap();
    let mut session = engine.session();
    let says = |r: Result<(), EngineError>, words: &[&str]| {
        let message = r.unwrap_err().to_string();
        words.iter().for_each(|w| assert!(message.contains(w), "{message}"));
    };
    says(prefill(&mut session, &[1, 512, 3]), &["512", "vocabulary of 512"]);
    says(prefill(&mut session, &[1; 9]), &["9 tokens", "context of 8", "--context"]);
    says(prefill(&mut session, &[]), &["empty"]);
    prefill(&mut session, &[1; 8]).unwrap();
    says(session.advance(1), &["9 tokens", "context of 8"]);
    assert_eq!(session.ids().len(), 8, "a refused id leaves the session as it was");
    let too_long =
        EngineOptions { context: std::num::NonZeroUsize::new(2 << 20), ..Default::default() };
    assert!(
        Engine::open(open("k3-micro"), too_long).err().unwrap().to_string().contains("1048576")
    );
}

#[test]
fn a_prompt_stopped_in_the_middle_leaves_an_empty_session() {
    let engine = Engine::open(open("k3-micro"), EngineOptions::default()).unwrap();
    let mut session = engine.session();
    let ids = long_prompt();
    let flow = session.prefill(&ids, &mut |p| {
        if p.layer == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(flow.unwrap(), deltafin_engine::Flow::Interrupted);
    assert!(session.ids().is_empty());
    prefill(&mut session, &ids).unwrap();
    let logits = session.logits().to_vec();
    let mut fresh = engine.session();
    prefill(&mut fresh, &ids).unwrap();
    assert_eq!(fresh.logits(), logits);
}

/// Stops before layer 2 of its second pass.
struct StopsInSecondPass(u32);

impl deltafin_engine::Observer for StopsInSecondPass {
    fn layer(&mut self, layer: LayerId) -> ControlFlow<()> {
        self.0 += u32::from(layer.number() == 2);
        // It would let a third pass through.
        if self.0 == 2 && layer.number() == 2 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

#[test]
fn an_evaluation_stopped_in_the_middle_goes_no_further() {
    let chunk = std::num::NonZeroUsize::new(40);
    let engine =
        Engine::open(open("k3-micro"), EngineOptions { chunk, ..Default::default() }).unwrap();
    let mut session = engine.session();
    let (mut passes, mut rows) = (Vec::new(), 0);
    let flow = session.evaluate(
        &long_prompt(),
        &mut StopsInSecondPass(0),
        &mut |first| passes.push(first),
        &mut |_, values| rows += values.len() / engine.spec().vocab,
    );
    assert_eq!(flow.unwrap(), deltafin_engine::Flow::Interrupted);
    assert_eq!((passes, rows), (vec![0, 40], 40));
    assert!(session.ids().is_empty());
}
