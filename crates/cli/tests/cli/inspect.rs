//! `inspect`: whole checkpoints, and what is wrong with others.

use std::fs;

use crate::program::{command, deltafin, fixture, linked, ran};

#[test]
fn the_demo_is_whole() {
    let text = deltafin(&["inspect", "demo"]).ok();
    for words in
        ["9: 6 kda and 3 mla", "32 per layer, 4 chosen", "2048 ranks", "problems      none"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_directory_is_described_for_machines() {
    let object = deltafin(&["inspect", &fixture("k3-micro"), "--json"]).json();
    assert_eq!(object["problems"], serde_json::json!([]));
    let checkpoint = &object["checkpoint"];
    assert_eq!(checkpoint["dimensions"]["vocab"], 512);
    assert_eq!(checkpoint["layers"].as_array().map(Vec::len), Some(9));
    assert_eq!(checkpoint["stop_ids"], serde_json::json!([258]));
    let bytes = checkpoint["bytes"].as_object().expect("sizes");
    let parts: u64 =
        bytes.iter().filter(|(k, _)| *k != "files").filter_map(|(_, v)| v.as_u64()).sum();
    assert_eq!(Some(parts), bytes["files"].as_u64());
}

/// The flag that other commands have works where a name alone does.
#[test]
fn a_model_is_named_by_place_or_by_flag_and_once() {
    let model = fixture("k3-micro");
    for name in ["inspect", "verify"] {
        let by_place = deltafin(&[name, &model]);
        let by_flag = deltafin(&[name, "--model", &model]);
        assert_eq!((by_flag.code, &by_flag.err), (Some(0), &by_place.err), "{by_flag:?}");
        assert_eq!(by_flag.out, by_place.out);
        let said = deltafin(&[name, &model, "--model", &model]).usage();
        assert!(said.contains("name the model once"), "{said}");
        // What is typed goes before the environment, either way.
        for typed in [&[name, &model][..], &[name, "--model", &model]] {
            let mut run = command_in("/no/such", typed);
            let run = ran(run.output().expect("runs"));
            assert_eq!((run.code, &run.err), (Some(0), &by_place.err), "{run:?}");
        }
        let run = ran(command_in(&model, &[name]).output().expect("runs"));
        assert_eq!((run.code, &run.out), (Some(0), &by_place.out), "{run:?}");
        assert!(run.err.contains("(DELTAFIN_MODEL)"), "{run:?}");
    }
}

fn command_in(model: &str, args: &[&str]) -> std::process::Command {
    let mut run = command();
    run.args(args).env("DELTAFIN_MODEL", model);
    run
}

#[test]
fn all_problems_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    let run = deltafin(&["inspect", path]);
    assert_eq!(run.code, Some(1));
    assert!(run.out.contains("problems      2"), "{run:?}");
    assert!(run.out.contains("config.json") && run.out.contains("model.safetensors"), "{run:?}");
    let run = deltafin(&["inspect", path, "--json"]);
    assert_eq!(run.code, Some(1));
    let object: serde_json::Value = serde_json::from_str(&run.out).expect("JSON");
    assert_eq!(object["problems"].as_array().map(Vec::len), Some(2));
    assert!(object["checkpoint"].is_null());
}

/// A copy of the miniature checkpoint.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for file in std::fs::read_dir(deltafin_testkit::fixture("k3-micro")).expect("the fixture") {
        let file = file.expect("an entry");
        std::fs::copy(file.path(), folder.path().join(file.file_name())).expect("copied");
    }
    folder
}

