//! Checkpoints that are damaged in what they contain: refused at open, with file and numbers.
#![allow(clippy::unwrap_used)]

mod support;

use deltafin_checkpoint::write::{PlannedShard, PlannedTensor};
use deltafin_spec::{Dtype, Shape};
use deltafin_store::{OpenError, from_memory, inspect_dir, open_dir};
use support::{CONFIG, Files, INDEX, files, files_of, leak, plan};

const SHARD_2: &str = "model-00002-of-000005.safetensors";
const SHARD_3: &str = "model-00003-of-000005.safetensors";

/// Opening fails in memory and on disk, with a message of one line that says what to do and holds
/// all `parts`.
fn refused(files: &Files, parts: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    support::write_to(dir.path(), files);
    let memory = from_memory(&leak(files)).unwrap_err().to_string();
    let disk = open_dir(dir.path()).unwrap_err().to_string();
    for message in [&memory, &disk] {
        assert!(!message.contains('\n'), "{message}");
        assert!(message.contains("fetch") || message.contains("give "), "no remedy: {message}");
        for part in parts {
            assert!(message.contains(part), "wanted {part:?} in: {message}");
        }
    }
    memory
}

fn with_plan(change: impl FnOnce(&mut Vec<PlannedShard>)) -> Files {
    let mut shards = plan();
    change(&mut shards);
    files_of(&shards)
}

fn tensor<'s>(shards: &'s mut [PlannedShard], ending: &str) -> &'s mut PlannedTensor {
    let mut all = shards.iter_mut().flat_map(|shard| &mut shard.tensors);
    all.find(|tensor| tensor.name.ends_with(ending)).unwrap()
}

/// Replaces text in the index.
fn with_index(from: &str, to: &str) -> Files {
    let mut files = files();
    let index = String::from_utf8(files[INDEX].clone()).unwrap();
    assert!(index.contains(from));
    files.insert(INDEX.to_owned(), index.replacen(from, to, 1).into_bytes());
    files
}

#[test]
fn a_shard_that_is_cut_or_too_long_is_refused_with_both_sizes() {
    for name in files().keys().filter(|name| name.ends_with(".safetensors")) {
        let len = files()[name].len();
        for found in [len - 1, len - 16, len + 1] {
            let mut files = files();
            files.get_mut(name).unwrap().resize(found, 0);
            refused(&files, &[name, &len.to_string(), &found.to_string()]);
        }
        for found in [0, 7, 8, 9, 40] {
            let mut files = files();
            files.get_mut(name).unwrap().resize(found, 0);
            refused(&files, &[name]);
        }
    }
}

#[test]
fn a_broken_header_names_its_shard() {
    let mut files = files();
    files.get_mut(SHARD_2).unwrap()[8] = b'[';
    let message = refused(&files, &[SHARD_2, "0x5b"]);
    assert!(!message.contains("more"), "what the shard would hold is not reported: {message}");
}

/// Replaces text in the header of a shard by text of the same length.
fn with_header(from: &str, to: &str) -> Files {
    let mut files = files();
    let shard = files.get_mut(SHARD_2).unwrap();
    let at = shard.windows(from.len()).position(|bytes| bytes == from.as_bytes()).unwrap();
    shard[at..][..from.len()].copy_from_slice(to.as_bytes());
    files
}

#[test]
fn a_header_that_contradicts_itself_names_its_shard() {
    let twice = with_header("layers.1.self_attn.k_proj", "layers.1.self_attn.q_proj");
    for (files, fault) in [
        (with_header("\"BF16\"", "\"BF61\""), "unknown dtype \"BF61\""),
        (twice, "appears twice"),
        (with_header("\"data_offsets\":[0,", "\"data_offsets\":[8,"), "wants"),
        (with_header("\"dtype\"", "\"ptype\""), "unknown field"),
    ] {
        refused(&files, &[SHARD_2, fault, "fetch it again"]);
    }
}

#[test]
fn a_missing_tensor_is_named() {
    let files = with_plan(|shards| {
        shards[1].tensors.retain(|t| !t.name.ends_with("experts.11.w3.weight_scale"));
    });
    let name = "language_model.model.layers.1.block_sparse_moe.experts.11.w3.weight_scale";
    refused(&files, &[name, "in no shard"]);
}

