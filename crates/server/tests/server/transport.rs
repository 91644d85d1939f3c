//! The wire itself: paths, methods, bodies, keys, origins, host names.

use std::time::Duration;

use deltafin_server::Settings;
use serde_json::{Value, json};

use crate::script::{Act, Rig, quick, start, start_unloaded, start_with};
use crate::wire::{ask, chat, chat_body, get, post, send};

fn say() -> Rig {
    start(&[Act::Say("x"), Act::Stop])
}

#[test]
fn every_path_has_its_spellings_and_methods() {
    let rig = say();
    for path in ["/v1/models", "/models/", "/health", "/healthz", "/v1/version", "/metrics"] {
        assert_eq!(get(rig.at, path, "").status, 200, "{path}");
        assert_eq!(ask(rig.at, "HEAD", path, "", "").status, 200, "{path}");
        let response = ask(rig.at, "POST", path, "", "{}");
        assert_eq!(response.header("allow"), Some("GET, HEAD"));
        assert_eq!(response.refusal().1, "method_not_allowed");
    }
    for path in ["/v1/chat/completions/", "/responses", "/v1/messages/", "/messages/count_tokens"] {
        let response = get(rig.at, path, "");
        assert_eq!((response.status, response.header("allow")), (405, Some("POST")), "{path}");
    }
    for path in ["/v1", "/v1/embeddings", "/v1/responses/resp_1", "/x"] {
        let refusal = ask(rig.at, "POST", path, "", "{}").refusal();
        assert_eq!(refusal, (404, "not_found".to_owned(), Value::Null), "{path}");
    }
    let models = get(rig.at, "/v1/models", "").json();
    assert_eq!(models["data"][0]["id"], "test");
    assert_eq!(models["object"], "list");
    for (name, value) in [
        ("object", json!("model")),
        ("owned_by", json!("deltafin")),
        ("context_length", json!(crate::script::CONTEXT)),
        ("max_model_len", json!(crate::script::CONTEXT)),
    ] {
        assert_eq!(models["data"][0][name], value, "{name}");
    }
    assert!(models["data"][0]["created"].as_u64().is_some_and(|time| time > 1_700_000_000));
    assert_eq!(get(rig.at, "/version", "").json()["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn models_have_names_and_aliases() {
    let settings = Settings { aliases: vec!["org/k3".to_owned()], ..quick() };
    let rig = start_with(settings, &[Act::Say("x"), Act::Stop]);
    for (name, path) in [("test", "test"), ("org/k3", "org/k3"), ("org/k3", "org%2Fk3")] {
        assert_eq!(get(rig.at, &format!("/v1/models/{path}"), "").json()["id"], name);
        assert_eq!(chat(rig.at, json!({ "model": name })).status, 200);
    }
    let refusal = (404, "model_not_found".to_owned(), json!("model"));
    assert_eq!(get(rig.at, "/v1/models/gpt", "").refusal(), refusal);
    assert_eq!(chat(rig.at, json!({ "model": "gpt" })).refusal(), refusal);
}

#[test]
fn request_ids_are_echoed_or_made() {
    let rig = say();
    let id =
        |headers: &str| get(rig.at, "/health", headers).header("x-request-id").unwrap().to_owned();
    assert_eq!(id("X-Request-Id: my-1\r\n"), "my-1");
    for bad in [
        String::new(),
        format!("X-Request-Id: {}\r\n", "x".repeat(129)),
        "X-Request-Id: a b\r\n".to_owned(),
    ] {
        let made = id(&bad);
        assert!(made.len() == 28 && made.starts_with("req_"), "{made}");
    }
}

#[test]
fn bodies_are_json_whatever_they_are_called() {
    let rig = say();
    let body = chat_body(json!({})).to_string();
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    assert_eq!(ask(rig.at, "POST", "/v1/chat/completions", form, &body).status, 200);
    for bad in ["", "{", "[]", "\"x\"", "{\"a\":}"] {
        let refusal = ask(rig.at, "POST", "/v1/chat/completions", "", bad).refusal();
        assert_eq!((refusal.0, refusal.1.as_str()), (400, "invalid_json"), "{bad}");
    }
    let no_length = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(send(rig.at, no_length).refusal().1, "length_required");
    let chunked = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    assert_eq!(send(rig.at, chunked.as_bytes()).status, 200);
}

#[test]
fn a_body_over_the_limit_is_refused_unread() {
    let settings = Settings { max_body_bytes: 1000, ..quick() };
    let rig = start_with(settings, &[Act::Say("x"), Act::Stop]);
    // Only the head is sent: the answer does not wait for the rest.
    let head =
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n";
    let response = send(rig.at, head);
    assert_eq!(response.header("connection"), Some("close"));
    assert_eq!(response.refusal(), (413, "request_too_large".to_owned(), Value::Null));
    let piece = format!("200\r\n{}\r\n", "x".repeat(0x200));
    let chunked = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        piece.repeat(2)
    );
    assert_eq!(send(rig.at, chunked.as_bytes()).status, 413);
}

#[test]
fn a_body_that_stops_coming_is_given_up() {
    let settings = Settings { body_pause_limit: Duration::from_millis(100), ..quick() };
    let rig = start_with(settings, &[Act::Stop]);
    let head =
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{";
    assert_eq!(send(rig.at, head).refusal().0, 408);
}

#[test]
fn a_client_that_asks_first_is_told_to_go_on() {
    let rig = say();
    let head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n";
    assert_eq!(send(rig.at, head).status, 100);
}

/// The answer does not wait for a body that will not come.
#[test]
fn what_else_is_expected_is_refused_at_once() {
    let rig = say();
    for (expected, status) in [("100-Continue", 100), ("200-maybe", 417), ("", 417)] {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: {expected}\r\nContent-Length: 10\r\n\r\n"
        );
        let response = send(rig.at, head.as_bytes());
        assert_eq!(response.status, status, "{expected}");
        if status == 417 {
            assert_eq!(response.header("connection"), Some("close"));
            assert_eq!(response.refusal().1, "invalid_value");
        }
    }
    assert_eq!(get(rig.at, "/health", "Expect: much\r\n").status, 417);
}

#[test]
fn bodies_come_as_they_are() {
    let rig = say();
    let body = chat_body(json!({})).to_string();
    let ask =
        |headers: &str, body: &str| ask(rig.at, "POST", "/v1/chat/completions", headers, body);
    assert_eq!(ask("Content-Encoding: identity\r\n", &body).status, 200);
    let mut packed = ask("Content-Encoding: gzip\r\n", "\u{1f}");
    assert_eq!(packed.status, 415);
    let message = packed.text();
    assert!(message.contains("Content-Encoding 'gzip'"), "{message}");
    // A byte order mark says nothing of a text that is UTF-8.
    assert_eq!(ask("", &format!("\u{feff}{body}")).status, 200);
    assert_eq!(ask("", &format!("\u{feff}\u{feff}{body}")).status, 400);
}

#[test]
fn keys() {
    let settings = Settings { api_keys: vec!["one".to_owned(), "two".to_owned()], ..quick() };
    let rig = start_with(settings, &[Act::Say("x"), Act::Stop]);
    for good in
        ["Authorization: Bearer one\r\n", "authorization: bearer two\r\n", "x-api-key: two\r\n"]
    {
        assert_eq!(get(rig.at, "/v1/models", good).status, 200, "{good}");
    }
    for bad in ["", "Authorization: Bearer on\r\n", "Authorization: one\r\n", "x-api-key: \r\n"] {
        let response = get(rig.at, "/v1/models", bad);
        assert_eq!(response.header("www-authenticate"), Some("Bearer"));
        let refusal = response.refusal();
        assert_eq!((refusal.0, refusal.1.as_str()), (401, "invalid_api_key"), "{bad}");
    }
    assert_eq!(get(rig.at, "/health", "").status, 200);
    assert_eq!(get(rig.at, "/metrics", "").status, 401);
    assert_eq!(chat(rig.at, json!({})).status, 401);
}

#[test]
fn foreign_host_names_are_refused() {
    let rig = say();
    for host in ["evil.example", "evil.example:8080", "10.0.0.1"] {
        let refusal = get(rig.at, "/v1/models", &format!("Host: {host}\r\n")).refusal();
        assert_eq!((refusal.0, refusal.1.as_str()), (403, "origin_not_allowed"), "{host}");
    }
    for host in ["localhost", "localhost:1", "127.0.0.1", "[::1]:8080"] {
        assert_eq!(get(rig.at, "/v1/models", &format!("Host: {host}\r\n")).status, 200, "{host}");
    }
}

#[test]
fn pages_of_other_origins_ask_only_where_allowed() {
    let asks = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type, x-y\r\n";
    let rig = say();
    let own = format!("Origin: http://{}\r\n", rig.at);
    assert_eq!(get(rig.at, "/v1/models", &own).status, 200);
    for origin in ["Origin: http://evil.example\r\n", "Origin: null\r\n"] {
        let response = get(rig.at, "/v1/models", origin);
        assert_eq!(response.header("access-control-allow-origin"), None);
        assert_eq!(response.refusal().1, "origin_not_allowed");
        let preflight = ask(rig.at, "OPTIONS", "/v1/models", &format!("{origin}{asks}"), "");
        assert_eq!(preflight.status, 403);
    }
    let settings = Settings {
        cors_origins: vec!["http://ok.example".to_owned()],
        api_keys: vec!["k".to_owned()],
        ..quick()
    };
    let rig = start_with(settings, &[Act::Stop]);
    let origin = "Origin: http://ok.example\r\n";
    let preflight = ask(rig.at, "OPTIONS", "/v1/models", &format!("{origin}{asks}"), "");
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("http://ok.example"));
    assert_eq!(preflight.header("access-control-allow-headers"), Some("content-type, x-y"));
    assert_eq!(preflight.header("access-control-allow-methods"), Some("POST"));
    assert_eq!(preflight.header("access-control-max-age"), Some("600"));
    let response = get(rig.at, "/v1/models", origin);
    assert_eq!((response.status, response.header("vary")), (401, Some("Origin")));
    let other = get(rig.at, "/v1/models", "Origin: http://ok.example.evil\r\n");
    assert_eq!(other.status, 403);
}

