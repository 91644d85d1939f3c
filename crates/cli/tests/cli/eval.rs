//! `eval`: numbers against the reference's.

use std::collections::BTreeSet;
use std::path::Path;

use deltafin_testkit::{Golden, largest_difference};
use safetensors::SafeTensors;

use crate::program::{deltafin, deltafin_on, fixture, list};

/// What a correct evaluation in `f32` may differ by, for the loud miniature.
const TOLERANCE: f32 = 4e-3;

fn numbers<const N: usize, T>(
    file: &SafeTensors<'_>,
    name: &str,
    from: fn([u8; N]) -> T,
) -> Vec<T> {
    let tensor = file.tensor(name).expect("a tensor");
    let chunks = tensor.data().chunks_exact(N);
    chunks.map(|bytes| from(bytes.try_into().expect("whole"))).collect()
}

fn logits(ids: &[u32], out: &Path, more: &[&str]) -> Vec<u8> {
    let model = fixture("k3-micro");
    let (ids, path) = (list(ids), out.to_str().expect("UTF-8"));
    let args = ["eval", "logits", "--model", &model, "--ids", &ids, "--out", path];
    deltafin(&[&args, more].concat()).ok();
    std::fs::read(out).expect("the file")
}

#[track_caller]
fn assert_near(found: &[f32], wanted: &[f32], what: &str) {
    let worst = largest_difference(found, wanted);
    assert!(worst <= TOLERANCE, "{what}: off by {worst}");
}

