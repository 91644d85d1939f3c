//! What a server may be told about all requests.

use std::time::Duration;

use deltafin_server::{ReasoningField, Settings};
use deltafin_text::Effort;
use serde_json::{Value, json};

use crate::script::{Act, early_status, quick, start_with};
use crate::wire::{chat, post};

const THINK_THEN_SAY: [Act; 2] =
    [Act::Say("Hm<|close|>think<|sep|><|open|>response<|sep|>Yes"), Act::Stop];

#[test]
fn efforts_that_nobody_gives_are_the_server_s() {
    let count = |effort: Option<Effort>, path: &str, body: &Value| {
        let rig = start_with(Settings { default_effort: effort, ..quick() }, &THINK_THEN_SAY);
        let mut response = post(rig.at, path, body);
        let status = response.status;
        assert_eq!(status, 200, "{}", response.text());
        let prompt = rig.log.prompt.lock().unwrap().clone();
        crate::script::tokenizer().text(&prompt).unwrap()
    };
    let talk = json!([{ "role": "user", "content": "Hi" }]);
    for (path, body, off, low) in [
        (
            "/v1/chat/completions",
            json!({ "messages": talk }),
            json!({ "messages": talk, "thinking": false }),
            json!({ "messages": talk, "reasoning_effort": "low" }),
        ),
        (
            "/v1/responses",
            json!({ "input": talk }),
            json!({ "input": talk, "reasoning": { "effort": "none" } }),
            json!({ "input": talk, "reasoning": { "effort": "low" } }),
        ),
    ] {
        let max = Some(Effort::Max);
        let wanted = [&body, &off, &low].map(|body| count(max, path, body));
        let told = [max, None, Some(Effort::Low)].map(|usual| count(usual, path, &body));
        assert_eq!(told, wanted, "{path}");
        assert_ne!(told[0], told[1]);
        // Who says something is listened to.
        assert_eq!(count(None, path, &low), wanted[2], "{path}");
    }
}

#[test]
fn reasoning_has_the_names_it_is_given() {
    for (field, names) in [
        (ReasoningField::Both, &["reasoning_content", "reasoning"][..]),
        (ReasoningField::ReasoningContent, &["reasoning_content"]),
        (ReasoningField::Reasoning, &["reasoning"]),
        (ReasoningField::None, &[]),
    ] {
        let settings = Settings { reasoning_field: field, ..quick() };
        let rig = start_with(settings, &THINK_THEN_SAY);
        let message =
            chat(rig.at, json!({ "thinking": true })).json()["choices"][0]["message"].clone();
        let events = chat(rig.at, json!({ "thinking": true, "stream": true })).events();
        for name in ["reasoning_content", "reasoning"] {
            let deltas =
                events.iter().filter_map(|event| event["choices"][0]["delta"][name].as_str());
            let streamed: Vec<&str> = deltas.collect();
            if names.contains(&name) {
                assert_eq!(message[name], "Hm");
                assert_eq!((streamed.concat().as_str(), streamed.last()), ("Hm", Some(&"")));
            } else {
                assert!(message.get(name).is_none() && streamed.is_empty(), "{field:?}: {name}");
            }
        }
        assert_eq!(message["content"], "Yes");
    }
}

#[test]
fn penalties_are_let_pass_where_the_server_is_lenient() {
    let rig = start_with(Settings { lenient: true, ..quick() }, &[Act::Say("x"), Act::Stop]);
    for body in [
        json!({ "presence_penalty": 1 }),
        json!({ "frequency_penalty": 0.1, "repetition_penalty": 1.2 }),
        json!({ "logit_bias": { "1": 5 } }),
    ] {
        assert_eq!(chat(rig.at, body.clone()).status, 200, "{body}");
    }
    // Nonsense stays nonsense, and several choices would not be given.
    for (body, param) in [
        (json!({ "presence_penalty": "x" }), "presence_penalty"),
        (json!({ "logit_bias": [] }), "logit_bias"),
        (json!({ "n": 2 }), "n"),
    ] {
        assert_eq!(chat(rig.at, body).refusal().2, json!(param));
    }
}

#[test]
fn unknown_members_are_refused_where_the_server_is_strict() {
    let rig = start_with(Settings { strict: true, ..quick() }, &[Act::Say("x"), Act::Stop]);
    let refusal = (400, "unsupported_parameter".to_owned(), json!("made_up"));
    assert_eq!(chat(rig.at, json!({ "made_up": 1 })).refusal(), refusal);
    for (path, body) in [
        ("/v1/completions", json!({ "prompt": "Hi", "made_up": 1 })),
        ("/v1/responses", json!({ "input": "Hi", "made_up": 1 })),
    ] {
        assert_eq!(post(rig.at, path, &body).refusal(), refusal, "{path}");
    }
    assert_eq!(chat(rig.at, json!({ "seed": 1, "made_up": null })).status, 200);
}

#[test]
fn signs_of_life_may_be_chunks_too() {
    let settings = Settings { ping_chunks: true, ..quick() };
    let rig = start_with(settings, &[Act::Wait(350), Act::Say("x"), Act::Stop]);
    let events = chat(rig.at, json!({ "stream": true })).events();
    let silent = |event: &&Value| {
        event["choices"][0]["delta"] == json!({}) && event["choices"][0]["finish_reason"].is_null()
    };
    assert!(events.iter().filter(silent).count() >= 2, "{events:?}");
    assert!(events.iter().filter(silent).all(|event| event["id"] == events[0]["id"]));
    let body = json!({ "prompt": "Hi", "stream": true });
    let events = post(rig.at, "/v1/completions", &body).events();
    let silent = |event: &&Value| {
        event["choices"][0]["text"] == "" && event["choices"][0]["finish_reason"].is_null()
    };
    assert!(events.iter().filter(silent).count() >= 2, "{events:?}");
}

#[test]
fn a_status_may_be_held_back_to_the_end() {
    let settings = Settings { status_hold: Duration::MAX, ..early_status() };
    let rig = start_with(settings, &[Act::Wait(400), Act::Fail]);
    assert_eq!(chat(rig.at, json!({})).refusal().0, 500);
}