#[test]
fn a_wrong_shape_or_dtype_is_named_with_both() {
    let files = with_plan(|shards| {
        tensor(shards, "layers.1.self_attn.b_proj.weight").shape = Shape::new(&[4, 24]).unwrap();
    });
    refused(&files, &[SHARD_2, "self_attn.b_proj.weight", "[4, 24]", "[3, 24]"]);
    let files = with_plan(|shards| {
        tensor(shards, "layers.2.block_sparse_moe.gate.weight").dtype = Dtype::F32;
    });
    refused(&files, &[SHARD_3, "gate.weight", "F32", "BF16"]);
    let files = with_plan(|shards| {
        tensor(shards, "layers.0.self_attn.A_log").shape = Shape::new(&[2]).unwrap();
    });
    refused(&files, &["A_log", "[2]"]);
    let files = with_plan(|shards| {
        tensor(shards, "experts.3.w2.weight_packed").dtype = Dtype::F8E4M3;
    });
    refused(&files, &["experts.3.w2.weight_packed", "F8_E4M3", "U8"]);
}

#[test]
fn an_unknown_text_tensor_is_refused_and_others_are_not() {
    let extra = |name: &str| {
        with_plan(|shards| {
            let (name, shape) = (name.to_owned(), Shape::new(&[1]).unwrap());
            shards[2].tensors.push(PlannedTensor { name, dtype: Dtype::U8, shape });
        })
    };
    for name in ["language_model.model.layers.2.self_attn.q_proj.weight", "language_model.x\\n"] {
        refused(&extra(name), &[SHARD_3, "belongs to no part"]);
    }
    let name = "model.layers.0.input_layernorm.weight";
    refused(&extra(name), &[SHARD_3, name, "`language_model.`"]);
    for name in ["vision_tower.new", "mm_projector.new", "audio.x"] {
        let checkpoint = from_memory(&leak(&extra(name))).unwrap();
        assert_eq!(checkpoint.catalog.ignored().tensors, 3);
    }
}

#[test]
fn a_tensor_in_two_shards_is_refused() {
    let files = with_plan(|shards| {
        let twice = shards[1].tensors[0].clone();
        shards[2].tensors.push(twice);
    });
    // The index can hold one of them only.
    let mut files = files;
    let index = String::from_utf8(files[INDEX].clone()).unwrap();
    let line = index.lines().find(|line| line.contains("layers.1.") && line.contains(SHARD_3));
    let index = index.replacen(&format!("{}\n", line.unwrap()), "", 1);
    files.insert(INDEX.to_owned(), index.into_bytes());
    refused(&files, &[SHARD_2, SHARD_3, "in both"]);
}

#[test]
fn an_index_that_disagrees_with_the_headers_is_refused() {
    let name = "language_model.model.layers.1.input_layernorm.weight";
    let line = |shard: &str| format!("\"{name}\": \"{shard}\"");
    let files = with_index(&line(SHARD_2), &line(SHARD_3));
    refused(&files, &[name, SHARD_3, "does not list"]);
    let files = with_index(&format!("{},", line(SHARD_2)), "");
    refused(&files, &[name, SHARD_2, "not in the index"]);
    // A line about a tensor that the engine has no use for must be true as well.
    for ghost in ["vision_tower.ghost", "audio.ghost", "language_model.model.layers.99.ghost"] {
        let listed = format!("\"{ghost}\": \"{SHARD_2}\",\n{}", line(SHARD_2));
        refused(&with_index(&line(SHARD_2), &listed), &[ghost, SHARD_2, "does not list"]);
    }
    let total: u64 = plan().iter().map(PlannedShard::data_bytes).sum();
    let files = with_index(&total.to_string(), "12345");
    refused(&files, &["12345", &total.to_string()]);
}

