//! Boundaries of rendered conversations, found in their ids.
#![allow(clippy::unwrap_used, reason = "these functions run in tests only")]

mod common;

use common::{demo, tiny};
use deltafin_text::Tokenizer;
use deltafin_text::chat::{Message, Places, Request, Turns};

fn encode(tokenizer: &Tokenizer, request: &Request) -> Vec<u32> {
    tokenizer.encode_segments(&deltafin_text::render(request).unwrap()).unwrap()
}

fn talk(messages: &[Message], thinking: bool) -> Request {
    Request { thinking, ..Request::new(messages.to_vec()) }
}

/// Whatever a client makes of a reply, its next prompt agrees with the last one up to the reply's place.
#[test]
fn the_next_prompt_agrees_up_to_the_reply_whatever_becomes_of_the_reasoning() {
    for tokenizer in [tiny(), demo()] {
        let turns = Turns::of(&tokenizer);
        for thinking in [true, false] {
            let mut messages = vec![Message::system("Be brief."), Message::user("Hi <|open|>")];
            let first = encode(&tokenizer, &talk(&messages, thinking));
            let places = turns.places(&first);
            // The channel's opening alone is left.
            let channel = if thinking { "think" } else { "response" };
            let opening = tokenizer.encode_markup(&format!("<|open|>{channel}<|sep|>"));
            assert_eq!(first[places.reply..], opening);
            let mut answer = Message::assistant("Hello!");
            for reasoning in ["", "A greeting."] {
                answer.reasoning_content = reasoning.to_owned();
                messages.truncate(2);
                messages.extend([answer.clone(), Message::user("Bye")]);
                let second = encode(&tokenizer, &talk(&messages, thinking));
                assert_eq!(second[..places.reply], first[..places.reply]);
                assert!(turns.places(&second).ends.starts_with(&places.ends));
            }
        }
    }
}

#[test]
fn messages_end_where_the_next_begins_and_the_preamble_is_what_the_system_says_first() {
    let tokenizer = demo();
    let turns = Turns::of(&tokenizer);
    let system = encode(
        &tokenizer,
        &Request { add_generation_prompt: false, ..talk(&[Message::system("Be brief.")], false) },
    );
    let messages = [Message::system("Be brief."), Message::user("Hi"), Message::system("Later.")];
    let ids = encode(&tokenizer, &talk(&messages, false));
    let places = turns.places(&ids);
    assert_eq!(places.preamble, Some(system.len()));
    assert_eq!((places.ends.len(), places.ends[0]), (3, system.len()));
    let without = turns.places(&encode(&tokenizer, &talk(&messages[1..2], false)));
    assert_eq!(without.preamble, None);
}

#[test]
fn raw_text_has_no_boundary_but_its_last_token() {
    let tokenizer = demo();
    let ids = tokenizer.encode_text("<|open|>message<|sep|>x<|close|>message<|sep|><|end_of_msg|>");
    let places = Turns::of(&tokenizer).places(&ids);
    assert_eq!(places, Places { reply: ids.len() - 1, ..Places::default() });
    assert_eq!(Turns::of(&tokenizer).places(&[]), Places::default());
}
