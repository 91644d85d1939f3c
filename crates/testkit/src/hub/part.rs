//! A slice of a file on its way, right or as a misstep makes it.

use std::io::{self, Write as _};
use std::net::TcpStream;

use super::file::File;
use super::plan::Misstep;
use super::wire::{Answer, Request, hold};
use super::{Next, Told};

/// What is asked for of a file.
pub(super) struct Part<'a> {
    pub(super) name: &'a str,
    pub(super) file: &'a File,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) ranged: bool,
    pub(super) commit: Option<&'a str>,
    pub(super) told: Told,
}

impl Part<'_> {
    fn slice(&self) -> &[u8] {
        match self.file.bytes.is_empty() {
            true => &[],
            false => &self.file.bytes[self.first as usize..=self.last as usize],
        }
    }

    /// The right answer with these bytes.
    fn right<'b>(&self, body: &'b [u8]) -> Answer<'b> {
        let mut answer = Answer::new(if self.ranged { 206 } else { 200 }, body);
        if self.ranged {
            let length = self.file.bytes.len();
            let place = format!("bytes {}-{}/{length}", self.first, self.last);
            answer = answer.with("Content-Range", place);
        }
        if let Some(commit) = self.commit {
            answer = answer.with("X-Repo-Commit", commit);
        }
        let answer = answer.with("Accept-Ranges", "bytes");
        match self.told {
            Told::Tags => answer.with("ETag", format!("\"{}\"", self.file.sha256)),
            Told::Dates => answer.with("Last-Modified", self.file.date()),
            Told::Nothing => answer,
        }
    }

    /// Sends what a misstep makes of it; gives the bytes of body that went out.
    pub(super) fn send(
        &self,
        misstep: Option<Misstep>,
        request: &Request,
        to: &mut TcpStream,
    ) -> io::Result<(u64, Next)> {
        let (slice, method) = (self.slice(), request.method.as_str());
        let length = self.file.bytes.len() as u64;
        let go = |answer: Answer<'_>, to: &mut TcpStream| Ok((answer.send(to, method)?, Next::Go));
        let refusal = |status| Answer::new(status, b"no" as &[u8]);
        let Some(misstep) = misstep else { return go(self.right(slice), to) };
        match misstep {
            Misstep::WholeFile => {
                let tag = format!("\"{}\"", self.file.sha256);
                go(Answer::new(200, &self.file.bytes).with("ETag", tag), to)
            }
            Misstep::OddStatus => {
                go(Answer { status: 200, headers: Vec::new(), ..self.right(slice) }, to)
            }
            Misstep::Shifted => {
                let shift = 1 + self.first.min(6);
                let first = (self.first + shift).min(length.saturating_sub(1));
                let last = (self.last + shift).min(length.saturating_sub(1));
                let moved = Part { first, last, commit: None, ..*self };
                go(moved.right(moved.slice()), to)
            }
            Misstep::Cut => {
                let answer = Answer { sent: slice.len() / 2, ..self.right(slice) };
                Ok((answer.send(to, method)?, Next::Close))
            }
            Misstep::Less => {
                let less = Part { last: self.first + (self.last - self.first) / 2, ..*self };
                go(less.right(less.slice()), to)
            }
            Misstep::Flipped => {
                let mut flipped = slice.to_vec();
                let middle = flipped.len() / 2;
                flipped.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 0x10);
                go(self.right(&flipped), to)
            }
            Misstep::OutOfRange => {
                go(refusal(416).with("Content-Range", format!("bytes */{length}")), to)
            }
            Misstep::TooMany => go(refusal(429).with("Retry-After", 0), to),
            Misstep::Unavailable => go(refusal(503), to),
            Misstep::Internal => go(refusal(500), to),
            Misstep::Forbidden => go(refusal(403), to),
            Misstep::Stall => {
                let answer = Answer { sent: slice.len() / 2, ..self.right(slice) };
                let sent = answer.send(to, method)?;
                hold(to);
                Ok((sent, Next::Close))
            }
            Misstep::Silence => {
                hold(to);
                Ok((0, Next::Close))
            }
            Misstep::OtherTag => {
                let mut answer = self.right(slice);
                answer.headers.retain(|header| header.0 != "ETag");
                go(answer.with("ETag", format!("\"other-{}\"", self.name)), to)
            }
            Misstep::Reset => Ok((0, Next::Close)),
            Misstep::Page => {
                go(Answer::new(200, b"<html>sign in</html>").with("Content-Type", "text/html"), to)
            }
            Misstep::Garbage => {
                to.write_all(b"\x16\x03\x01 this is no answer\r\n\r\n")?;
                Ok((0, Next::Close))
            }
            Misstep::Empty => go(Answer::new(200, b""), to),
        }
    }
}
