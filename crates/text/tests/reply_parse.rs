//! Replies against the reference parser, event by event and however the bytes are cut.

mod common;

use common::{Item, cases, demo, fixture, ids, items, json, merged, name, options, tiny};
use deltafin_text::chat::{Message, Request};
use deltafin_text::reply::{Channel, Cut, Finish, ReplyOptions, parse_ids, parse_text};
use deltafin_text::{Answer, Delta, Event, Marker, Parser, Reply, TextReply, render};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The increments of one event in the fixture's form.
fn step(deltas: &[Delta]) -> Value {
    let mut step = json!({});
    for delta in deltas {
        match delta {
            Delta::Reasoning(text) => step["reasoning"] = json!(text),
            Delta::Content(text) => step["content"] = json!(text),
            Delta::Call { index, .. } => step["tool_call"] = json!(index),
            _ => {}
        }
    }
    step
}

fn check_answer(answer: &Answer, case: &Value) {
    let expected = &case["expect"];
    assert_eq!(answer.reasoning_content, expected["reasoning"], "{}", name(case));
    assert_eq!(answer.content, expected["content"], "{}", name(case));
    assert_eq!(json!(answer.tool_calls), expected["tool_calls"], "{}", name(case));
}

fn file() -> Value {
    json(fixture!("chat/parse.json"))
}

#[test]
fn every_event_publishes_what_the_fixture_says() {
    let file = file();
    assert_eq!(cases(&file, "cases").len(), 58);
    for case in cases(&file, "cases") {
        let mut parser = Parser::new(options(case));
        for (item, expected) in items(case).iter().zip(cases(case, "steps")) {
            assert_eq!(&step(&parser.push(item.event())), expected, "{}", name(case));
        }
        assert_eq!(parser.message_ended(), case["expect"]["finished"], "{}", name(case));
        assert_eq!(step(&parser.finish(Cut::Limit)), case["finish"], "{}", name(case));
        check_answer(&parser.answer(), case);
    }
}

#[test]
fn any_single_cut_and_single_bytes_give_the_same_answer() {
    for case in cases(&file(), "cases") {
        for size in 1..=5 {
            let mut parser = Parser::new(options(case));
            for item in items(case) {
                match item {
                    Item::Bytes(bytes) => bytes.chunks(size).for_each(|piece| {
                        parser.push(Event::Bytes(piece));
                    }),
                    other => drop(parser.push(other.event())),
                }
            }
            parser.finish(Cut::Limit);
            check_answer(&parser.answer(), case);
        }
    }
}

#[test]
fn spelled_markers_give_the_same_answer_in_any_two_pieces_and_byte_by_byte() {
    let mut seen = 0;
    for case in cases(&file(), "cases") {
        let Some(raw) = case["raw"].as_str() else { continue };
        seen += 1;
        check_answer(&parse_text(options(case), raw), case);
        for cut in 0..=raw.len() {
            let mut reply = TextReply::new(options(case));
            reply.push(&raw.as_bytes()[..cut]);
            reply.push(&raw.as_bytes()[cut..]);
            reply.finish(Cut::Limit);
            check_answer(&reply.answer(), case);
        }
        let mut reply = TextReply::new(options(case));
        raw.as_bytes().iter().for_each(|&byte| drop(reply.push(&[byte])));
        reply.finish(Cut::Limit);
        check_answer(&reply.answer(), case);
    }
    assert!(seen > 40, "{seen}");
}

#[test]
fn fragments_join_to_the_arguments() {
    let (mut joined, mut revised) = (0, Vec::new());
    for case in cases(&file(), "cases") {
        for size in [1, 3, 1000] {
            let mut parser = Parser::new(options(case));
            let mut deltas = Vec::new();
            for item in items(case) {
                match item {
                    Item::Bytes(bytes) => bytes
                        .chunks(size)
                        .for_each(|piece| deltas.extend(parser.push(Event::Bytes(piece)))),
                    other => deltas.extend(parser.push(other.event())),
                }
            }
            deltas.extend(parser.finish(Cut::Limit));
            let mut begun: Option<(usize, String, String)> = None;
            for delta in deltas {
                match delta {
                    Delta::CallBegin { index, name } => begun = Some((index, name, String::new())),
                    Delta::CallArguments { index, fragment } => {
                        let begun = begun.as_mut().unwrap();
                        assert_eq!(begun.0, index);
                        begun.2 += &fragment;
                    }
                    Delta::CallDropped { index } => assert_eq!(begun.take().unwrap().0, index),
                    Delta::Call { index, call } => {
                        let (begun_index, begun_name, fragments) = begun.take().unwrap();
                        assert_eq!((begun_index, &begun_name), (index, &call.name));
                        if fragments == call.arguments {
                            joined += 1;
                        } else {
                            revised.push(name(case).to_owned());
                        }
                    }
                    _ => {}
                }
            }
            assert_eq!(begun, None, "{}: a begun call completes or is dropped", name(case));
        }
    }
    assert!(joined > 60, "{joined}");
    assert!(revised.iter().all(|name| name == "duplicate_argument"), "{revised:?}");
}