#[test]
fn logits_hidden_states_and_routes_are_the_reference_s() {
    let golden = Golden::load("k3-micro");
    let folder = tempfile::tempdir().expect("a folder");
    let mut compared = 0;
    for prompt in &golden.prompts {
        let (name, positions) = (&prompt.name, prompt.ids.len());
        let bytes = logits(&prompt.ids, &folder.path().join(name), &["--hidden", "--chunk", "7"]);
        let file = SafeTensors::deserialize(&bytes).expect("a valid file");
        assert_eq!(file.tensor("logits").expect("logits").shape(), [positions, 512]);
        let found = numbers(&file, "logits", f32::from_le_bytes);
        let (_, wanted) = golden.floats(&format!("{name}.logits")).expect("logits");
        assert_near(&found[prompt.first_logit_row * 512..], &wanted, name);
        if let Some((shape, wanted)) = golden.floats(&format!("{name}.hidden")) {
            for (layer, wanted) in wanted.chunks_exact(shape[1] * shape[2]).enumerate() {
                let found = numbers(&file, &format!("hidden.{layer}"), f32::from_le_bytes);
                assert_near(&found, wanted, &format!("{name}, hidden.{layer}"));
                compared += 1;
            }
        }
        if let Some((shape, wanted)) = golden.ids(&format!("{name}.route_ids")) {
            for (layer, wanted) in
                golden.moe_layers.iter().zip(wanted.chunks_exact(shape[1] * shape[2]))
            {
                let found = numbers(&file, &format!("route.{layer}"), u32::from_le_bytes);
                // Two chosen experts may swap places where their scores nearly tie.
                let sets = |ids: &[u32]| -> Vec<BTreeSet<u32>> {
                    ids.chunks(shape[2]).map(|row| row.iter().copied().collect()).collect()
                };
                assert_eq!(sets(&found), sets(wanted), "{name}, route.{layer}");
                compared += 1;
            }
        }
        assert!(file.tensor("route.0").is_err(), "layer 0 is dense");
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn chunks_and_threads_give_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let ids: Vec<u32> = (0..40).collect();
    let wanted = logits(&ids, &folder.path().join("a"), &["--hidden"]);
    for more in [["--chunk", "1"], ["--threads", "1"], ["--isa", "scalar"]] {
        let found = logits(&ids, &folder.path().join("b"), &[&["--hidden"][..], &more].concat());
        assert!(found == wanted, "{more:?}");
    }
}

#[test]
fn perplexity_is_that_of_the_logits() {
    let text = "The quick brown fox.";
    let model = fixture("k3-micro");
    let object =
        deltafin_on(text, &["eval", "ppl", "--model", &model, "--text", "-", "--json"]).json();
    let ids = deltafin(&["tokenize", "--model", &model, text]).json();
    let ids: Vec<u32> = serde_json::from_value(ids).expect("ids");
    assert_eq!(object["tokens"], ids.len());

    let folder = tempfile::tempdir().expect("a folder");
    let bytes = logits(&ids, &folder.path().join("out"), &[]);
    let file = SafeTensors::deserialize(&bytes).expect("a valid file");
    let rows = numbers(&file, "logits", f32::from_le_bytes);
    let surprise = |(row, next): (&[f32], &u32)| {
        let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
        sum.ln() - f64::from(row[*next as usize])
    };
    let nats: f64 = rows.chunks_exact(512).zip(&ids[1..]).map(surprise).sum();
    let wanted = (nats / (ids.len() - 1) as f64).exp();
    let found = object["perplexity"].as_f64().expect("a number");
    assert!((found / wanted - 1.0).abs() < 1e-6, "{found} {wanted}");
}

#[test]
fn a_familiar_text_surprises_less() {
    let perplexity = |text: &str| {
        let args = ["eval", "ppl", "--model", "demo", "--text", "-", "--json"];
        deltafin_on(text, &args).json()["perplexity"].as_f64().expect("a number")
    };
    let familiar =
        perplexity("The capital of France is Paris. The Eiffel Tower is located in Paris.");
    let strange =
        perplexity("Paris capital. is The France Tower of Eiffel in located is The Paris.");
    assert!(familiar * 3.0 < strange, "{familiar} {strange}");
}

#[test]
fn perplexity_needs_something_to_predict() {
    let args = ["eval", "ppl", "--model", "demo", "--text", "-"];
    assert!(deltafin_on("", &args).refusal().contains("two tokens"));
    assert!(deltafin_on("a", &args).refusal().contains("two tokens"));
}

#[test]
fn stats_are_in_words() {
    let args = ["eval", "ppl", "--model", "demo", "--text", "-", "--stats"];
    let run = deltafin_on("The capital of France is Paris.", &args);
    for words in ["evaluation   ", "peak memory  ", "recipe       ", "machine      isa "] {
        assert!(run.err.contains(words), "{words}: {run:?}");
    }
    assert!(!run.err.contains('"') && !run.err.contains("null"), "{run:?}");
}

const FAMILIAR: &str = "The capital of France is Paris. The Eiffel Tower is located in Paris.";

fn compare(a: &str, b: &str) -> serde_json::Value {
    deltafin_on(FAMILIAR, &["eval", "compare", a, b, "--text", "-", "--json"]).json()
}

#[test]
fn a_model_does_not_differ_from_itself() {
    let report = compare("demo", "demo@bf16");
    assert_eq!(report["logit_difference_max"], 0.0);
    assert_eq!((&report["kl_mean"], &report["top1_agreement"]), (&0.0.into(), &1.0.into()));
    assert_eq!(report["a"]["perplexity"], report["b"]["perplexity"]);
    let args = ["eval", "ppl", "--model", "demo", "--text", "-", "--json"];
    assert_eq!(report["a"]["perplexity"], deltafin_on(FAMILIAR, &args).json()["perplexity"]);
}

#[test]
fn a_quantised_spine_differs_a_little() {
    let report = compare("demo@bf16", "demo@int8");
    let kl = report["kl_mean"].as_f64().expect("a number");
    assert!(kl > 0.0 && kl < 0.1, "{report}");
    assert!(report["kl_max"].as_f64() >= Some(kl));
    assert_eq!(report["b"]["stats"]["recipe"], "int8");
    let words =
        deltafin_on(FAMILIAR, &["eval", "compare", "demo@bf16", "demo@int8", "--text", "-"]).ok();
    assert!(words.contains("mean KL(A || B)") && words.contains("same top token"), "{words}");
}

#[test]
fn a_comparison_takes_any_pieces_and_needs_two_models_alike() {
    let ids: Vec<u32> = (0..20).collect();
    let calm = fixture("k3-calm");
    let on = |more: &[&str]| {
        let args = ["eval", "compare", &calm, &calm, "--ids", &list(&ids), "--json"];
        deltafin(&[&args, more].concat()).json()["a"]["perplexity"].clone()
    };
    assert_eq!(on(&[]), on(&["--chunk", "3"]));
    let other = ["eval", "compare", &calm, "demo", "--ids", "1,2"];
    assert!(deltafin(&other).refusal().contains("vocabulary"));
    let foreign = ["eval", "compare", &calm, &calm, "--ids", "1,99999"];
    assert!(deltafin(&foreign).refusal().contains("99999"));
    let short = ["eval", "compare", &calm, &calm, "--ids", "1"];
    assert!(deltafin(&short).refusal().contains("two tokens"));
    let twice = ["eval", "compare", "demo", "demo", "--ids", "1,2", "--model", "demo"];
    assert!(deltafin(&twice).usage().contains("not --model"));
    let long = ["eval", "compare", "demo", "demo", "--ids", "1,2,3", "--context", "2"];
    assert!(deltafin(&long).refusal().contains("--context"));
}

/// The memory is for both together, and so is the budget that a refusal names.
#[test]
fn a_comparison_names_a_budget_that_is_enough_for_both() {
    let (small, large) = (fixture("k3-calm"), fixture("k3-micro"));
    for (a, b) in [(&small, &large), (&large, &small)] {
        let on = |memory: &str| {
            deltafin(&["eval", "compare", a, b, "--ids", "1,2,3", "--memory", memory])
        };
        let named = |line: &str| -> u64 {
            let named = line.split("give --memory ").nth(1).and_then(|rest| rest.split('M').next());
            named.and_then(|mib| mib.parse().ok()).unwrap_or_else(|| panic!("{line}"))
        };
        let refused = |memory: &str| {
            let said = on(memory).err.replace(
                "deltafin: each of the two has half of --memory, less what their logits take\n",
                "",
            );
            let line = said.lines().last().expect("a line").to_owned();
            assert!(line.contains("is too small"), "{said}");
            line
        };
        let mib = named(&refused("1M"));
        on(&format!("{mib}M")).ok();
        assert_eq!(named(&refused(&format!("{}M", mib - 1))), mib);
    }
}