/// One wrong number makes a problem of every tensor: a few are shown, machines get all of them.
#[test]
fn problems_that_are_alike_are_summed_up() {
    let folder = copy();
    let path = folder.path().join("config.json");
    let config = std::fs::read_to_string(&path).expect("read");
    let mut config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    let width = config["text_config"]["hidden_size"].as_u64().expect("a width");
    config["text_config"]["hidden_size"] = (2 * width).into();
    std::fs::remove_file(&path).expect("removed");
    std::fs::write(&path, config.to_string()).expect("written");
    let model = folder.path().to_str().expect("UTF-8");

    let object = deltafin(&["inspect", model, "--json"]);
    let object: serde_json::Value = serde_json::from_str(&object.out).expect("JSON");
    let count = object["problems"].as_array().map_or(0, Vec::len);
    assert!(count > 100, "{object}");
    let text = deltafin(&["inspect", model]).out;
    assert!(text.contains(&format!("problems      {count}\n")), "{text}");
    assert!(text.contains(&format!("… and {} more like these", count - 5)), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("has shape")).count(), 5, "{text}");
    assert!(text.contains("config.json") && text.contains("fetch"), "{text}");
}

#[test]
fn a_cut_shard_is_named() {
    let folder = copy();
    let shard = folder.path().join("model-00003-of-000012.safetensors");
    let bytes = std::fs::read(&shard).expect("read");
    std::fs::remove_file(&shard).expect("removed");
    std::fs::write(&shard, &bytes[..bytes.len() - 100]).expect("cut");
    std::fs::write(folder.path().join("tiktoken.model"), "nonsense").ok();
    let path = folder.path().to_str().expect("UTF-8");
    let run = deltafin(&["inspect", path]);
    assert_eq!(run.code, Some(1));
    assert!(run.out.contains("model-00003-of-000012.safetensors"), "{run:?}");
    let refused = deltafin(&["run", "--model", path, "--prompt-ids", "1", "--ids"]).refusal();
    assert!(refused.contains("model-00003-of-000012.safetensors"), "{refused}");
}

#[test]
fn a_broken_tokenizer_is_a_problem() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in std::fs::read_dir(deltafin_testkit::fixture("k3-micro")).expect("the fixture") {
        let file = file.expect("an entry");
        if file.file_name() != "tiktoken.model" {
            std::fs::copy(file.path(), folder.path().join(file.file_name())).expect("copied");
        }
    }
    std::fs::write(folder.path().join("tiktoken.model"), "nonsense").expect("written");
    let run = deltafin(&["inspect", folder.path().to_str().expect("UTF-8")]);
    assert_eq!(run.code, Some(1));
    assert!(run.out.contains("problems      1"), "{run:?}");
}

#[test]
fn packs_are_told_with_their_size_and_whose_they_are() {
    let (folder, model) = linked();
    let text = deltafin(&["inspect", &model]).ok();
    assert!(!text.contains("\npack "), "{text}");
    deltafin(&["convert", "--spine", "int8", "--model", &model]).ok();
    let text = deltafin(&["inspect", &model]).ok();
    assert!(text.contains("pack          int8, ") && text.contains("of these weights"), "{text}");
    let object = deltafin(&["inspect", &model, "--json"]).json();
    let pack = &object["checkpoint"]["packs"][0];
    assert_eq!((&pack["recipe"], &pack["usable"]), (&"int8".into(), &true.into()));
    assert!(pack["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{pack}");

    // What a stopped conversion leaves is no fault.
    fs::create_dir(folder.path().join("spine-bf16")).expect("a folder");
    let text = deltafin(&["inspect", &model]).ok();
    assert!(text.contains("bf16, unfinished"), "{text}");
    fs::remove_dir(folder.path().join("spine-bf16")).expect("removed");
    // One of another recipe is, and so is one that was damaged.
    fs::rename(folder.path().join("spine-int8"), folder.path().join("spine-bf16")).expect("moved");
    let run = deltafin(&["inspect", &model]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.out.contains("recipe int8 where bf16 is looked for"), "{run:?}");
    fs::rename(folder.path().join("spine-bf16"), folder.path().join("spine-int8")).expect("moved");
    let file = folder.path().join("spine-int8/layer-001.spine");
    fs::write(&file, &fs::read(&file).expect("read")[..4096]).expect("cut");
    let run = deltafin(&["inspect", &model]);
    assert!(run.out.contains("layer-001.spine: 4096 bytes, the manifest says"), "{run:?}");
}
