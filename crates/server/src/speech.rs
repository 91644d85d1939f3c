//! HTTP's side of a line: its bytes.
//!
//! Promise: nothing is said over a line but what the server says. What hyper would answer by itself, to bytes that
//! are no request, is said in the server's form instead.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::line::Line;

/// The answer to what is no request, by its status.
pub(crate) type Refuse = Box<dyn Fn(u16) -> Vec<u8> + Send>;

/// The socket as HTTP speaks over it. It must not read while a request is answered.
pub(crate) struct Speech {
    line: Arc<Line>,
    refuse: Refuse,
    /// What is still to be said to who did not ask for anything.
    refusal: Option<Vec<u8>>,
}

impl Speech {
    pub(crate) fn new(line: Arc<Line>, refuse: Refuse) -> Speech {
        Speech { line, refuse, refusal: None }
    }

    fn poll_say(
        &self,
        context: &mut Context<'_>,
        say: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let stream = self.line.stream();
        loop {
            let Poll::Ready(ready) = stream.poll_write_ready(context) else {
                self.line.is_heard(false);
                return Poll::Pending;
            };
            ready?;
            match say(stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                said => {
                    self.line.is_heard(true);
                    return Poll::Ready(said);
                }
            }
        }
    }

    /// Takes an answer that nobody of ours gave. All of it comes at once.
    fn replaces(&mut self, bytes: &[u8]) -> bool {
        if self.refusal.is_none() && self.line.is_unasked() {
            self.refusal = Some((self.refuse)(status(bytes)));
        }
        self.refusal.is_some()
    }

    fn poll_refuse(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.refusal.take_if(|rest| !rest.is_empty()) {
            let said = self.poll_say(context, |stream| stream.try_write(&rest));
            // Once there is one it stays, if only to take in what else hyper would say.
            let said_bytes = if let Poll::Ready(Ok(bytes)) = said { bytes } else { 0 };
            self.refusal = Some(rest[said_bytes..].to_vec());
            ready!(said)?;
        }
        Poll::Ready(Ok(()))
    }
}

/// The status of an answer that begins with these bytes.
fn status(bytes: &[u8]) -> u16 {
    let code = bytes.get(9..12).and_then(|code| std::str::from_utf8(code).ok());
    code.and_then(|code| code.parse().ok()).unwrap_or(400)
}

impl AsyncRead for Speech {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (line, stream) = (&self.line, self.line.stream());
        line.listens();
        loop {
            ready!(stream.poll_read_ready(context))?;
            match stream.try_read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(count) => {
                    buffer.advance(count);
                    if count > 0 {
                        line.hears();
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for Speech {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.replaces(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        self.poll_say(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = parts.iter().find(|part| !part.is_empty());
        if first.is_some_and(|first| self.replaces(first)) {
            return Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()));
        }
        self.poll_say(context, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refuse(context))?;
        // Hyper asks for this when it has nothing left to write.
        self.line.wrote();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refuse(context))?;
        Poll::Ready(SockRef::from(self.line.stream()).shutdown(Shutdown::Write))
    }
}
