//! `run` on the built-in demo.

use deltafin_testkit::{DemoGolden, Golden};
use serde_json::json;

use crate::program::{Ran, command, deltafin, deltafin_on, fixture, line, list, ran, spawn};

const FRANCE: &str = "The capital of France is";
const PARIS: &str = include_str!("../../../demo/expected/capital-of-france.txt");

#[test]
fn the_first_command_of_the_readme() {
    let run = deltafin(&["run", "--prompt", FRANCE]);
    assert_eq!(
        run.said(),
        "deltafin: model: the built-in demo (no --model given, none installed)\n"
    );
    assert_eq!(run.ok().trim_end(), PARIS.trim_end());
}

#[test]
fn golden_ids_with_and_without_stop_tokens() {
    for prompt in DemoGolden::load().prompts {
        let ids = list(&prompt.ids);
        let args = ["run", "--model", "demo", "--prompt-ids", &ids, "--ids", "--max-new", "48"];
        let all = deltafin(&[&args[..], &["--ignore-eos"]].concat());
        assert_eq!(all.ok(), line(&prompt.greedy), "{}", prompt.name);
        let until_stop = &prompt.greedy[..prompt.eos_at.unwrap_or(prompt.greedy.len())];
        assert_eq!(deltafin(&args).ok(), line(until_stop), "{}", prompt.name);
    }
}

#[test]
fn golden_ids_of_a_checkpoint_directory() {
    let directory = fixture("k3-micro");
    for prompt in Golden::load("k3-micro").prompts {
        let ids = list(&prompt.ids);
        let args = ["run", "--model", &directory, "--prompt-ids", &ids, "--ids", "--max-new", "32"];
        let all = deltafin(&[&args[..], &["--ignore-eos"]].concat());
        assert_eq!(all.ok(), line(&prompt.greedy), "{}", prompt.name);
        let until_stop = &prompt.greedy[..prompt.eos_at.unwrap_or(prompt.greedy.len())];
        assert_eq!(deltafin(&args).ok(), line(until_stop), "{}", prompt.name);
    }
}

/// Settings alter time, never tokens.
#[test]
fn switches_are_neutral() {
    let args = ["run", "--model", "demo", "--prompt", FRANCE, "--ids", "--max-new", "24"];
    let wanted = deltafin(&args).ok();
    for setting in [
        &["--threads", "1"][..],
        &["--threads", "3"],
        &["--isa", "scalar"],
        &["--chunk", "1"],
        &["--chunk", "4"],
        &["--context", "1K"],
        &["--allow-sleep"],
    ] {
        assert_eq!(deltafin(&[&args[..], setting].concat()).ok(), wanted, "{setting:?}");
    }
}

#[test]
fn a_prompt_comes_from_standard_input() {
    let args = ["run", "--model", "demo", "--prompt", "-", "--max-new", "12"];
    let wanted = deltafin(&["run", "--model", "demo", "--prompt", FRANCE, "--max-new", "12"]).ok();
    for input in [FRANCE.to_owned(), format!("{FRANCE}\n"), format!("{FRANCE}\r\n")] {
        assert_eq!(deltafin_on(&input, &args).ok(), wanted, "{input:?}");
    }
    // Only one line end is the terminal's; another is the writer's.
    assert_ne!(deltafin_on(&format!("{FRANCE}\n\n"), &args).ok(), wanted);
}

#[test]
fn a_prompt_may_begin_with_a_hyphen() {
    deltafin(&["run", "--model", "demo", "--prompt", "-5 + 3 =", "--max-new", "1"]).ok();
    deltafin(&["run", "--model", "demo", "--prompt", "--prompt", "--max-new", "1"]).ok();
}

#[test]
fn ids_come_from_files_and_standard_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let wanted = deltafin(&["run", "--prompt-ids", "298,393,306", "--ids", "--max-new", "3"]).ok();
    for (name, text) in [
        ("lines.txt", "298\n393\n306\n"),
        ("spaces é.txt", " 298 393\t306"),
        ("list.json", "[298, 393,306]"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        let path = path.to_str().expect("UTF-8");
        let run = deltafin(&["run", "--prompt-ids", path, "--ids", "--max-new", "3"]);
        assert_eq!(run.ok(), wanted, "{name}");
    }
    let args = ["run", "--prompt-ids", "-", "--ids", "--max-new", "3"];
    assert_eq!(deltafin_on("298, 393, 306\n", &args).ok(), wanted);
}

/// With ids in and ids out nobody needs a tokenizer; with text, its absence is named.
#[test]
fn ids_need_no_tokenizer() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = deltafin_testkit::fixture("k3-micro");
    for file in std::fs::read_dir(from).expect("the fixture") {
        let file = file.expect("an entry");
        if !file.file_name().to_string_lossy().starts_with("tok")
            && file.file_name() != "tiktoken.model"
        {
            std::fs::copy(file.path(), folder.path().join(file.file_name())).expect("copied");
        }
    }
    let model = folder.path().to_str().expect("UTF-8");
    let ids =
        deltafin(&["run", "--model", model, "--prompt-ids", "1,2", "--ids", "--max-new", "3"]);
    assert_eq!(ids.ok().split(' ').count(), 3);
    let json =
        deltafin(&["run", "--model", model, "--prompt-ids", "1", "--json", "--max-new", "2"]);
    assert_eq!(json.json()["text"], json!(null));
    let text = deltafin(&["run", "--model", model, "--prompt-ids", "1,2"]).refusal();
    assert!(text.contains("no tiktoken.model") && text.contains("--ids"), "{text}");
}

