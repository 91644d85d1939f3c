//! The order of what a streamed reply publishes, with stop sequences and tool options.

mod common;

use common::{cases, fixture, items, json, merged, name, options};
use deltafin_text::reply::Cut;
use deltafin_text::{Delta, Parser};
use serde_json::{Value, json};

/// A published increment in the fixture's form; how a call is written is told elsewhere.
fn event(delta: Delta) -> Option<Value> {
    match delta {
        Delta::Reasoning(text) => Some(json!(["reasoning", text])),
        Delta::ReasoningEnd => Some(json!(["boundary"])),
        Delta::Content(text) => Some(json!(["content", text])),
        Delta::Call { index, call } => Some(json!(["tool", index, call.name, call.arguments])),
        _ => None,
    }
}

#[test]
fn every_stream_publishes_in_the_fixtures_order_and_stops_in_time() {
    let file = json(fixture!("chat/stream.json"));
    assert_eq!(cases(&file, "cases").len(), 27);
    for case in cases(&file, "cases") {
        let mut parser = Parser::new(options(case));
        let (mut deltas, mut consumed) = (Vec::new(), 0);
        for item in items(case) {
            if parser.is_done() {
                break;
            }
            deltas.extend(parser.push(item.event()));
            consumed += 1;
        }
        deltas.extend(parser.finish(Cut::Limit));
        let calls_hidden = case["options"]["tool_choice"] == "none";
        assert!(
            !calls_hidden || !deltas.iter().any(|delta| matches!(delta, Delta::CallBegin { .. })),
            "{}",
            name(case)
        );
        let told = merged(deltas).into_iter().filter_map(event);
        let finish = json!(["finish", parser.answer().finish]);
        let events: Vec<Value> =
            [json!(["role"])].into_iter().chain(told).chain([finish]).collect();
        assert_eq!(json!(events), case["events"], "{}", name(case));
        assert_eq!(consumed as u64, case["items_consumed"], "{}", name(case));
    }
}

#[test]
fn text_has_a_channel_only_where_it_is_published() {
    use deltafin_text::reply::{Channel, Event, Marker, ReplyOptions};
    let mut parser = Parser::new(ReplyOptions::default());
    assert_eq!(parser.text_channel(), Some(Channel::Think));
    let mut after = |marker, word: &'static [u8]| {
        parser.push(Event::Marker(marker));
        let inside = parser.text_channel();
        parser.push(Event::Bytes(word));
        parser.push(Event::Marker(Marker::Sep));
        (inside, parser.text_channel())
    };
    assert_eq!(after(Marker::Close, b"think"), (None, Some(Channel::Response)));
    assert_eq!(after(Marker::Open, b"response"), (None, Some(Channel::Response)));
    assert_eq!(after(Marker::Open, b"tools"), (None, None));
    assert_eq!(after(Marker::Close, b"tools"), (None, Some(Channel::Response)));
    assert_eq!(after(Marker::Close, b"message"), (None, None));
}
