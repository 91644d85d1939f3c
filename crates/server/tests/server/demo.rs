//! The real backend, on the demo model.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;

use deltafin_engine::{Engine, EngineOptions, FolderOptions, SnapshotMemory, Writes};
use deltafin_server::{EngineBackend, Server, Settings};
use deltafin_text::chat::Turns;
use serde_json::{Value, json};

use crate::script::{quick, start_unloaded, tokenizer};
use crate::wire::{get, post};

pub(crate) fn serve() -> (Server, SocketAddr) {
    serve_with(quick())
}

fn serve_with(settings: Settings) -> (Server, SocketAddr) {
    let (server, at, _) = serve_as(settings, None);
    (server, at)
}

/// With snapshots in a folder, if there is one.
pub(crate) fn serve_as(
    settings: Settings,
    folder: Option<&Path>,
) -> (Server, SocketAddr, Option<Writes>) {
    let (server, at) = start_unloaded(settings);
    let checkpoint = deltafin_store::from_memory(deltafin_demo::FILES).expect("carried");
    let context = NonZeroUsize::new(1024);
    let snapshots = SnapshotMemory::Bytes(64 << 20);
    let options = EngineOptions { context, snapshots, ..Default::default() };
    let engine = Engine::open(checkpoint, options).expect("opens");
    if let Some(path) = folder {
        let folder = FolderOptions { path: path.to_owned(), bytes: 64 << 20 };
        engine.keep_snapshots_in(folder, |line| panic!("{line}")).expect("keeps");
    }
    let writes = engine.snapshot_writes();
    let stop_ids = [engine.stop_ids(), &tokenizer().stop_ids()].concat();
    let turns = Turns::of(&tokenizer());
    let backend = EngineBackend::start(
        engine,
        stop_ids,
        turns,
        "fp_demo".to_owned(),
        Default::default(),
        Default::default(),
    );
    server.ready(tokenizer(), backend.expect("starts"));
    (server, at, writes)
}

pub(crate) fn ask(at: SocketAddr, messages: Value, more: Value) -> Value {
    let mut body = more;
    body["messages"] = messages;
    post(at, "/v1/chat/completions", &body).json()
}

pub(crate) fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

