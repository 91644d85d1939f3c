//! Bodies that go over a line, in either direction.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

use crate::line::Line;

/// A body whose line hears when it is through: all of it was given, or nobody wants more of it.
#[derive(Debug)]
pub(crate) struct Passing<B> {
    body: B,
    line: Arc<Line>,
    through: fn(&Line),
}

impl<B> Passing<B> {
    /// A request's body, as it is heard.
    pub(crate) fn heard(body: B, line: Arc<Line>) -> Passing<B> {
        Passing { body, line, through: Line::received }
    }

    /// An answer's body, as it is said.
    pub(crate) fn said(body: B, line: Arc<Line>) -> Passing<B> {
        Passing { body, line, through: Line::said }
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Passing<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Passing<B> {
    fn drop(&mut self) {
        (self.through)(&self.line);
    }
}
