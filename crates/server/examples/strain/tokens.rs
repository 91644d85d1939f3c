//! One stream, as fast as it goes: what a token costs on its way from the engine to the socket.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use deltafin_server::Settings;

use crate::engine::{Manner, serve};
use crate::machine;
use crate::response::{find, read_some};

const MOST_PER_TOKEN: Duration = Duration::from_micros(40);
const LEAST_PER_SECOND: f64 = 20_000.0;

/// Streams so many tokens of a chat. The client's own time is not counted; that of the engine's thread
/// is, for that is where replies are read.
pub(crate) fn run(count: usize, timed: bool) {
    let manner = Manner { pace: Duration::ZERO, ids: count, yields: false };
    let (server, at, runs) =
        serve(Settings { model: "strain".to_owned(), ..Settings::default() }, manner);
    let body = r#"{"messages":[{"role":"user","content":"Hi"}],"thinking":false,"stream":true}"#;
    let mut socket = TcpStream::connect(at).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let before = (machine::process_time(), machine::thread_time());
    let began = Instant::now();
    write!(
        socket,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {at}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let events = read(&mut socket);
    let seconds = began.elapsed().as_secs_f64();
    let after = (machine::process_time(), machine::thread_time());
    // The role, a chunk for each token, the end, [DONE].
    assert_eq!(events, count + 3);
    assert_eq!(runs.lock().unwrap()[0].said, count);
    server.shut_down();

    let rate = count as f64 / seconds;
    println!("tokens: {count} through one connection in {seconds:.2} s, {rate:.0} a second");
    assert!(!timed || rate >= LEAST_PER_SECOND, "fewer than {LEAST_PER_SECOND} a second");
    if let ((Some(all), Some(own)), (Some(all_then), Some(own_then))) = (after, before) {
        let each = (all - all_then).saturating_sub(own - own_then) / count as u32;
        println!("tokens: {:.1} µs of processor time for each", each.as_secs_f64() * 1e6);
        assert!(!timed || each <= MOST_PER_TOKEN, "more than {MOST_PER_TOKEN:?} for each");
    }
}

/// Reads to the end of a stream, and counts its events.
fn read(socket: &mut TcpStream) -> usize {
    let mut buffer = vec![0; 256 << 10];
    let (mut events, mut tail) = (0, Vec::new());
    loop {
        let read = read_some(socket, &mut buffer).unwrap();
        assert!(read > 0, "the stream broke off after {events} events");
        tail.extend_from_slice(&buffer[..read]);
        events += tail.windows(2).filter(|pair| pair == b"\n\n").count();
        if find(&tail, b"data: [DONE]\n\n").is_some() {
            return events;
        }
        // The last bytes may be the beginning of an end.
        let kept = tail.len().min(13);
        let rest = tail[tail.len() - kept..].to_vec();
        events -= rest.windows(2).filter(|pair| pair == b"\n\n").count();
        tail = rest;
    }
}