#[test]
fn it_answers_and_plain_equals_stream() {
    let (_server, at) = serve();
    let question = json!([user("What is 47 + 38?")]);
    let whole = ask(at, question.clone(), json!({ "seed": 1, "temperature": 1.5 }));
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"], "47 + 38 = 85.");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    let body = json!({ "messages": question, "stream": true, "stream_options": { "include_usage": true } });
    let events = post(at, "/v1/chat/completions", &body).events();
    let text = |name: &str| -> String {
        let deltas = events.iter().filter_map(|event| event["choices"][0]["delta"][name].as_str());
        deltas.collect()
    };
    assert_eq!(json!(text("content")), message["content"]);
    assert_eq!(json!(text("reasoning_content")), message["reasoning_content"]);
    let mut usage = events[events.len() - 2]["usage"].clone();
    // All of it but the opening of the reply, which is no part of what is counted.
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]);
    assert_eq!(whole["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    usage["prompt_tokens_details"] = whole["usage"]["prompt_tokens_details"].clone();
    assert_eq!(usage, whole["usage"]);
}

#[test]
fn a_conversation_goes_on_where_it_was() {
    let (_server, at) = serve();
    let first = ask(at, json!([user("What is the capital of France?")]), json!({}));
    let usage = &first["usage"];
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 0);
    let told = usage["total_tokens"].as_u64().unwrap() + 3;
    let said = first["choices"][0]["message"].clone();
    let talk = json!([user("What is the capital of France?"), said, user("And Norway?")]);
    let second = ask(at, talk.clone(), json!({}));
    // All that was taken in, and the last token's pass was never needed.
    assert_eq!(second["usage"]["prompt_tokens_details"]["cached_tokens"], told - 1);
    // A fresh server says the same without the reuse.
    let (_server, at) = serve();
    let fresh = ask(at, talk, json!({}));
    assert_eq!(fresh["choices"][0]["message"], second["choices"][0]["message"]);
    assert_eq!(fresh["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

#[test]
fn it_calls_a_tool_and_reads_the_result() {
    let (_server, at) = serve();
    let city = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let function = json!({ "name": "get_weather", "description": "Get the current weather for a city", "parameters": city });
    let options = json!({ "reasoning_effort": "low", "tools": [{ "type": "function", "function": function }] });
    let question = user("What is the weather in Paris?");
    let reply = ask(at, json!([question]), options.clone());
    let choice = &reply["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(
        call["function"],
        json!({ "name": "get_weather", "arguments": "{\"city\": \"Paris\"}" })
    );
    let result =
        json!({ "role": "tool", "tool_call_id": call["id"], "content": "rainy, 12 degrees" });
    let reply = ask(at, json!([question, choice["message"], result]), options);
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    assert!(reply["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() > 100);
}

#[test]
fn it_answers_in_json_and_calls_what_it_must() {
    let (_server, at) = serve();
    let schema = json!({ "type": "object", "properties": { "answer": { "type": "integer" } }, "required": ["answer"], "additionalProperties": false });
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "sum", "schema": schema } });
    let question = json!([user("What is 47 + 38?")]);
    let reply = ask(at, question.clone(), json!({ "response_format": format }));
    let content = reply["choices"][0]["message"]["content"].as_str().unwrap();
    let answer: Value = serde_json::from_str(content).unwrap();
    assert!(answer["answer"].is_number(), "{content}");
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");

    let city = json!({ "type": "object", "properties": { "city": { "type": "string", "maxLength": 20 } }, "required": ["city"] });
    let function = json!({ "name": "get_weather", "parameters": city });
    let options = json!({ "tools": [{ "type": "function", "function": function }], "tool_choice": "required", "parallel_tool_calls": false });
    let reply = ask(at, question, options);
    let call = &reply["choices"][0]["message"]["tool_calls"][0]["function"];
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert!(call["name"] == "get_weather" && arguments["city"].is_string(), "{reply}");
}

#[test]
fn stops_and_limits() {
    let (_server, at) = serve();
    let question = json!([user("What is the capital of France?")]);
    let whole = ask(at, question.clone(), json!({ "thinking": false }));
    let content = whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let at_paris = content.find("Paris").expect("it knows");
    let cut = ask(at, question.clone(), json!({ "thinking": false, "stop": ["Paris"] }));
    assert_eq!(cut["choices"][0]["message"]["content"], content[..at_paris]);
    assert_eq!(cut["choices"][0]["finish_reason"], "stop");
    let short = ask(at, question, json!({ "thinking": false, "max_tokens": 2 }));
    assert_eq!(short["choices"][0]["finish_reason"], "length");
    assert_eq!(short["usage"]["completion_tokens"], 2);
}

#[test]
fn what_the_engine_moves_is_counted() {
    let (_server, at) = serve();
    let count = |name: &str| -> u64 {
        let page = get(at, "/metrics", "").text();
        let line = page.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.unwrap_or_else(|| panic!("{name}: {page}")).trim().parse().expect("a number")
    };
    let names = ["deltafin_read_bytes_total ", "deltafin_expert_misses_total "];
    assert_eq!(names.map(count), [0, 0]);
    post(at, "/v1/completions", &json!({ "prompt": "The capital", "max_tokens": 8 })).json();
    assert!(names.map(count).iter().all(|count| *count > 0), "{:?}", names.map(count));
    // All weights stay in memory: what was used once is found there.
    assert!(count("deltafin_expert_hits_total ") > 0);
}

#[test]
fn a_text_goes_on() {
    let (_server, at) = serve();
    let body = json!({ "prompt": "The capital of France is", "max_tokens": 3 });
    let reply = post(at, "/v1/completions", &body).json();
    assert!(reply["choices"][0]["text"].as_str().unwrap().starts_with(" Paris"), "{reply}");
}

/// Logits are bit-equal on every machine, and so is what is drawn from them.
#[test]
fn a_seed_gives_the_text_it_gives_everywhere() {
    let (_server, at) = serve_with(Settings { allow_sampling: true, ..quick() });
    let story = json!({ "prompt": "Once upon a time", "temperature": 1.5, "top_p": 0.95, "seed": 11, "max_tokens": 24 });
    let reply = post(at, "/v1/completions", &story).json();
    assert_eq!(reply["choices"][0]["text"], RECORDED_STORY);
    assert_eq!(reply["system_fingerprint"], "fp_demo_sampled");
}

const RECORDED_STORY: &str =
    ", there was a curious girl named Anna. Anna was always busy. Small clouds moved across the";

#[test]
fn logprobs_are_those_of_the_model() {
    let (_server, at) = serve();
    let body = json!({ "thinking": false, "logprobs": true, "top_logprobs": 20 });
    let reply = ask(at, json!([user("What is the capital of France?")]), body);
    let tokens = reply["choices"][0]["logprobs"]["content"].as_array().unwrap().clone();
    let text: String = tokens.iter().map(|token| token["token"].as_str().unwrap()).collect();
    assert_eq!(reply["choices"][0]["message"]["content"], text);
    for token in tokens {
        // Greedy: the token is the likeliest one, and twenty of them are no more than everything.
        let top = token["top_logprobs"].as_array().unwrap();
        assert_eq!(top[0]["token"], token["token"]);
        let sum: f64 = top.iter().map(|one| one["logprob"].as_f64().unwrap().exp()).sum();
        assert!((0.5..=1.0 + 1e-9).contains(&sum), "{sum}");
    }
}