#[test]
fn string_arguments_are_told_while_they_are_written() {
    let raw = "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|>\
        <|open|>argument key=\"q\" type=\"string\"<|sep|>";
    let mut reply = TextReply::new(ReplyOptions::new(Channel::Response));
    let fragment = |fragment: &str| Delta::CallArguments { index: 0, fragment: fragment.into() };
    let begin = Delta::CallBegin { index: 0, name: "f".into() };
    assert_eq!(reply.push(raw.as_bytes()), [begin, fragment("{\"q\": \"")]);
    assert_eq!(reply.push(b"a\n"), [fragment("a\\n")]);
    assert_eq!(reply.push(b"\"b"), [fragment("\\\"b")]);
    assert_eq!(reply.finish(Cut::Limit), [Delta::CallDropped { index: 0 }]);
    assert!(reply.answer().tool_calls.is_empty());
}

#[test]
fn a_number_without_a_finite_double_stays_what_the_model_wrote() {
    let raw = "<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|>\
        <|open|>argument key=\"n\" type=\"number\"<|sep|>1e999<|close|>argument<|sep|>\
        <|close|>call<|sep|>";
    let answer = parse_text(ReplyOptions::default(), raw);
    assert_eq!(answer.tool_calls[0].arguments, "{\"n\": \"1e999\"}");
}

#[test]
fn the_demo_models_replies_are_read_from_their_ids() {
    let (tokenizer, prompts) = (demo(), json(fixture!("demo/prompts.json")));
    let expected = [
        (
            "chat-hello",
            "The user greets me. I greet back and offer help.",
            "Hello! How can I help you today?",
        ),
        ("chat-sum-low", "47 + 38:", "47 + 38 = 85."),
        ("chat-off", "", "The capital of Japan is Tokyo."),
        ("chat-turns", "The user said: my name is Anna.", "Your name is Anna."),
    ];
    for (prompt, reasoning, content) in expected {
        let case = cases(&prompts, "prompts").iter().find(|case| name(case) == prompt).unwrap();
        let request = Request::from_json(case.to_string().as_bytes()).unwrap();
        let mut reply = Reply::new(&tokenizer, ReplyOptions::for_request(&request));
        let greedy = ids(&case["greedy"]);
        let taken = greedy.iter().take_while(|&&id| {
            let go_on = !reply.is_done();
            if go_on {
                reply.push(id).unwrap();
            }
            go_on
        });
        let taken = taken.count();
        assert_eq!(taken as u64, case["eos_at"].as_u64().unwrap() + 1, "{prompt}");
        assert_eq!(reply.tokens(), taken);
        let answer = reply.answer();
        assert_eq!(answer.reasoning_content, reasoning);
        assert_eq!(answer.content, content);
        assert_eq!(answer.finish, Finish::Stop);
    }
}

#[test]
fn an_answer_goes_back_into_the_history() {
    let raw = "why<|close|>think<|sep|><|open|>response<|sep|>so<|close|>response<|sep|>\
        <|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|>\
        <|open|>argument key=\"a\" type=\"number\"<|sep|>1<|close|>argument<|sep|>\
        <|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>";
    let answer = parse_text(ReplyOptions::default(), raw);
    assert_eq!(answer.finish, Finish::ToolCalls);
    assert_eq!(
        serde_json::to_string(&answer).unwrap(),
        r#"{"reasoning_content":"why","content":"so","tool_calls":[{"name":"f","arguments":"{\"a\": 1}"}],"finish":"tool_calls"}"#
    );
    let mut request = Request::new(vec![Message::from(&answer), Message::tool("call_0", "done")]);
    request.add_generation_prompt = false;
    let segments = render(&request).unwrap();
    let text = deltafin_text::chat::rendered_text(&segments);
    // The prompt opens the message and the channel; the rest is the reply itself.
    let head = "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>";
    assert!(text.starts_with(&format!("{head}{raw}<|open|>message role=\"tool\" tool=\"f\"")));
    let tokenizer = tiny();
    let ids = tokenizer.encode_segments(&segments).unwrap();
    let head = tokenizer.encode_segments(&segments[..10]).unwrap().len();
    assert_eq!(parse_ids(&tokenizer, ReplyOptions::default(), &ids[head..]).unwrap(), answer);
}

