//! The engine against recorded float64 results, layer by layer, not only at the logits.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use deltafin_engine::{Engine, EngineOptions, LayerId, Observer, Session, Tap};
use deltafin_model::LayerState;
use deltafin_testkit::{DemoGolden, Golden, Prompt, largest_difference, open};
use std::collections::BTreeMap;

/// The largest logit error the fixtures allow a float32 engine.
fn tolerance(checkpoint: &str) -> f32 {
    if checkpoint == "k3-micro" { 4e-3 } else { 1e-3 }
}

/// What a pass shows.
#[derive(Default)]
struct Seen {
    rows: BTreeMap<(u32, &'static str), Vec<f32>>,
    experts: BTreeMap<u32, Vec<u32>>,
    weights: BTreeMap<u32, Vec<f32>>,
}

fn tap_name(tap: Tap) -> &'static str {
    match tap {
        Tap::AttentionIn => "attn_in",
        Tap::AttentionOut => "attn_out",
        Tap::FfnIn => "ffn_in",
        Tap::FfnOut => "ffn_out",
        Tap::Hidden => "hidden",
    }
}

impl Observer for Seen {
    fn rows(&mut self, layer: LayerId, tap: Tap, _first: usize, values: &[f32]) {
        self.rows.entry((layer.number(), tap_name(tap))).or_default().extend_from_slice(values);
    }

    fn route(&mut self, layer: LayerId, _row: usize, experts: &[u32], weights: &[f32]) {
        self.experts.entry(layer.number()).or_default().extend_from_slice(experts);
        self.weights.entry(layer.number()).or_default().extend_from_slice(weights);
    }
}

/// Runs a prompt and returns what was seen, and all logits.
fn evaluate(session: &mut Session<'_>, ids: &[u32]) -> (Seen, Vec<f32>) {
    let (mut seen, mut logits) = (Seen::default(), Vec::new());
    session
        .evaluate(ids, &mut seen, &mut |_| {}, &mut |_, rows| logits.extend_from_slice(rows))
        .unwrap();
    (seen, logits)
}

