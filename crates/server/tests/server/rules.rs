//! Rules that clients rely on without knowing: bytes, kinds of errors, connections, the names of metrics.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deltafin_server::Settings;
use serde_json::{Value, json};

use crate::script::{Act, CONTEXT, Rig, quick, start, start_unloaded, start_with};
use crate::wire::{Response, ask, chat, chat_body, get, post, send};

fn say() -> Rig {
    start(&[Act::Say("x"), Act::Stop])
}

/// The whole of a stream, with what differs from run to run replaced.
fn bytes_of(mut response: Response) -> String {
    let text = response.text();
    let first = text.lines().next().expect("a line").trim_start_matches("data: ");
    let first: Value = serde_json::from_str(first).expect("JSON");
    let text = text.replace(first["id"].as_str().expect("a name"), "ID");
    let text = text.replace(&format!("\"created\":{}", first["created"]), "\"created\":NOW");
    let (before, after) = text.split_once("\"id\":\"call_").expect("a call");
    format!("{before}\"id\":\"CALL{}", &after[24..])
}

#[test]
fn a_stream_is_known_to_the_byte() {
    let rig = start(&[
        Act::Say("H<|close|>think<|sep|><|open|>response<|sep|>a<|close|>response<|sep|>"),
        Act::Say("<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|>"),
        Act::Say("<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>"),
        Act::Stop,
    ]);
    let tools = json!([{ "type": "function", "function": { "name": "f" } }]);
    let body = json!({ "stream": true, "thinking": true, "tools": tools, "stream_options": { "include_usage": true } });
    let response = chat(rig.at, body);
    assert_eq!(response.header("x-accel-buffering"), Some("no"));
    let told = bytes_of(response);
    let usage = told.split("\"usage\":").nth(2).unwrap().split("}\n").next().unwrap();
    let head = "\"id\":\"ID\",\"object\":\"chat.completion.chunk\",\"created\":NOW,\"model\":\"test\",\
        \"system_fingerprint\":\"fp_00000000\",\"choices\":";
    let chunk = |delta: &str, end: &str| {
        format!("data: {{{head}[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,{end}}}]}}\n\n")
    };
    let going = |delta: &str| chunk(delta, "\"finish_reason\":null");
    let wanted = [
        going(r#"{"role":"assistant","content":""}"#),
        going(r#"{"reasoning_content":"H","reasoning":"H"}"#),
        going(r#"{"reasoning_content":"","reasoning":""}"#),
        going(r#"{"content":"a"}"#),
        going(
            r#"{"tool_calls":[{"index":0,"id":"CALL","type":"function","function":{"name":"f","arguments":""}}]}"#,
        ),
        going(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#),
        chunk("{}", &format!("\"finish_reason\":\"tool_calls\",\"usage\":{usage}")),
        format!("data: {{{head}[],\"usage\":{usage}}}\n\n"),
        "data: [DONE]\n\n".to_owned(),
    ];
    assert_eq!(told, wanted.concat());
}

#[test]
fn every_refusal_has_its_kind() {
    let kind = |response: Response, status: u16, kind: &str| {
        assert_eq!(response.status, status);
        let error = response.json()["error"].clone();
        assert_eq!(error["type"], kind, "{error}");
    };
    let settings = Settings { api_keys: vec!["k".to_owned()], queue: 0, ..quick() };
    let rig = start_with(settings, &[Act::Forever(20)]);
    let with_key = |body: Value| {
        let key = "x-api-key: k\r\n";
        ask(rig.at, "POST", "/v1/chat/completions", key, &chat_body(body).to_string())
    };
    kind(with_key(json!({ "n": 2 })), 400, "invalid_request_error");
    kind(chat(rig.at, json!({})), 401, "authentication_error");
    kind(get(rig.at, "/health", "Origin: http://x.example\r\n"), 403, "permission_error");
    kind(with_key(json!({ "model": "gpt" })), 404, "invalid_request_error");
    kind(get(rig.at, "/v1/messages", "x-api-key: k\r\n"), 405, "invalid_request_error");
    let running = with_key(json!({ "stream": true }));
    kind(with_key(json!({ "max_tokens": 7 })), 429, "rate_limit_error");
    running.leave();
    kind(chat(start(&[Act::Fail]).at, json!({})), 500, "server_error");
    let (_server, at) = start_unloaded(quick());
    kind(chat(at, json!({})), 503, "server_error");
}

#[test]
fn of_members_with_one_name_the_last_counts() {
    let rig = start(&[Act::Forever(0)]);
    let body = r#"{"messages":[],"max_tokens":"x","thinking":false,"messages":[{"role":"user","content":"Hi"}],"max_tokens":2}"#;
    let reply = ask(rig.at, "POST", "/v1/chat/completions", "", body).json();
    assert_eq!(reply["usage"]["completion_tokens"], 2);
}

#[test]
fn a_prompt_that_is_too_long_is_told_how_long_it_is() {
    let rig = start(&[Act::Stop]);
    let body = json!({ "prompt": "word ".repeat(CONTEXT) });
    let count = post(rig.at, "/tokenize", &body).json()["count"].to_string();
    let error = post(rig.at, "/v1/completions", &body).json()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains(&format!("the prompt has {count} tokens")));
}

#[test]
fn completions_stop_where_they_are_told_to() {
    let rig = start(&[Act::Say("one STOP two"), Act::Forever(1)]);
    for stop in [json!("STOP"), json!(["x", "STOP"])] {
        let body = json!({ "prompt": "Hi", "stop": stop });
        let choice = post(rig.at, "/v1/completions", &body).json()["choices"][0].clone();
        assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!("one "), &json!("stop")));
        rig.until_idle();
    }
}

#[test]
fn names_of_replies_and_calls_are_opaque_and_of_one_length() {
    let rig = start(&[
        Act::Say(
            "<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|>",
        ),
        Act::Say("<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>"),
        Act::Stop,
    ]);
    let is_name = |value: &Value, prefix: &str| {
        let digits = value.as_str().and_then(|name| name.strip_prefix(prefix));
        let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(digits.is_some_and(|digits| digits.len() == 24 && is_hex(digits)), "{value}");
    };
    let reply = chat(rig.at, json!({})).json();
    is_name(&reply["id"], "chatcmpl-");
    is_name(&reply["choices"][0]["message"]["tool_calls"][0]["id"], "call_");
    is_name(&post(rig.at, "/v1/completions", &json!({ "prompt": "Hi" })).json()["id"], "cmpl-");
}

#[test]
fn pages_may_read_what_they_need_and_a_star_lets_all_in() {
    let settings = Settings { cors_origins: vec!["*".to_owned()], ..quick() };
    let rig = start_with(settings, &[Act::Stop]);
    for origin in ["http://one.example", "null"] {
        let response = get(rig.at, "/v1/models", &format!("Origin: {origin}\r\n"));
        assert_eq!(response.status, 200);
        assert_eq!(response.header("access-control-allow-origin"), Some(origin));
        let exposed = response.header("access-control-expose-headers");
        assert_eq!(exposed, Some("x-request-id, retry-after"));
    }
    // Who asks from no page is told nothing of pages.
    assert_eq!(get(rig.at, "/v1/models", "").header("access-control-allow-origin"), None);
}

#[test]
fn a_refusal_that_leaves_a_body_unread_ends_the_connection() {
    let settings = Settings { api_keys: vec!["k".to_owned()], ..quick() };
    let rig = start_with(settings, &[Act::Stop]);
    let head = |path: &str, key: &str, length: usize| {
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{key}Content-Length: {length}\r\n\r\n")
    };
    for (path, key, status) in [
        ("/v1/chat/completions", "", 401),
        ("/v1/nothing", "x-api-key: k\r\n", 404),
        ("/v1/models", "x-api-key: k\r\n", 405),
    ] {
        let response = send(rig.at, head(path, key, 20 << 20).as_bytes());
        assert_eq!((response.status, response.header("connection")), (status, Some("close")));
        // A small one is taken in, and the connection goes on.
        let small = head(path, key, 2) + "{}";
        assert_eq!(send(rig.at, small.as_bytes()).header("connection"), None);
    }
}

#[test]
fn one_connection_serves_several_requests_also_sent_at_once() {
    let rig = say();
    let body = chat_body(json!({})).to_string();
    let chat = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut socket = TcpStream::connect(rig.at).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    socket.write_all(format!("{health}{chat}{health}").as_bytes()).unwrap();
    let mut socket = BufReader::new(socket);
    for wanted in ["\"status\":\"ok\"", "\"content\":\"x\"", "\"status\":\"ok\""] {
        let mut length = 0;
        loop {
            let mut line = String::new();
            socket.read_line(&mut line).unwrap();
            if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = said.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut bytes = vec![0; length];
        socket.read_exact(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(wanted), "{text}");
    }
    assert_eq!(rig.log.jobs.load(Ordering::SeqCst), 1);
}

/// Dashboards are built on these names.
#[test]
fn metrics_have_their_names_and_add_up() {
    let rig = say();
    let reply = chat(rig.at, json!({})).json();
    chat(rig.at, json!({ "n": 2 }));
    let page = get(rig.at, "/metrics", "").text();
    let value = |name: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name}: {page}")).parse().unwrap()
    };
    let usage = |name: &str| reply["usage"][name].as_f64().unwrap();
    for (name, wanted) in [
        ("deltafin_up", 1.0),
        ("deltafin_busy", 0.0),
        ("deltafin_queue_depth", 0.0),
        ("deltafin_requests_total{endpoint=\"chat\",status=\"200\"}", 1.0),
        ("deltafin_requests_total{endpoint=\"chat\",status=\"400\"}", 1.0),
        // The opening of the reply is taken in, though it is not counted as the client's.
        ("deltafin_prompt_tokens_total", usage("prompt_tokens") + 3.0),
        ("deltafin_cached_prompt_tokens_total", 0.0),
        ("deltafin_generated_tokens_total", usage("completion_tokens")),
        ("deltafin_speculated_tokens_total", 0.0),
        ("deltafin_accepted_tokens_total", 0.0),
        ("deltafin_request_seconds_count", 1.0),
        ("deltafin_time_to_first_token_seconds_count", 1.0),
        ("deltafin_token_seconds_count", usage("completion_tokens") - 1.0),
        ("deltafin_token_seconds_bucket{le=\"+Inf\"}", usage("completion_tokens") - 1.0),
    ] {
        assert_eq!(value(name), wanted, "{name}");
    }
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let is_described = |name: &str| page.contains(&format!("# TYPE {name} "));
        assert!(is_described(name) || base.is_some_and(is_described), "{line}");
    }
}

#[test]
fn interfaces_that_probe_learn_what_is_there() {
    let rig = start(&[Act::Forever(20)]);
    let props = get(rig.at, "/props", "").json();
    assert_eq!((&props["model_alias"], &props["total_slots"]), (&json!("test"), &json!(1)));
    assert_eq!(props["default_generation_settings"]["n_ctx"], CONTEXT);
    let slot = || get(rig.at, "/v1/slots", "").json()[0].clone();
    assert_eq!((&slot()["is_processing"], &slot()["queued"]), (&json!(false), &json!(0)));
    let _running = chat(rig.at, json!({ "stream": true }));
    let _waiting = chat(rig.at, json!({ "stream": true, "max_tokens": 7 }));
    rig.until_busy();
    assert_eq!((&slot()["is_processing"], &slot()["queued"]), (&json!(true), &json!(1)));
    assert_eq!(ask(rig.at, "POST", "/props", "", "{}").refusal().0, 405);
}
