//! A connection's socket, shared by who speaks HTTP over it and who must know whether anybody is there.
//!
//! Promises: an idle connection ends after a while, and sooner once the head of a request has begun and does not
//! come to its end, or the client does not take its answer; a client that has finished sending is told apart from
//! one that is gone, as far as a socket can tell.

use std::future::pending;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

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
    /// The answer's head is there; what follows of it may take its time.
    Answer,
    /// The client takes nothing of the answer since.
    Unheard(Instant),
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
        Line { stream, turn: watch::Sender::new(Turn::Idle(Instant::now())) }
    }

    /// The head of a request was read; all of it is there where no body follows.
    pub(crate) fn asked(&self, has_body: bool) {
        let now = Instant::now();
        self.pass(|_| Some(if has_body { Turn::Body(now) } else { Turn::Request }));
    }

    /// The request's body was read, or nobody wants it.
    fn received(&self) {
        self.pass(|turn| matches!(turn, Turn::Body(_)).then_some(Turn::Request));
    }

    /// The head of its answer is there.
    pub(crate) fn answered(&self) {
        self.pass(|_| Some(Turn::Answer));
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
            Turn::Request | Turn::Answer | Turn::Unheard(_) => Stand::Answered,
        }
    }

    /// How well it can be done without, the best one first; nothing while it is at work.
    pub(crate) fn rank(&self) -> Option<(u8, Instant)> {
        match *self.turn.borrow() {
            Turn::Idle(since) => Some((0, since)),
            Turn::Head(since) => Some((1, since)),
            Turn::Body(since) => Some((2, since)),
            Turn::Unheard(since) => Some((3, since)),
            Turn::Request | Turn::Answer | Turn::Over => None,
        }
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

    /// Waits until the connection is to end: it was cut, or the client has used up the patience.
    pub(crate) async fn over(&self, patience: Patience) {
        let mut turns = self.turn.subscribe();
        loop {
            let turn = *turns.borrow_and_update();
            let limit = match turn {
                Turn::Idle(since) => since.checked_add(patience.idle),
                Turn::Head(since) => since.checked_add(patience.head),
                Turn::Unheard(since) => since.checked_add(patience.stall),
                Turn::Body(_) | Turn::Request | Turn::Answer => None,
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

/// The socket as HTTP speaks over it. It must not read while a request is answered.
#[derive(Debug)]
pub(crate) struct Speech(pub(crate) Arc<Line>);

impl AsyncRead for Speech {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let line = &self.0;
        // Who listens again has sent all of the answer.
        line.pass(|turn| matches!(turn, Turn::Answer).then(|| Turn::Idle(Instant::now())));
        loop {
            ready!(line.stream.poll_read_ready(context))?;
            match line.stream.try_read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(count) => {
                    buffer.advance(count);
                    let begins = |turn| count > 0 && matches!(turn, Turn::Idle(_));
                    line.pass(|turn| begins(turn).then(|| Turn::Head(Instant::now())));
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl Speech {
    fn poll_say(
        &self,
        context: &mut Context<'_>,
        say: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let line = &self.0;
        loop {
            let Poll::Ready(ready) = line.stream.poll_write_ready(context) else {
                let waits = |turn| matches!(turn, Turn::Answer);
                line.pass(|turn| waits(turn).then(|| Turn::Unheard(Instant::now())));
                return Poll::Pending;
            };
            ready?;
            match say(&line.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                said => {
                    line.pass(|turn| matches!(turn, Turn::Unheard(_)).then_some(Turn::Answer));
                    return Poll::Ready(said);
                }
            }
        }
    }
}

impl AsyncWrite for Speech {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_say(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_say(context, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is held back here.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&self.0.stream).shutdown(Shutdown::Write))
    }
}

/// A request's body as it comes over a line, which hears when nothing more of it is wanted.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) body: Incoming,
    pub(crate) line: Arc<Line>,
}

impl Body for Heard {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.line.received();
    }
}
