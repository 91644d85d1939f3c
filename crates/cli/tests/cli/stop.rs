//! Where a text ends when no tokenizer is there to name the tokens that end one.

use deltafin_testkit::{Golden, Prompt};
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Ran, deltafin, fixture, line, list};

/// The miniature checkpoint without a tokenizer. `generation` is what stands in its
/// `generation_config.json`, if it has one; its `config.json` names no stop id.
fn without_tokenizer(generation: Option<&str>) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(fixture("k3-micro")).expect("the fixture") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        if name.ends_with(".safetensors") || name.ends_with("index.json") {
            std::os::unix::fs::symlink(&path, folder.path().join(name)).expect("a link");
        }
    }
    let config = std::fs::read(deltafin_testkit::fixture("k3-micro").join("config.json"));
    let mut config: Value = serde_json::from_slice(&config.expect("read")).expect("JSON");
    for object in ["", "/text_config"] {
        let object = config.pointer_mut(object).and_then(Value::as_object_mut);
        object.expect("an object").remove("eos_token_id");
    }
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
    if let Some(generation) = generation {
        let path = folder.path().join("generation_config.json");
        std::fs::write(path, generation).expect("written");
    }
    folder
}

/// A prompt whose continuation comes to a stop id, and where it does.
fn ending() -> (Prompt, usize) {
    let prompts = Golden::load("k3-micro").prompts.into_iter();
    let mut ending = prompts.filter_map(|prompt| prompt.eos_at.map(|at| (prompt, at)));
    ending.next().expect("one that ends")
}

/// Generates as many ids as were recorded, if nothing ends it before.
fn run(folder: &TempDir, prompt: &Prompt, more: &[&str]) -> Ran {
    let (model, ids) = (folder.path().to_str().expect("UTF-8"), list(&prompt.ids));
    let most = prompt.greedy.len().to_string();
    let args = ["run", "--model", model, "--prompt-ids", &ids, "--ids", "--max-new", &most];
    deltafin(&[&args[..], more].concat())
}

#[test]
fn the_generation_s_configuration_is_enough() {
    let (prompt, at) = ending();
    let stop = prompt.greedy[at];
    let folder = without_tokenizer(Some(&format!("{{\"eos_token_id\": [{stop}]}}")));
    let run = run(&folder, &prompt, &[]);
    assert_eq!(run.said(), "");
    assert_eq!(run.ok(), line(&prompt.greedy[..at]));
}

/// A text that goes on where it should end looks like a fault of the model.
#[test]
fn a_text_that_nothing_ends_is_announced_once() {
    let (prompt, _) = ending();
    for folder in [without_tokenizer(None), without_tokenizer(Some("{}"))] {
        let endless = run(&folder, &prompt, &[]);
        let said = endless.said();
        assert!(said.starts_with("deltafin: stop: no id is known") && said.lines().count() == 1);
        assert_eq!(endless.ok(), line(&prompt.greedy));
        // Whoever asks for it knows.
        assert_eq!(run(&folder, &prompt, &["--ignore-eos"]).said(), "");
        // What is refused is refused in one line.
        let line = run(&folder, &prompt, &["--context", "1"]).refusal();
        assert!(line.contains("does not fit"), "{line}");
    }
}
