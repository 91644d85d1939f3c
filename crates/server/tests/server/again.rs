//! The same request, again: the same text, and as much reused as is told.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::demo::{ask, serve, serve_as, user};
use crate::script::quick;
use crate::wire::post;

fn cached(reply: &Value) -> u64 {
    reply["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect("told")
}

fn prompt_tokens(reply: &Value) -> u64 {
    reply["usage"]["prompt_tokens"].as_u64().expect("told")
}

/// What has to agree: the message and the probabilities of its tokens, to the last bit.
fn said(reply: &Value) -> (Value, Value) {
    let choice = &reply["choices"][0];
    (choice["message"].clone(), choice["logprobs"].clone())
}

fn talk() -> Value {
    json!([
        { "role": "system", "content": "You are a helpful assistant." },
        user("What is the capital of France?"),
        { "role": "assistant", "content": "The capital of France is Paris." },
        user("What is 47 + 38?"),
    ])
}

fn answer(at: SocketAddr) -> Value {
    ask(at, talk(), json!({ "logprobs": true, "top_logprobs": 5 }))
}

/// The same, put together from the pieces of a stream.
fn streamed(at: SocketAddr) -> (Value, Value) {
    let body = json!({ "messages": talk(), "stream": true, "logprobs": true, "top_logprobs": 5 });
    let events = post(at, "/v1/chat/completions", &body).events();
    let choices = || events.iter().map(|event| &event["choices"][0]);
    let text = |name: &str| -> String {
        choices().filter_map(|choice| choice["delta"][name].as_str()).collect()
    };
    let tokens = |name: &str| -> Vec<Value> {
        let lists = choices().filter_map(|choice| choice["logprobs"][name].as_array());
        lists.flatten().cloned().collect()
    };
    let message = json!({
        "role": "assistant", "content": text("content"), "reasoning_content": text("reasoning_content"),
        "reasoning": text("reasoning"), "refusal": null,
    });
    let logprobs = json!({
        "content": tokens("content"), "refusal": null, "reasoning_content": tokens("reasoning_content"),
    });
    (message, logprobs)
}

/// Whole, streamed, after itself, after an unrelated conversation, after one that was left in the middle,
/// after a restart, and from cold.
#[test]
fn the_same_prompt_gives_the_same_text_whatever_came_before() {
    let cold = {
        let (_server, at) = serve();
        answer(at)
    };
    assert_eq!(cached(&cold), 0);
    let folder = tempfile::tempdir().expect("a folder");
    let (server, at, writes) = serve_as(quick(), Some(folder.path()));
    let check = |at: SocketAddr, wanted: u64| {
        let reply = answer(at);
        assert_eq!(said(&reply), said(&cold));
        assert_eq!(cached(&reply), wanted);
    };
    let all = prompt_tokens(&cold);
    check(at, 0);
    check(at, all);
    assert_eq!(streamed(at), said(&cold));
    ask(at, json!([user("Tell me something else entirely.")]), json!({ "max_tokens": 20 }));
    check(at, all);
    let mut left = post(at, "/v1/chat/completions", &json!({ "messages": talk(), "stream": true }));
    left.chunk();
    left.chunk();
    left.leave();
    check(at, all);
    assert!(writes.expect("a folder").finish_within(Duration::from_secs(60)));
    server.shut_down();
    let (_server, at, _) = serve_as(quick(), Some(folder.path()));
    check(at, all);
}

/// What was thought is left out of the history by many clients.
#[test]
fn a_client_that_drops_the_reasoning_still_goes_on_from_before_the_reply() {
    let (_server, at) = serve();
    let question = user("What is the capital of France?");
    let first = ask(at, json!([question]), json!({}));
    let message = &first["choices"][0]["message"];
    assert!(message["reasoning_content"].as_str().is_some_and(|text| !text.is_empty()));
    let bare = json!({ "role": "assistant", "content": message["content"] });
    let talk = json!([question, bare, user("And Norway?")]);
    let second = ask(at, talk.clone(), json!({}));
    assert_eq!(cached(&second), prompt_tokens(&first));
    let (_server, at) = serve();
    let fresh = ask(at, talk, json!({}));
    assert_eq!((said(&fresh), cached(&fresh)), (said(&second), 0));
}

#[test]
fn conversations_take_turns_without_losing_each_other() {
    let (_server, at) = serve();
    let questions = ["What is 2 + 3?", "What is the capital of France?", "Name a colour."];
    let mut talks = questions.map(|question| vec![user(question)]);
    for round in 0..3 {
        for talk in &mut talks {
            let reply = ask(at, json!(talk), json!({ "max_tokens": 60 }));
            // Nothing of what was said before is computed again.
            let least = if round == 0 { 0 } else { prompt_tokens(&reply) / 2 };
            assert!(cached(&reply) >= least, "{} of {}", cached(&reply), prompt_tokens(&reply));
            talk.push(reply["choices"][0]["message"].clone());
            talk.push(user("And?"));
        }
    }
}

#[test]
fn a_text_that_is_asked_for_again_is_not_taken_in_again() {
    let (_server, at) = serve();
    let body = json!({ "prompt": "The capital of France is", "max_tokens": 3 });
    let [first, second] = [(); 2].map(|()| post(at, "/v1/completions", &body).json());
    assert_eq!(first["choices"][0]["text"], second["choices"][0]["text"]);
    assert_eq!(cached(&first), 0);
    assert_eq!(cached(&second), prompt_tokens(&second) - 1);
}
