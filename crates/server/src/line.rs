//! A connection's socket, shared by who speaks HTTP over it and who must know whether anybody is there.
//!
//! Promises: an idle connection ends after a while, and sooner once the head of a request has begun and does not
//! come to its end, or the client does not take its answer; a client that has finished sending is told apart from
//! one that is gone, as far as a socket can tell.

use std::future::pending;
use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// How long a request may still take that was on its way when the server was asked to end.
const LAST_REQUEST: Duration = Duration::from_millis(500);
/// How long a client is heard out that does not end.
const LINGER: Duration = Duration::from_secs(1);

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// Nobody has said anything since.
    Idle(Instant),
    /// The client began a request's head then.
    Head(Instant),
    /// The head was there then, and its body is still coming.
    Body(Instant),
    /// A request is being answered.
    Request,
    /// The answer's head is there; the client may take what follows until then, or for as long as it comes.
    Answer(Option<Instant>),
    /// The client takes nothing of the answer since the first of these.
    Unheard(Instant, Option<Instant>),
    /// Nobody's any more.
    Over,
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Nothing was asked.
    Idle,
    /// A request is on its way.
    Asking,
    /// A request is being answered.
    Answered,
}

/// A socket, and whose turn it is on it.
#[derive(Debug)]
pub(crate) struct Line {
    stream: TcpStream,
    turn: watch::Sender<Turn>,
    /// What is being answered generates.
    generates: AtomicBool,
    /// All of the answer was given to who writes it.
    is_said: AtomicBool,
}

/// How long a client may say nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Between requests.
    pub(crate) idle: Duration,
    /// From the first byte of a request's head to its last.
    pub(crate) head: Duration,
    /// While an answer is sent.
    pub(crate) stall: Duration,
}