fn greedy(session: &mut Session<'_>, prompt: &[u32], count: usize) -> Vec<u32> {
    session.reset();
    session.prefill(prompt, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    let mut ids = vec![session.greedy().unwrap()];
    while ids.len() < count {
        session.advance(*ids.last().unwrap()).unwrap();
        ids.push(session.greedy().unwrap());
    }
    ids
}

fn check_checkpoint(name: &str) {
    let golden = Golden::load(name);
    let engine = Engine::open(open(name), EngineOptions::default()).unwrap();
    let vocab = engine.spec().vocab;
    let mut session = engine.session();
    let mut worst = 0f32;
    for prompt in &golden.prompts {
        session.reset();
        let (seen, logits) = evaluate(&mut session, &prompt.ids);
        let x = &prompt.name;
        let (_, wanted) = golden.floats(&format!("{x}.logits")).unwrap();
        let error = largest_difference(&logits[prompt.first_logit_row * vocab..], &wanted);
        assert!(error <= tolerance(name), "{name} {x}: logit error {error}");
        worst = worst.max(error);
        // A prompt is shorter than a pass, so these are all its rows.
        let (_, wanted) = golden.floats(&format!("{x}.final")).unwrap();
        let skipped = prompt.first_logit_row * engine.spec().hidden;
        let error = largest_difference(&session.last_hidden()[skipped..], &wanted);
        assert!(error <= tolerance(name), "{name} {x}: final hidden error {error}");
        check_hidden(&golden, prompt, &seen, engine.spec().layers.len(), tolerance(name));
        check_routes(&golden, prompt, &seen);
        if x == "debug" {
            check_taps(&golden, &seen, engine.spec().layers.len(), tolerance(name));
            check_state(&golden, &session, prompt.ids.len(), tolerance(name));
        }
        assert_eq!(
            greedy(&mut session, &prompt.ids, prompt.greedy.len()),
            prompt.greedy,
            "{name} {x}"
        );
        let (_, last) = golden.floats(&format!("{x}.greedy_last_logits")).unwrap();
        let error = largest_difference(session.logits(), &last);
        assert!(error <= tolerance(name), "{name} {x}: last logit error {error}");
        worst = worst.max(error);
    }
    let (noise, ratio) = (golden.float32_noise, worst / golden.float32_noise);
    println!(
        "{name}: largest logit error {worst:.2e}, {ratio:.2} of the float32 noise {noise:.2e}"
    );
    assert!(ratio <= 2.0, "{name}: {ratio} of the float32 noise floor");
}

fn check_hidden(golden: &Golden, prompt: &Prompt, seen: &Seen, layers: usize, tolerance: f32) {
    if let Some((shape, wanted)) = golden.floats(&format!("{}.hidden", prompt.name)) {
        let width = shape[1] * shape[2];
        for layer in 0..layers {
            let got = &seen.rows[&(layer as u32, "hidden")];
            let error = largest_difference(got, &wanted[layer * width..(layer + 1) * width]);
            assert!(error <= tolerance, "{} layer {layer}: hidden error {error}", prompt.name);
        }
    }
}

/// Chosen experts are equal as sets, and so are their weights.
fn check_routes(golden: &Golden, prompt: &Prompt, seen: &Seen) {
    let (shape, ids) = golden.ids(&format!("{}.route_ids", prompt.name)).unwrap();
    let (_, weights) = golden.floats(&format!("{}.route_weights", prompt.name)).unwrap();
    let k = shape[2];
    let sorted = |ids: &[u32], weights: &[f32]| {
        let mut pairs: Vec<_> = ids.iter().copied().zip(weights.iter().copied()).collect();
        pairs.sort_by_key(|p| p.0);
        pairs
    };
    for (m, layer) in golden.moe_layers.iter().enumerate() {
        for t in 0..shape[1] {
            let at = (m * shape[1] + t) * k..(m * shape[1] + t + 1) * k;
            let wanted = sorted(&ids[at.clone()], &weights[at]);
            let own = t * k..(t + 1) * k;
            let got = sorted(&seen.experts[layer][own.clone()], &seen.weights[layer][own]);
            for (g, w) in got.iter().zip(&wanted) {
                assert_eq!(g.0, w.0, "{} layer {layer} position {t}", prompt.name);
                assert!((g.1 - w.1).abs() < 1e-4, "{} layer {layer} position {t}", prompt.name);
            }
        }
    }
}

fn check_taps(golden: &Golden, seen: &Seen, layers: usize, tolerance: f32) {
    for tap in ["attn_in", "attn_out", "ffn_in", "ffn_out"] {
        let (shape, wanted) = golden.floats(&format!("debug.{tap}")).unwrap();
        let width = shape[1] * shape[2];
        for layer in 0..layers {
            let got = &seen.rows[&(layer as u32, tap)];
            let error = largest_difference(got, &wanted[layer * width..(layer + 1) * width]);
            assert!(error <= tolerance, "debug.{tap} layer {layer}: error {error}");
        }
    }
}

fn check_state(golden: &Golden, session: &Session<'_>, rows: usize, tolerance: f32) {
    let close = |name: String, got: &[f32]| {
        let (_, wanted) = golden.floats(&name).unwrap();
        let error = largest_difference(got, &wanted);
        assert!(error <= tolerance, "{name}: error {error}");
    };
    for (i, layer) in session.state().layers().iter().enumerate() {
        match layer {
            LayerState::Kda(kda) => {
                close(format!("debug.state.{i}.S"), &kda.associations);
                close(format!("debug.state.{i}.conv"), &kda.history.concat());
            }
            LayerState::Mla(cache) => {
                let width = |all: &[f32]| all.len() / session.state().capacity() * rows;
                close(format!("debug.state.{i}.c"), &cache.latent[..width(&cache.latent)]);
                close(format!("debug.state.{i}.k_pe"), &cache.rope[..width(&cache.rope)]);
            }
        }
    }
}

#[test]
fn k3_micro_equals_its_reference() {
    check_checkpoint("k3-micro");
}

#[test]
fn k3_calm_equals_its_reference() {
    check_checkpoint("k3-calm");
}

#[test]
fn the_demo_model_continues_as_recorded() {
    let engine = Engine::open(open("demo"), EngineOptions::default()).unwrap();
    let mut session = engine.session();
    for prompt in &DemoGolden::load().prompts {
        let ids = greedy(&mut session, &prompt.ids, prompt.greedy.len());
        assert_eq!(ids, prompt.greedy, "{}", prompt.name);
    }
}
