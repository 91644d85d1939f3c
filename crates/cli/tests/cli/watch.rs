//! `run --trace` and `run --route-trace`: files that others can read, and the same ids.

use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use serde_json::Value;

use crate::program::{deltafin, fixture};

/// Experts that do not stay are read for every token.
const SCARCE: [&str; 4] = ["--slabs", "2", "--expert-cache", "off"];
const PROMPT: [u32; 6] = [5, 17, 3, 250, 9, 40];
const NEW_IDS: usize = 4;

/// Runs the small model with more flags.
fn run(more: &[&str]) -> String {
    let (model, prompt) = (fixture("k3-micro"), crate::program::list(&PROMPT));
    let usual = ["run", "--model", &model, "--prompt-ids", &prompt, "--max-new", "4", "--ids"];
    deltafin(&[&usual[..], &["--ignore-eos"], &SCARCE, more].concat()).ok()
}

fn parse(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a file")).expect("JSON")
}

struct Span {
    category: String,
    name: String,
    start: f64,
    end: f64,
}

/// The spans of the forward pass's track.
fn spans(trace: &Value) -> Vec<Span> {
    let events = trace["traceEvents"].as_array().expect("events");
    let text = |event: &Value, key: &str| event[key].as_str().expect("text").to_owned();
    let span = |event: &Value| {
        let number = |key: &str| event[key].as_f64().expect("a number");
        let (start, end) = (number("ts"), number("ts") + number("dur"));
        Span { category: text(event, "cat"), name: text(event, "name"), start, end }
    };
    events.iter().filter(|event| event["ph"] == "X").map(span).collect()
}

#[test]
fn a_trace_is_valid_nests_and_changes_no_id() {
    let folder = tempfile::tempdir().expect("a folder");
    let (trace, routes) = (folder.path().join("trace.json"), folder.path().join("routes.jsonl"));
    let [trace_arg, routes_arg] = [&trace, &routes].map(|path| path.to_str().expect("UTF-8"));
    let ids = run(&["--trace", trace_arg, "--route-trace", routes_arg, "--profile"]);
    assert_eq!(ids, run(&[]), "watched and not");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);

    let trace = parse(&trace);
    let spans = spans(&trace);
    let of = |category: &'static str| spans.iter().filter(move |span| span.category == category);
    let passes: Vec<&str> = of("pass").map(|span| span.name.as_str()).collect();
    assert_eq!(passes, ["prefill", "decode", "decode", "decode"]);
    // Nanoseconds are exact; a sum of two may be off in its last place.
    let within = |inner: &Span, outer: &Span| {
        outer.start <= inner.start + 1e-6 && inner.end <= outer.end + 1e-6
    };
    for layer in of("layer") {
        assert!(of("pass").any(|pass| within(layer, pass)), "{}", layer.name);
    }
    let outside = of("part").filter(|part| !of("pass").any(|pass| within(part, pass)));
    let outside: Vec<&str> = outside.map(|part| part.name.as_str()).collect();
    assert_eq!(outside, ["spine wait", "head"], "those of the prompt, after its last pass");
    let layers = of("layer").count();
    assert!(layers > 0 && layers.is_multiple_of(passes.len()), "{layers}");
    for name in ["spine wait", "expert wait", "experts", "attention", "router", "head"] {
        assert!(of("part").any(|part| part.name == name), "{name}");
    }
    check_reads(&trace);
}

/// Every read has a beginning and an end, and experts are among them.
fn check_reads(trace: &Value) {
    let events = trace["traceEvents"].as_array().expect("events");
    let reads = |phase: &'static str| {
        events.iter().filter(move |event| event["cat"] == "read" && event["ph"] == phase)
    };
    assert_eq!(reads("b").count(), reads("e").count());
    let mut experts = 0;
    for (begun, ended) in reads("b").zip(reads("e")) {
        assert_eq!((&begun["id"], &begun["name"]), (&ended["id"], &ended["name"]));
        assert!(begun["ts"].as_f64() <= ended["ts"].as_f64(), "{begun}");
        assert!(begun["args"]["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{begun}");
        let name = begun["name"].as_str().expect("a name");
        experts += usize::from(name.contains("expert"));
    }
    assert!(experts > NEW_IDS, "{experts}");
}

