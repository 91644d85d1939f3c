//! Where a rendered conversation can be cut so that what comes before is likely to come again.
//!
//! Found in the ids themselves: only the template's own markup becomes control tokens, so whatever a
//! message spells is no boundary.

use super::{Message, Request, render};
use crate::reply::Marker;
use crate::tokenizer::Tokenizer;

/// Finds the boundaries of conversations in ids.
#[derive(Clone, Debug)]
pub struct Turns {
    open: Option<u32>,
    end: Option<u32>,
    /// The ids that every system message, and none of a user, begins with.
    system: Vec<u32>,
}

/// The boundaries of one prompt; each is a number of tokens that precede it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Before the reply's channel is opened. What the next turn makes of the reply, with its reasoning or
    /// without, agrees so far. In raw text, before the last token.
    pub reply: usize,
    /// The end of the system messages that stand first, where there are any.
    pub preamble: Option<usize>,
    /// The ends of all messages, ascending.
    pub ends: Vec<usize>,
}

impl Turns {
    /// For ids of this tokenizer.
    pub fn of(tokenizer: &Tokenizer) -> Turns {
        let marker = |marker: Marker| tokenizer.special_id(marker.spelling());
        let rendered = |message: Message| {
            let request = Request { thinking: false, ..Request::new(vec![message]) };
            let segments = render(&request).unwrap_or_default();
            tokenizer.encode_segments(&segments).unwrap_or_default()
        };
        let (system, user) = (rendered(Message::system("")), rendered(Message::user("")));
        let common = system.iter().zip(&user).take_while(|(a, b)| a == b).count();
        Turns {
            open: marker(Marker::Open),
            end: marker(Marker::End),
            system: system.into_iter().take(common + 1).collect(),
        }
    }

    /// The boundaries of a prompt.
    pub fn places(&self, ids: &[u32]) -> Places {
        let is = |marker: Option<u32>| move |(_, id): &(usize, &u32)| Some(**id) == marker;
        let ends: Vec<usize> =
            ids.iter().enumerate().filter(is(self.end)).map(|(at, _)| at + 1).collect();
        let opening = ids.iter().enumerate().rfind(is(self.open)).map(|(at, _)| at);
        let starts = [0].into_iter().chain(ends.iter().copied());
        let first = starts.zip(&ends);
        let preamble = first.take_while(|(start, _)| self.is_system(&ids[*start..])).last();
        Places {
            reply: opening.unwrap_or(ids.len().saturating_sub(1)),
            preamble: preamble.map(|(_, end)| *end),
            ends,
        }
    }

    fn is_system(&self, message: &[u32]) -> bool {
        !self.system.is_empty() && message.starts_with(&self.system)
    }
}
