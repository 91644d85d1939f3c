//! Which ids come: steered, limited, by chance, and how likely they were.

use deltafin_server::Settings;
use serde_json::{Value, json};

use crate::script::{Act, quick, start, start_with};
use crate::wire::{chat, post};

const THINK_THEN_SAY: [Act; 3] = [
    Act::Say("Hm.<|close|>think<|sep|><|open|>response<|sep|>Hé you"),
    Act::Say("<|close|>response<|sep|><|close|>message<|sep|>"),
    Act::Stop,
];

#[track_caller]
fn joined(tokens: &Value) -> String {
    let bytes = tokens.as_array().expect("tokens").iter().flat_map(|token| {
        let bytes = token["bytes"].as_array().expect("bytes");
        bytes.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()))
    });
    String::from_utf8(bytes.map(|byte| byte.expect("a byte")).collect()).expect("UTF-8")
}

#[test]
fn logprobs_tell_every_token_of_the_text_and_nothing_else() {
    let rig = start(&THINK_THEN_SAY);
    let body = json!({ "thinking": true, "logprobs": true, "top_logprobs": 3 });
    let reply = chat(rig.at, body.clone()).json();
    let told = &reply["choices"][0]["logprobs"];
    assert_eq!(joined(&told["content"]), "Hé you");
    assert_eq!(joined(&told["reasoning_content"]), "Hm.");
    assert_eq!(told["refusal"], Value::Null);
    for token in told["content"].as_array().unwrap() {
        let top = token["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 3);
        assert_eq!((&top[0]["token"], &top[0]["logprob"]), (&token["token"], &token["logprob"]));
        let values: Vec<f64> = top.iter().map(|one| one["logprob"].as_f64().unwrap()).collect();
        // The script wants its id with 9 and hesitates between the others with 2, 1.5, …
        assert!(values[0] < 0.0 && (values[0] - values[1] - 7.0).abs() < 1e-9, "{values:?}");
    }

    let mut streamed = body;
    streamed["stream"] = json!(true);
    let events = chat(rig.at, streamed).events();
    let all = |name: &str| -> Vec<Value> {
        let lists = events.iter().filter_map(|e| e["choices"][0]["logprobs"][name].as_array());
        lists.flatten().cloned().collect()
    };
    assert_eq!(json!(all("content")), told["content"]);
    assert_eq!(json!(all("reasoning_content")), told["reasoning_content"]);
    assert_eq!(chat(rig.at, json!({})).json()["choices"][0]["logprobs"], Value::Null);
}

/// The older form of completions: lists side by side, streamed or whole.
#[test]
fn completions_tell_logprobs_in_their_own_form() {
    let rig = start(&[Act::Say("Hé you"), Act::Stop]);
    let body = json!({ "prompt": "x", "logprobs": 2 });
    let reply = post(rig.at, "/v1/completions", &body).json();
    let told = &reply["choices"][0]["logprobs"];
    let list = |name: &str| told[name].as_array().unwrap_or_else(|| panic!("{name}")).clone();
    let (tokens, offsets) = (list("tokens"), list("text_offset"));
    assert_eq!(tokens.len(), list("token_logprobs").len());
    let text = "Hé you";
    for (at, (token, logprob)) in tokens.iter().zip(list("token_logprobs")).enumerate() {
        let top = list("top_logprobs")[at].as_object().unwrap().clone();
        assert_eq!(top.len(), 2);
        assert_eq!(top[token.as_str().unwrap()], logprob);
        let offset = offsets[at].as_u64().unwrap() as usize;
        let rest: String = text.chars().skip(offset).collect();
        let token = token.as_str().unwrap();
        assert!(token.starts_with("bytes:") || rest.starts_with(token), "{token} at {offset}");
    }
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let events = post(rig.at, "/v1/completions", &streamed).events();
    let all: Vec<Value> = events
        .iter()
        .filter_map(|e| e["choices"][0]["logprobs"]["text_offset"].as_array())
        .flatten()
        .cloned()
        .collect();
    assert_eq!(all, offsets);
    // The one that was taken is among its alternatives even where none are asked for.
    let alone = post(rig.at, "/v1/completions", &json!({ "prompt": "x", "logprobs": 0 })).json();
    let top = &alone["choices"][0]["logprobs"]["top_logprobs"][0];
    assert_eq!(top.as_object().unwrap().len(), 1);
    assert_eq!(
        post(rig.at, "/v1/completions", &json!({ "prompt": "x" })).json()["choices"][0]["logprobs"],
        Value::Null
    );
}

#[test]
fn what_a_stop_sequence_cuts_has_no_logprobs() {
    let rig = start(&[Act::Say("one two STOP three"), Act::Forever(1)]);
    let reply = chat(rig.at, json!({ "stop": " STOP", "logprobs": true })).json();
    let told = &reply["choices"][0]["logprobs"]["content"];
    assert_eq!(joined(told), "one two");
    assert_eq!(told[0]["top_logprobs"], json!([]));
}

#[test]
fn reasoning_can_be_limited() {
    let rig = start(&[Act::Forever(0)]);
    for limit in [0, 3] {
        let body = json!({ "thinking": true, "max_reasoning_tokens": limit, "max_tokens": 40 });
        let reply = chat(rig.at, body).json();
        let message = &reply["choices"][0]["message"];
        assert_eq!(message["reasoning_content"], "a".repeat(limit));
        assert!(message["content"].as_str().unwrap().starts_with("aaaa"));
        let details = &reply["usage"]["completion_tokens_details"];
        let tag = post(rig.at, "/tokenize", &json!({ "content": "think" })).json()["count"].clone();
        // The closing tag counts as reasoning: two markers and a word.
        assert_eq!(details["reasoning_tokens"], limit as u64 + tag.as_u64().unwrap() + 2);
    }
    // Where nobody thinks there is nothing to limit.
    let body = json!({ "max_reasoning_tokens": 0, "max_tokens": 4 });
    assert_eq!(chat(rig.at, body).json()["choices"][0]["message"]["content"], "aaaa");
}

#[test]
fn reasoning_ends_when_asked_to() {
    let rig = start(&[Act::Forever(10)]);
    let mut stream = chat(rig.at, json!({ "thinking": true, "stream": true }));
    let first = stream.chunk().unwrap();
    let first: Value = serde_json::from_str(first.trim_start_matches("data: ")).unwrap();
    let control = |id: &Value, action: &str| {
        post(rig.at, "/v1/chat/completions/control", &json!({ "id": id, "action": action }))
    };
    assert!(stream.chunk().unwrap().contains("\"reasoning_content\":\"a\""));
    let id = &first["id"];
    let told = control(id, "reasoning_end");
    assert_eq!(told.status, 200);
    assert_eq!(told.json(), json!({ "id": id, "action": "reasoning_end", "applied": true }));
    let mut boundary = false;
    loop {
        let chunk = stream.chunk().expect("the answer comes before the end");
        boundary |= chunk.contains("\"reasoning_content\":\"\"");
        if chunk.contains("\"content\":\"a\"") {
            break;
        }
    }
    assert!(boundary);
    assert_eq!(control(id, "reasoning_end").json()["applied"], false);
    assert_eq!(control(id, "stop").refusal(), (400, "invalid_value".to_owned(), json!("action")));
    stream.leave();
    rig.until_idle();
    crate::script::soon("forgotten", || control(id, "reasoning_end").status == 404);
    let refusal = (404, "not_found".to_owned(), json!("id"));
    assert_eq!(control(&json!("chatcmpl-0"), "reasoning_end").refusal(), refusal);
}

#[test]
fn chance_is_honoured_only_where_it_is_allowed() {
    let acts = [Act::Forever(0)];
    let hot = |seed: u64| json!({ "temperature": 2, "seed": seed, "max_tokens": 60 });
    let text =
        |reply: &Value| reply["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let strict = start(&acts);
    let response = chat(strict.at, hot(1));
    assert_eq!(response.header("x-seed"), None);
    let reply = response.json();
    assert_eq!(
        (text(&reply), &reply["system_fingerprint"]),
        ("a".repeat(60), &json!("fp_00000000"))
    );

    let free = start_with(Settings { allow_sampling: true, ..quick() }, &acts);
    let response = chat(free.at, hot(1));
    assert_eq!(response.header("x-seed"), Some("1"));
    let first = response.json();
    assert_eq!(first["system_fingerprint"], "fp_00000000_sampled");
    assert_ne!(text(&first), "a".repeat(60));
    assert_eq!(text(&chat(free.at, hot(1)).json()), text(&first));
    assert_ne!(text(&chat(free.at, hot(2)).json()), text(&first));
    // A seed that was not given is told, and means the same when it is.
    let response = chat(free.at, json!({ "temperature": 2, "max_tokens": 60 }));
    let seed = response.header("x-seed").unwrap().parse().unwrap();
    let told = text(&response.json());
    assert_eq!(text(&chat(free.at, hot(seed)).json()), told);
    for greedy in [json!({}), json!({ "temperature": 0 }), json!({ "seed": 3 })] {
        let mut body = greedy;
        body["max_tokens"] = json!(60);
        let reply = chat(free.at, body).json();
        assert_eq!(
            (text(&reply), &reply["system_fingerprint"]),
            ("a".repeat(60), &json!("fp_00000000"))
        );
    }
    assert_eq!(chat(free.at, json!({ "min_p": 2, "temperature": 1 })).refusal().2, json!("min_p"));
}