#[test]
fn recorded_routes_are_those_of_eval() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (routes, tensors) = (at("routes.jsonl"), at("out.safetensors"));
    run(&["--route-trace", &routes]);
    let (model, prompt) = (fixture("k3-micro"), crate::program::list(&PROMPT));
    let eval =
        ["eval", "logits", "--model", &model, "--ids", &prompt, "--hidden", "--out", &tensors];
    deltafin(&eval).ok();
    let bytes = fs::read(&tensors).expect("a file");
    let tensors = SafeTensors::deserialize(&bytes).expect("tensors");

    let text = fs::read_to_string(&routes).expect("a file");
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let head = lines.next().expect("a head");
    assert_eq!((&head["format"], &head["version"]), (&"deltafin routes".into(), &1.into()));
    let top_k = head["top_k"].as_u64().expect("a number") as usize;
    let mut seen = 0;
    for line in lines {
        let number = |key: &str| line[key].as_u64().expect("a number") as usize;
        let (position, layer) = (number("position"), number("layer"));
        let experts: Vec<i64> =
            line["experts"].as_array().expect("a list").iter().filter_map(Value::as_i64).collect();
        assert_eq!(experts.len(), top_k);
        seen += 1;
        if position < PROMPT.len() {
            let tensor = tensors.tensor(&format!("route.{layer}")).expect("a tensor");
            let row = tensor.data().chunks_exact(4 * top_k).nth(position).expect("a row");
            let wanted: Vec<i64> = row
                .chunks_exact(4)
                .map(|b| i64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]])))
                .collect();
            assert_eq!(experts, wanted, "position {position}, layer {layer}");
        }
    }
    let layers = tensors.names().iter().filter(|name| name.starts_with("route.")).count();
    // Nobody needs the pass of the last id.
    assert_eq!(seen, layers * (PROMPT.len() + NEW_IDS - 1));
}

#[test]
fn recorded_routes_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = folder.path().join("routes.jsonl");
    let routes = routes.to_str().expect("UTF-8");
    run(&["--route-trace", routes]);
    let report =
        deltafin(&["bench", "routes", "--from", routes, "--from", routes, "--json"]).json();
    assert_eq!(report["tokens"], PROMPT.len() + NEW_IDS - 1);
    let pinned = report["routes_to_pinned_in_unseen_text"].as_f64();
    assert!(pinned.is_some_and(|share| (0.0..=1.0).contains(&share)), "{report}");
    let line = deltafin(&["bench", "routes", "--from", &fixture("k3-micro/config.json")]).refusal();
    assert!(line.contains("config.json") && line.contains("--route-trace"), "{line}");
}

#[test]
fn files_that_cannot_be_had_are_refused_before_anything_is_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().to_str().expect("UTF-8");
    for flag in ["--trace", "--route-trace"] {
        let args = ["run", "--model", "demo", "--prompt", "a", flag, at];
        let line = deltafin(&args).refusal();
        assert!(line.contains(at) && line.contains("not an ordinary file"), "{line}");
    }
    let both = ["run", "--model", "demo", "--prompt", "a", "--trace", "x", "--route-trace", "x"];
    assert!(deltafin(&both).usage().contains("a file each"));
    let (plain, roundabout) = (
        format!("{at}/x"),
        format!(
            "{at}/../{}/x",
            folder.path().file_name().and_then(|name| name.to_str()).expect("a name")
        ),
    );
    let both = ["--trace", &plain, "--route-trace", &roundabout];
    let args = ["run", "--model", "demo", "--prompt", "a"];
    let line = deltafin(&[&args[..], &both].concat()).refusal();
    assert!(line.contains(&roundabout) && line.contains("a file each"), "{line}");
}