#[test]
fn nothing_to_generate_is_not_a_fault() {
    let args = ["run", "--model", "demo", "--prompt", FRANCE, "--max-new", "0"];
    assert_eq!(deltafin(&args).ok(), "\n");
    assert_eq!(deltafin(&[&args[..], &["--ids"]].concat()).ok(), "\n");
}

#[test]
fn json_is_one_object_with_everything() {
    let args = ["run", "--model", "demo", "--prompt", FRANCE, "--max-new", "3"];
    let run = deltafin(&[&args[..], &["--json"]].concat());
    assert_eq!(run.said(), "");
    let object = run.json();
    let ids = deltafin(&[&args[..], &["--ids"]].concat()).ok();
    let printed: Vec<String> =
        object["ids"].as_array().expect("ids").iter().map(ToString::to_string).collect();
    assert_eq!(printed.join(" ") + "\n", ids);
    assert_eq!(format!("{}\n", object["text"].as_str().expect("text")), deltafin(&args).ok());
    for args in [&args[..], &["run", "--model", "demo", "--chat", "--prompt", "Hello!"]] {
        let only_ids = deltafin(&[args, &["--ids", "--json"]].concat()).json();
        let both = deltafin(&[args, &["--json"]].concat()).json();
        assert!(only_ids["text"].is_null() && both["text"].is_string(), "{only_ids}");
        assert_eq!((&only_ids["ids"], &only_ids["finish"]), (&both["ids"], &both["finish"]));
    }
    assert_eq!(object["finish"], "length");
    let stats = &object["stats"];
    assert_eq!((&stats["prompt_tokens"], &stats["new_tokens"]), (&json!(6), &json!(3)));
    for name in ["recipe", "device", "sampling", "isa"] {
        assert!(stats[name].is_string(), "{name}: {stats}");
    }
    for name in ["threads", "peak_memory_bytes", "prefill_tokens_per_second", "first_token_seconds"]
    {
        assert!(stats[name].is_number(), "{name}: {stats}");
    }
}

#[test]
fn stats_go_to_standard_error() {
    let args = ["run", "--model", "demo", "--prompt", FRANCE, "--max-new", "3"];
    let Ran { out, err, .. } = deltafin(&[&args[..], &["--stats", "--isa", "scalar"]].concat());
    assert_eq!(out, deltafin(&args).ok());
    for word in ["prefill", "decode", "first token", "peak memory", "bf16", "scalar", "threads"] {
        assert!(err.contains(word), "{word}: {err}");
    }
}

/// On a pipe the answer is alone; the reasoning is not lost, JSON has it.
#[test]
fn a_reply_is_its_answer() {
    let moons = "What are the three largest moons of Saturn?";
    let args = ["run", "--model", "demo", "--chat", "--prompt", moons];
    let run = deltafin(&args);
    assert_eq!(run.said(), "");
    assert_eq!(run.ok(), "Titan, Rhea and Iapetus.\n");
    let object = deltafin(&[&args[..], &["--json"]].concat()).json();
    assert_eq!(object["text"], "Titan, Rhea and Iapetus.");
    assert_eq!(object["finish"], "stop");
    let reasoning = object["reasoning_content"].as_str().expect("a string");
    assert!(reasoning.starts_with("The user asks about"), "{reasoning}");
    let text = object.to_string();
    assert!(!text.contains("<|"), "markup in {text}");
}

#[test]
fn style_reaches_the_prompt() {
    let tokens = |args: &[&str]| {
        let args =
            [&["run", "--model", "demo", "--json", "--chat", "--prompt", "Hi"], args].concat();
        deltafin(&args).json()["stats"]["prompt_tokens"].as_u64().expect("a count")
    };
    let plain = tokens(&[]);
    assert_eq!(tokens(&["--effort", "max"]), plain);
    assert!(tokens(&["--no-thinking"]) < plain);
    assert!(tokens(&["--system", "Be brief."]) > plain);
    let off = ["run", "--model", "demo", "--chat", "--no-thinking", "--json", "--prompt"];
    let object = deltafin(&[&off[..], &["What is the capital of Japan?"]].concat()).json();
    assert_eq!(object["reasoning_content"], "");
    assert!(object["text"].as_str().is_some_and(|text| text.contains("Tokyo")), "{object}");
}

#[test]
fn a_full_context_is_said() {
    let args = ["run", "--model", "demo", "--prompt", FRANCE, "--ignore-eos", "--context", "16"];
    let run = deltafin(&[&args[..], &["--ids"]].concat());
    assert_eq!(run.said(), "deltafin: the context is full; --context makes it longer\n");
    assert_eq!(run.ok().split(' ').count(), 16 - 6 + 1);
    let asked = deltafin(&[&args[..], &["--max-new", "2"]].concat());
    assert_eq!(asked.said(), "");
}

/// Whoever reads may stop reading.
#[test]
fn a_closed_pipe_is_a_quiet_end() {
    use std::io::Read as _;
    let args = ["run", "--model", "demo", "--prompt", FRANCE, "--ignore-eos", "--max-new", "3000"];
    for more in [&["--max-new", "3000"][..0], &["--ids"]] {
        let mut child = spawn(command().args(args).args(more));
        let mut first = [0; 3];
        let mut stdout = child.stdout.take().expect("piped");
        stdout.read_exact(&mut first).expect("three bytes");
        drop(stdout);
        let run = ran(child.wait_with_output().expect("ends"));
        assert_eq!((run.code, run.said().as_str()), (Some(0), ""));
    }
}