#[test]
fn while_weights_load_the_state_is_told_and_nothing_generated() {
    let (_server, at) = start_unloaded(quick());
    let response = get(at, "/health", "");
    assert!(response.header("retry-after").is_some());
    assert_eq!(response.refusal(), (503, "model_loading".to_owned(), Value::Null));
    assert_eq!(get(at, "/v1/models", "").status, 200);
    assert!(get(at, "/metrics", "").text().contains("deltafin_up 0"));
    assert_eq!(chat(at, json!({})).refusal().1, "model_loading");
    assert_eq!(post(at, "/tokenize", &json!({ "content": "x" })).refusal().0, 503);
}

#[test]
fn text_goes_to_ids_and_back() {
    let rig = say();
    for name in ["content", "prompt"] {
        let tokens =
            post(rig.at, "/v1/tokenize", &json!({ name: "Héllo <|open|>" })).json()["tokens"]
                .clone();
        let text = post(rig.at, "/detokenize", &json!({ "tokens": tokens })).json();
        assert_eq!(
            (&text["content"], &text["prompt"]),
            (&json!("Héllo <|open|>"), &json!("Héllo <|open|>"))
        );
    }
    assert_eq!(post(rig.at, "/tokenize", &json!({})).refusal().0, 400);
    for tokens in [json!([99_999]), json!([-1]), json!("x"), json!([1.5])] {
        assert_eq!(post(rig.at, "/detokenize", &json!({ "tokens": tokens })).refusal().0, 400);
    }
}
