//! Asks `/health` all the while.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::response::{is_complete, read_some, status};

const PAUSE: Duration = Duration::from_millis(10);

/// How long answers took, in order.
#[derive(Debug)]
pub(crate) struct Delays(Vec<Duration>);

impl Delays {
    /// How many there were.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The delay that such a part of them does not exceed.
    pub(crate) fn quantile(&self, part: f64) -> Duration {
        let at = (part * self.0.len() as f64).ceil() as usize;
        self.0[at.saturating_sub(1)]
    }
}

/// Asks until it is told to stop.
pub(crate) fn until(stop: &AtomicBool, at: SocketAddr) -> Delays {
    let mut delays = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        delays.push(once(at));
        thread::sleep(PAUSE);
    }
    delays.sort_unstable();
    Delays(delays)
}

/// Asks once, on a connection of its own, and says how long that took.
pub(crate) fn once(at: SocketAddr) -> Duration {
    let began = Instant::now();
    let mut socket = TcpStream::connect(at).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 1024]);
    while !is_complete(&bytes) {
        let read = read_some(&mut socket, &mut buffer).unwrap();
        assert!(read > 0, "/health broke off");
        bytes.extend_from_slice(&buffer[..read]);
    }
    assert_eq!(status(&bytes), Some(200));
    began.elapsed()
}
