//! Time to the first token of a conversation that goes on, over HTTP, beside the cost of its new tokens alone.
//!
//! On the built-in model. The arms take turns: `alone` takes the new tokens in on a state that is there; `http`
//! is what a client waits for: its request read, rendered and tokenized, the state found, the new tokens taken
//! in, the first token sent. Each ratio is the median over rounds.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use deltafin_engine::{Engine, EngineOptions, Session, SnapshotMemory, most_likely};
use deltafin_server::{EngineBackend, Server, Settings};
use deltafin_text::chat::Turns;
use serde_json::{Value, json};

use crate::engine::tokenizer;
use crate::response::{find, is_complete, read_some};

/// Room for the reply and for what the chat format adds.
const ROOM: usize = 200;
const MOST_RATIO: f64 = 1.2;

/// A conversation of about `history` tokens, gone on from with about `new` more.
pub(crate) fn run(history: usize, new: usize, rounds: usize, timed: bool) {
    let open = || engine(history + new + ROOM);
    let (server, at) = serve(open());
    let beside = open();
    let mut session = beside.session();
    let question = user(&text("The list", history));
    let first = json!({ "messages": [question], "thinking": false, "max_tokens": 20 });
    let first = whole(at, "/v1/chat/completions", &first);
    let said = first["choices"][0]["message"].clone();
    let mut times: [Vec<f64>; 2] = Default::default();
    let (mut known, mut rest) = (0, 0);
    for round in 0..=rounds {
        // Each time with new tokens of its own: those of another time would be found, too.
        let question =
            |last: usize| json!([question, said, user(&text(&format!("Question {last}"), new))]);
        let (http, cached) = over_http(at, &question(2 * round));
        let ids = ids(at, &question(2 * round + 1));
        let alone = alone(&mut session, &ids, cached);
        // The first time the sessions' buffers grow.
        if round > 0 {
            times[0].push(alone);
            times[1].push(http);
        }
        (known, rest) = (cached, ids.len() - cached);
    }
    server.shut_down();
    let ratios = times[1].iter().zip(&times[0]).map(|(http, alone)| http / alone).collect();
    let ratio = median(ratios);
    let [alone, http] = times.map(|times| median(times) * 1e3);
    println!(
        "continued: {known} tokens known, {rest} new: {alone:.2} ms alone, {http:.2} ms over HTTP, {ratio:.2} x"
    );
    assert!(!timed || ratio <= MOST_RATIO, "more than {MOST_RATIO} x");
}

fn engine(context: usize) -> Engine {
    let checkpoint = deltafin_store::from_memory(deltafin_demo::FILES).unwrap();
    let options = EngineOptions {
        context: NonZeroUsize::new(context),
        snapshots: SnapshotMemory::Bytes(256 << 20),
        ..EngineOptions::default()
    };
    Engine::open(checkpoint, options).unwrap()
}

fn serve(engine: Engine) -> (Server, SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let settings = Settings { model: "demo".to_owned(), ..Settings::default() };
    let server = Server::start(listener, settings, |_| {}).unwrap();
    let stop_ids = [engine.stop_ids(), &tokenizer().stop_ids()].concat();
    let turns = Turns::of(&tokenizer());
    let backend = EngineBackend::start(
        engine,
        stop_ids,
        turns,
        "fp_demo".to_owned(),
        Default::default(),
        Default::default(),
    )
    .unwrap();
    server.ready(tokenizer(), backend);
    let at = server.address();
    (server, at)
}

/// About so many tokens of text that begins like this.
fn text(begin: &str, tokens: usize) -> String {
    let tokenizer = tokenizer();
    let mut text = begin.to_owned();
    let mut number = 0;
    while tokenizer.encode_text(&text).len() < tokens {
        number += 1;
        text += &format!(", number {number}: {} eggs", number * number % 97);
    }
    text
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// The new tokens alone, on a state that has taken in the others.
fn alone(session: &mut Session<'_>, ids: &[u32], cached: usize) -> f64 {
    if session.reuse(ids) < cached {
        session.reset();
        take_in(session, &ids[..cached]);
        session.keep();
        assert_eq!(session.reuse(ids), cached);
    }
    let began = Instant::now();
    take_in(session, &ids[cached..]);
    began.elapsed().as_secs_f64()
}

fn take_in(session: &mut Session<'_>, ids: &[u32]) {
    session.prefill(ids, &mut |_| ControlFlow::Continue(())).unwrap();
    most_likely(session.logits()).unwrap();
}

/// Seconds from asking to the first text of the answer, and how many tokens were known.
fn over_http(at: SocketAddr, talk: &Value) -> (f64, usize) {
    let body = json!({
        "messages": talk, "thinking": false, "max_tokens": 2, "stream": true,
        "stream_options": { "include_usage": true },
    });
    let mut socket = connect(at);
    let began = Instant::now();
    post(&mut socket, "/v1/chat/completions", &body);
    let mut bytes = Vec::new();
    read_until(&mut socket, &mut bytes, |bytes| text_at(bytes).is_some());
    let seconds = began.elapsed().as_secs_f64();
    read_until(&mut socket, &mut bytes, is_complete);
    let text = String::from_utf8(bytes).unwrap();
    let cached = text.split("\"cached_tokens\":").nth(1).unwrap();
    let cached = cached.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    (seconds, cached.parse().unwrap())
}

/// Where a chunk says something: the first one says nothing but who speaks.
fn text_at(bytes: &[u8]) -> Option<usize> {
    let first = find(bytes, b"\"content\":\"\"")?;
    find(&bytes[first + 12..], b"\"content\":\"")
}

/// What the server makes of a conversation.
fn ids(at: SocketAddr, talk: &Value) -> Vec<u32> {
    let answer = whole(at, "/tokenize", &json!({ "messages": talk, "thinking": false }));
    serde_json::from_value(answer["tokens"].clone()).unwrap()
}

fn whole(at: SocketAddr, path: &str, body: &Value) -> Value {
    let mut socket = connect(at);
    post(&mut socket, path, body);
    let mut bytes = Vec::new();
    read_until(&mut socket, &mut bytes, is_complete);
    let body = find(&bytes, b"\r\n\r\n").unwrap() + 4;
    serde_json::from_slice(&bytes[body..]).unwrap()
}

fn connect(at: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(at).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

fn post(socket: &mut TcpStream, path: &str, body: &Value) {
    let body = body.to_string();
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
    socket.write_all((head + &body).as_bytes()).unwrap();
}

fn read_until(socket: &mut TcpStream, bytes: &mut Vec<u8>, is_enough: impl Fn(&[u8]) -> bool) {
    let mut buffer = [0; 16 << 10];
    while !is_enough(bytes) {
        let read = read_some(socket, &mut buffer).unwrap();
        assert!(read > 0, "the answer broke off: {}", String::from_utf8_lossy(bytes));
        bytes.extend_from_slice(&buffer[..read]);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