impl Line {
    pub(crate) fn new(stream: TcpStream) -> Line {
        // Each token is to leave at once; a peer that vanished without a word is to be noticed.
        let _ = stream.set_nodelay(true);
        let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(60));
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let turn = watch::Sender::new(Turn::Idle(Instant::now()));
        Line { stream, turn, generates: AtomicBool::new(false), is_said: AtomicBool::new(false) }
    }

    /// The head of a request was read; all of it is there where no body follows.
    pub(crate) fn asked(&self, has_body: bool) {
        let now = Instant::now();
        self.generates.store(false, Ordering::Relaxed);
        self.is_said.store(false, Ordering::Relaxed);
        self.pass(|_| Some(if has_body { Turn::Body(now) } else { Turn::Request }));
    }

    /// A generation answers the request, and has its own end.
    pub(crate) fn generates(&self) {
        self.generates.store(true, Ordering::Relaxed);
    }

    /// Nothing more is asked, and nothing is left to say.
    fn rests(&self) {
        self.generates.store(false, Ordering::Relaxed);
        self.pass(|_| Some(Turn::Idle(Instant::now())));
    }

    /// The request's body was read, or nobody wants it.
    pub(crate) fn received(&self) {
        self.pass(|turn| matches!(turn, Turn::Body(_)).then_some(Turn::Request));
    }

    /// The head of its answer is there, which the client may take so long to take.
    pub(crate) fn answered(&self, limit: Option<Duration>) {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        self.pass(|_| Some(Turn::Answer(end)));
    }

    /// Ends the connection, with everything that is done for it.
    pub(crate) fn cut(&self) {
        self.pass(|_| Some(Turn::Over));
    }

    /// What it does.
    pub(crate) fn stand(&self) -> Stand {
        match *self.turn.borrow() {
            Turn::Idle(_) | Turn::Over => Stand::Idle,
            Turn::Head(_) | Turn::Body(_) => Stand::Asking,
            Turn::Request | Turn::Answer(_) | Turn::Unheard(..) => Stand::Answered,
        }
    }

    /// How well it can be done without, the best one first; nothing while it is at work.
    pub(crate) fn rank(&self) -> Option<(u8, Instant)> {
        match *self.turn.borrow() {
            Turn::Idle(since) => Some((0, since)),
            Turn::Head(since) => Some((1, since)),
            Turn::Body(since) => Some((2, since)),
            Turn::Unheard(since, _) => Some((3, since)),
            Turn::Request | Turn::Answer(_) | Turn::Over => None,
        }
    }

    /// Whether nothing was taken for so long of an answer that is there as a whole.
    pub(crate) fn is_untaken(&self, lag: Duration) -> bool {
        matches!(*self.turn.borrow(), Turn::Unheard(since, Some(_)) if since.elapsed() >= lag)
    }

    /// All of the answer was given to who writes it.
    pub(crate) fn said(&self) {
        self.is_said.store(true, Ordering::Relaxed);
    }

    /// All that was given was written.
    pub(crate) fn wrote(&self) {
        if self.is_said.load(Ordering::Relaxed) {
            self.listens();
        }
    }

    /// Who listens again has sent all of the answer.
    pub(crate) fn listens(&self) {
        if matches!(*self.turn.borrow(), Turn::Answer(_) | Turn::Unheard(..)) {
            self.rests();
        }
    }

    /// The client has begun to say something.
    pub(crate) fn hears(&self) {
        self.pass(|turn| matches!(turn, Turn::Idle(_)).then(|| Turn::Head(Instant::now())));
    }

    /// The client takes nothing of the answer at the moment, or it does again.
    pub(crate) fn is_heard(&self, is_heard: bool) {
        self.pass(|turn| match (turn, is_heard) {
            (Turn::Answer(end), false) => Some(Turn::Unheard(Instant::now(), end)),
            (Turn::Unheard(_, end), true) => Some(Turn::Answer(end)),
            _ => None,
        });
    }

    /// The socket itself.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether no request was read since the last answer.
    pub(crate) fn is_unasked(&self) -> bool {
        matches!(*self.turn.borrow(), Turn::Idle(_) | Turn::Head(_))
    }

    fn pass(&self, next: impl FnOnce(Turn) -> Option<Turn>) {
        self.turn.send_if_modified(|turn| match (*turn, next(*turn)) {
            (Turn::Over, _) | (_, None) => false,
            (_, Some(next)) => {
                *turn = next;
                true
            }
        });
    }

    /// Waits until the connection is to end: it was cut, the client has used up the patience, or the server ends
    /// and nothing is generated over it.
    pub(crate) async fn over(&self, patience: Patience, ends: impl Future<Output = ()>) {
        tokio::select! {
            () = self.impatient(patience) => return,
            () = ends => {}
        }
        let generates = || self.generates.load(Ordering::Relaxed);
        let last = async {
            // What is on its way already may still be told that nothing is taken.
            sleep(LAST_REQUEST).await;
            let mut turns = self.turn.subscribe();
            while generates() {
                let _ = turns.changed().await;
            }
        };
        tokio::select! {
            () = self.impatient(patience) => {}
            () = last => {}
        }
    }

    async fn impatient(&self, patience: Patience) {
        let mut turns = self.turn.subscribe();
        loop {
            let turn = *turns.borrow_and_update();
            let limit = match turn {
                Turn::Idle(since) => since.checked_add(patience.idle),
                Turn::Head(since) => since.checked_add(patience.head),
                Turn::Unheard(since, end) => {
                    end.into_iter().chain(since.checked_add(patience.stall)).min()
                }
                Turn::Answer(end) => end,
                Turn::Body(_) | Turn::Request => None,
                Turn::Over => return,
            };
            let passes = turns.changed();
            // It cannot fail but by the time: the sender is ours.
            let Some(limit) = limit else {
                let _ = passes.await;
                continue;
            };
            if timeout_at(limit, passes).await.is_err() {
                return;
            }
        }
    }

    /// Says this at once, as far as the client takes it.
    pub(crate) async fn say(&self, bytes: &[u8]) {
        if self.stream.writable().await.is_ok() {
            // Who does not take it hears that the connection ends.
            let _ = self.stream.try_write(bytes);
        }
    }

    /// Hears out a client to whom everything was said: a socket that is closed while it sends takes the answer
    /// back from it.
    pub(crate) async fn linger(&self) {
        self.rests();
        let _ = SockRef::from(&self.stream).shutdown(Shutdown::Write);
        let mut unheard = [0; 4096];
        let all = async {
            while self.stream.readable().await.is_ok() {
                match self.stream.try_read(&mut unheard) {
                    Ok(0) => return,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        };
        let _ = timeout(LINGER, all).await;
    }

    /// Waits until the client has finished sending. One that is gone has its connection cut, and nothing
    /// comes back: a reset says so, and where `strict`, finishing does.
    ///
    /// To be asked when the request was read whole. While a next request waits, nothing is known.
    pub(crate) async fn finished(&self, strict: bool) {
        let is_gone = match self.stream.peek(&mut [0]).await {
            Ok(0) => strict,
            Ok(_) => return pending().await,
            Err(_) => true,
        };
        if is_gone {
            self.cut();
            pending::<()>().await;
        }
    }
}
