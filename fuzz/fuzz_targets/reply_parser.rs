//! Any reply is read without a panic, and the same however it is cut.
#![no_main]

use deltafin_text::reply::{Channel, Cut, ReplyOptions};
use deltafin_text::{Answer, Delta, TextReply};
use libfuzzer_sys::fuzz_target;

fn read(options: ReplyOptions, data: &[u8], size: usize) -> Answer {
    let mut reply = TextReply::new(options);
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

fuzz_target!(|data: &[u8]| {
    for channel in [Channel::Think, Channel::Response] {
        let stop = vec!["STOP".to_owned(), "\n\n".to_owned()];
        let options = ReplyOptions { stop, ..ReplyOptions::new(channel) };
        let whole = read(options.clone(), data, data.len().max(1));
        for size in [1, 3, 7] {
            assert_eq!(read(options.clone(), data, size), whole);
        }
    }
});
