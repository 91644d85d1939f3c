//! Any reply is read without a panic and the same however it is cut; no text is lost and no markup
//! becomes text.

use deltafin_text::reply::{Channel, Cut, Marker, ReplyOptions};
use deltafin_text::{Answer, Delta, TextReply};

pub(crate) fn check(data: &[u8]) {
    for channel in [Channel::Think, Channel::Response] {
        let plain = ReplyOptions::new(channel);
        let answer = read(&plain, data, data.len().max(1));
        let twin = Twin::read(channel, data);
        assert_eq!((answer.reasoning_content, answer.content), (twin.reasoning, twin.content));

        let stop = vec!["STOP".to_owned(), "\n\n".to_owned()];
        for options in [ReplyOptions { stop, ..plain.clone() }, plain] {
            let whole = read(&options, data, data.len().max(1));
            for size in [1, 3, 7] {
                assert_eq!(read(&options, data, size), whole);
            }
        }
    }
}

fn read(options: &ReplyOptions, data: &[u8], size: usize) -> Answer {
    let mut reply = TextReply::new(options.clone());
    let (mut reasoning, mut content, mut calls) = (String::new(), String::new(), Vec::new());
    let mut take = |deltas: Vec<Delta>| {
        for delta in deltas {
            match delta {
                Delta::Reasoning(text) => reasoning += &text,
                Delta::Content(text) => content += &text,
                Delta::Call { call, .. } => calls.push(call),
                _ => {}
            }
        }
    };
    data.chunks(size).for_each(|piece| take(reply.push(piece)));
    take(reply.finish(Cut::Limit));
    let answer = reply.answer();
    assert!(reply.is_done());
    assert_eq!(reasoning, answer.reasoning_content);
    assert_eq!(content, answer.content);
    assert_eq!(calls, answer.tool_calls);
    answer
}

/// What becomes of the text, told without streaming, calls or stop sequences: text between tags belongs
/// to the channel that is open, to the answer where none is, and to nobody within tools.
#[derive(Default)]
struct Twin {
    channel: &'static str,
    /// Whether the tag being written closes, and what is written of it.
    tag: Option<(bool, Vec<u8>)>,
    ended: bool,
    reasoning: String,
    content: String,
}

impl Twin {
    fn read(channel: Channel, data: &[u8]) -> Twin {
        let channel = if channel == Channel::Think { "think" } else { "response" };
        let mut twin = Twin { channel, ..Twin::default() };
        let mut rest = data;
        while !rest.is_empty() && !twin.ended {
            let (text, marker, after) = up_to_marker(rest);
            twin.text(text);
            if let Some(marker) = marker {
                twin.marker(marker);
            }
            rest = after;
        }
        twin
    }

    fn text(&mut self, bytes: &[u8]) {
        match (&mut self.tag, self.channel) {
            (Some((_, tag)), _) => tag.extend(bytes),
            (None, "think") => self.reasoning += &String::from_utf8_lossy(bytes),
            (None, "tools") => {}
            (None, _) => self.content += &String::from_utf8_lossy(bytes),
        }
    }

    fn marker(&mut self, marker: Marker) {
        match marker {
            Marker::Open | Marker::Close => self.tag = Some((marker == Marker::Close, Vec::new())),
            Marker::End => self.ended = true,
            Marker::Sep => {
                let Some((closes, tag)) = self.tag.take() else { return };
                let tag = String::from_utf8_lossy(&tag);
                let name = tag.split(char::is_whitespace).next().unwrap_or_default();
                self.enter(closes, name);
            }
        }
    }

    fn enter(&mut self, closes: bool, name: &str) {
        const CHANNELS: [&str; 3] = ["think", "response", "tools"];
        let channel = CHANNELS.into_iter().find(|channel| *channel == name);
        match (channel, closes, name) {
            (Some(channel), false, _) => self.channel = channel,
            (Some(channel), true, _) if channel == self.channel => self.channel = "none",
            (None, true, "message") => self.ended = true,
            (None, false, "call") if self.channel == "none" => self.channel = "tools",
            _ => {}
        }
    }
}

/// The text before the first marker, the marker, and what follows it.
fn up_to_marker(data: &[u8]) -> (&[u8], Option<Marker>, &[u8]) {
    for at in 0..data.len() {
        for marker in Marker::ALL {
            if let Some(after) = data[at..].strip_prefix(marker.spelling().as_bytes()) {
                return (&data[..at], Some(marker), after);
            }
        }
    }
    (data, None, &[])
}