#[test]
fn tokens_are_counted_and_end_names_stop() {
    let tokenizer = tiny();
    let id = |name: &str| tokenizer.special_id(name).unwrap();
    let mut reply = Reply::new(&tokenizer, ReplyOptions::default());
    for id in [64, id("<|close|>"), 83, 71, 787, id("<|sep|>"), 65, id("[EOS]"), 64] {
        reply.push(id).unwrap();
    }
    assert!(reply.is_done());
    assert_eq!((reply.tokens(), reply.reasoning_tokens()), (9, 6));
    let answer = reply.answer();
    assert_eq!((answer.reasoning_content.as_str(), answer.content.as_str()), ("a", "b"));
    assert_eq!(answer.finish, Finish::Stop);
    assert!(reply.push(5000).is_err());
}

#[test]
fn cuts_have_their_reasons() {
    let finish = |cut| {
        let mut parser = Parser::new(ReplyOptions::default());
        parser.push(Event::Bytes("é".as_bytes().split_at(1).0));
        assert_eq!(parser.finish(cut), [Delta::Reasoning("\u{fffd}".into())]);
        assert_eq!(parser.finish(Cut::Limit), []);
        parser.answer().finish
    };
    assert_eq!(finish(Cut::Limit), Finish::Length);
    assert_eq!(finish(Cut::Cancelled), Finish::Cancelled);
    assert_eq!(finish(Cut::StopToken), Finish::Stop);
}

/// Replies from the words of the format, mostly broken.
fn any_event() -> impl Strategy<Value = Item> {
    let words: Vec<&str> = vec![
        "think",
        "response",
        "tools",
        "message",
        "json",
        "note",
        "a",
        "漢",
        "{\"a\": 1}",
        "7",
        "ST",
        "OP",
        "call tool=\"f\"",
        "argument key=\"k\" type=\"number\"",
        "argument key=\"k\"",
        "call",
        "argument",
        " ",
    ];
    prop_oneof![
        3 => proptest::sample::select(words).prop_map(|word| Item::Bytes(word.as_bytes().to_vec())),
        4 => proptest::sample::select(vec![Marker::Open, Marker::Close, Marker::Sep, Marker::Sep])
            .prop_map(Item::Marker),
        1 => proptest::collection::vec(any::<u8>(), 0..3).prop_map(Item::Bytes),
        1 => Just(Item::Other),
    ]
}

fn read(options: ReplyOptions, items: &[Item], size: usize) -> (Vec<Delta>, Answer) {
    let (mut parser, mut deltas) = (Parser::new(options), Vec::new());
    for item in items {
        match item {
            Item::Bytes(bytes) => {
                bytes
                    .chunks(size)
                    .for_each(|piece| deltas.extend(parser.push(Event::Bytes(piece))));
            }
            other => deltas.extend(parser.push(other.event())),
        }
    }
    deltas.extend(parser.finish(Cut::Limit));
    (merged(deltas), parser.answer())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..Default::default() })]

    #[test]
    fn any_events_give_the_same_reply_however_cut(
        items in proptest::collection::vec(any_event(), 0..60),
        size in 1usize..4,
        think in any::<bool>(),
    ) {
        let channel = if think { Channel::Think } else { Channel::Response };
        let options = ReplyOptions { stop: vec!["STOP".into(), "a漢".into()], ..ReplyOptions::new(channel) };
        let (whole, answer) = read(options.clone(), &items, usize::MAX);
        prop_assert_eq!(&(whole.clone(), answer.clone()), &read(options, &items, size));

        // What was published joins to the answer, and begun calls complete or are dropped.
        let (mut reasoning, mut content, mut calls, mut open) =
            (String::new(), String::new(), Vec::new(), false);
        for delta in whole {
            match delta {
                Delta::Reasoning(text) => reasoning += &text,
                Delta::Content(text) => content += &text,
                Delta::CallBegin { index, .. } => {
                    prop_assert!(!open && index == calls.len());
                    open = true;
                }
                Delta::CallArguments { .. } => prop_assert!(open),
                Delta::CallDropped { .. } => {
                    prop_assert!(open);
                    open = false;
                }
                Delta::Call { call, .. } => {
                    prop_assert!(open);
                    open = false;
                    calls.push(call);
                }
                Delta::ReasoningEnd => {}
            }
        }
        prop_assert!(!open);
        prop_assert_eq!(reasoning, answer.reasoning_content);
        prop_assert_eq!(content, answer.content);
        prop_assert_eq!(calls, answer.tool_calls);
    }
}