#[test]
fn an_index_that_is_broken_is_refused_with_its_file() {
    for (index, fault) in [
        ("{", "not the JSON"),
        ("{}", "no weight_map"),
        (r#"{"weight_map": {}}"#, "empty"),
        (r#"{"weight_map": {"a": "x"}, "weight_map": {}}"#, "weight_map twice"),
        (r#"{"weight_map": {"a": "x", "a": "y"}}"#, "\"a\" twice"),
        (r#"{"weight_map": {"a": "../x"}}"#, "no plain file name"),
    ] {
        let mut files = support::files();
        files.insert(INDEX.to_owned(), index.as_bytes().to_vec());
        refused(&files, &[INDEX, fault, "fetch it again"]);
    }
}

/// It cannot be seen in an editor, and an editor put it there.
#[test]
fn a_byte_order_mark_is_named_with_its_file() {
    for file in [CONFIG, INDEX] {
        let mut files = files();
        let marked = ["\u{feff}".as_bytes(), &files[file]].concat();
        files.insert(file.to_owned(), marked);
        refused(&files, &[file, "byte order mark", "save it as UTF-8 without one"]);
    }
}

#[test]
fn the_shards_of_another_model_are_refused() {
    let mut files = files();
    let config = String::from_utf8(files[CONFIG].clone()).unwrap();
    let config = config.replace("\"num_experts\": 12", "\"num_experts\": 13");
    files.insert(CONFIG.to_owned(), config.into_bytes());
    refused(&files, &[SHARD_2, "[12]", "[13]"]);
}

/// A small configuration cannot make the catalog allocate for what it only claims.
#[test]
fn a_claim_of_a_billion_tensors_costs_nothing() {
    let mut files = files();
    let mut spec = support::spec();
    spec.moe.experts = 1 << 16;
    spec.layers = (0..1 << 12).map(|layer| support::spec().layers[1 + layer % 2]).collect();
    spec.attn_res_block = 100;
    let config = deltafin_checkpoint::write::config_json(&spec, &[7]);
    files.insert(CONFIG.to_owned(), config.into_bytes());
    let error = from_memory(&leak(&files)).unwrap_err();
    let OpenError::Several { more, .. } = error else { panic!("{error}") };
    assert!(more > 1_600_000_000, "{more}");
}

#[test]
fn inspection_lists_every_problem() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = with_plan(|shards| {
        shards[0].tensors.retain(|t| !t.name.ends_with("mlp.up_proj.weight"));
        shards[0].tensors.retain(|t| !t.name.ends_with("dt_bias"));
        tensor(shards, "layers.2.self_attn.g_proj.weight").dtype = Dtype::F16;
    });
    files.get_mut(SHARD_2).unwrap().pop();
    files.insert("generation_config.json".to_owned(), b"[]".to_vec());
    support::write_to(dir.path(), &files);
    let inspection = inspect_dir(dir.path());
    let lines: Vec<String> = inspection.problems.iter().map(ToString::to_string).collect();
    for part in ["generation_config.json", SHARD_2, "F16", "mlp.up_proj.weight", "dt_bias"] {
        assert!(lines.iter().any(|line| line.contains(part)), "{part} in {lines:#?}");
    }
    assert_eq!(lines.len(), 5, "{lines:#?}");
    assert!(inspection.checkpoint.is_none());
    let error = open_dir(dir.path()).unwrap_err().to_string();
    assert!(error.ends_with("(and 4 more problems; `deltafin inspect` lists them)"), "{error}");
}

#[test]
fn one_problem_more_is_singular() {
    let files = with_plan(|shards| {
        shards[0].tensors.retain(|t| !t.name.ends_with("mlp.up_proj.weight"));
        shards[0].tensors.retain(|t| !t.name.ends_with("dt_bias"));
    });
    refused(&files, &["(and 1 more problem; `deltafin inspect` lists them)"]);
}

#[test]
fn a_broken_configuration_is_refused_with_its_file() {
    let mut files = files();
    files.insert(CONFIG.to_owned(), b"{}".to_vec());
    refused(&files, &[CONFIG, "model_type is missing"]);
    files.remove(CONFIG);
    refused(&files, &[CONFIG, "missing"]);
    files.remove(INDEX);
    refused(&files, &[CONFIG]);
}
