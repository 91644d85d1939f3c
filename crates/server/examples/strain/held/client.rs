//! Many clients on one thread, so that what they cost is not taken for the server's.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::time::{sleep, sleep_until, timeout};

use crate::response::{find, is_complete, status};

/// Past the window, until an answer counts as never coming.
const GRACE: Duration = Duration::from_secs(60);

/// How the first id looks in a stream.
const FIRST: &[u8] = br#""content":"a""#;

/// One who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// The most ids it allows.
    pub(crate) number: usize,
    pub(crate) is_streamed: bool,
    pub(crate) patience: Patience,
}

/// How long one waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// To the end.
    Stays,
    /// So long.
    Leaves(Duration),
    /// Until it hears the first of a stream.
    LeavesMidway,
}

/// What became of one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// It has its whole answer, of so many ids.
    Answered(usize),
    /// It left at that moment.
    Left(Instant),
}

/// Lets all ask, and holds the connections of those that stay until the end of the window.
pub(crate) fn all(at: SocketAddr, clients: &[Client], window: Duration) -> Vec<Fate> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let end = tokio::time::Instant::now() + window;
        let mut tasks = Vec::new();
        for &client in clients {
            tasks.push(tokio::spawn(async move {
                let socket = TcpStream::connect(at).await.unwrap();
                let (fate, socket) = ask(client, socket, window + GRACE).await;
                if matches!(fate, Fate::Answered(_)) {
                    sleep_until(end).await;
                }
                drop(socket);
                fate
            }));
            // In their order, so that the first to come is the first to be answered.
            sleep(Duration::from_millis(1)).await;
        }
        let mut fates = Vec::new();
        for task in tasks {
            fates.push(task.await.unwrap());
        }
        fates
    })
}

async fn ask(client: Client, socket: TcpStream, longest: Duration) -> (Fate, TcpStream) {
    let Client { number, is_streamed, patience } = client;
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"Hi"}}],"thinking":false,"stream":{is_streamed},"max_tokens":{number}}}"#
    );
    let length = body.len();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    socket.writable().await.unwrap();
    assert_eq!(socket.try_write(request.as_bytes()).unwrap(), request.len());
    let limit = if let Patience::Leaves(after) = patience { after } else { longest };
    let enough = |bytes: &[u8]| patience == Patience::LeavesMidway && find(bytes, FIRST).is_some();
    let fate = match timeout(limit, answer(&socket, enough)).await {
        Ok(bytes) if is_complete(&bytes) => Fate::Answered(said(&bytes, is_streamed)),
        Ok(_) => Fate::Left(Instant::now()),
        Err(_) => {
            assert!(limit < longest, "client {number} was never answered");
            Fate::Left(Instant::now())
        }
    };
    (fate, socket)
}

/// The answer, or as much of it as is enough.
async fn answer(socket: &TcpStream, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 4096]);
    while !is_complete(&bytes) && !enough(&bytes) {
        socket.readable().await.unwrap();
        match socket.try_read(&mut buffer) {
            Ok(0) => panic!("closed after {}", String::from_utf8_lossy(&bytes)),
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error} after {}", String::from_utf8_lossy(&bytes)),
        }
    }
    bytes
}

/// How many ids a whole answer tells.
fn said(bytes: &[u8], is_streamed: bool) -> usize {
    assert_eq!(status(bytes), Some(200), "{}", String::from_utf8_lossy(bytes));
    let text = std::str::from_utf8(bytes).unwrap();
    if is_streamed {
        assert!(find(bytes, b"data: [DONE]").is_some());
        return text.matches(r#""content":"a""#).count();
    }
    let content = text.split(r#""content":""#).nth(1).unwrap();
    content.split('"').next().unwrap().len()
}
