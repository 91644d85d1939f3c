//! How likely tokens were, in the form clients know.
//!
//! Of a whole reply they are written token by token: as values that wait to be written, those of one token take
//! forty times the memory of their text.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::sink::Likely;

/// `logprobs` of a choice: null where nothing is told. Tokens of the reasoning have a member of their own.
pub(super) fn of(reasoning: &[Arc<Likely>], content: &[Arc<Likely>]) -> Value {
    if reasoning.is_empty() && content.is_empty() {
        return Value::Null;
    }
    let mut logprobs = json!({ "content": list(content), "refusal": null });
    if !reasoning.is_empty() {
        logprobs["reasoning_content"] = list(reasoning);
    }
    logprobs
}

/// The same as text.
pub(super) fn written(reasoning: &[Arc<Likely>], content: &[Arc<Likely>]) -> String {
    if reasoning.is_empty() && content.is_empty() {
        return "null".to_owned();
    }
    let mut text = format!(r#"{{"content":{},"refusal":null"#, written_list(content));
    if !reasoning.is_empty() {
        text += &format!(r#","reasoning_content":{}"#, written_list(reasoning));
    }
    text + "}"
}

/// One entry for each token, as text.
pub(super) fn written_list(tokens: &[Arc<Likely>]) -> String {
    list_of(tokens, token)
}

fn list_of(tokens: &[Arc<Likely>], value: impl Fn(&Likely) -> Value) -> String {
    let mut text = "[".to_owned();
    for (at, token) in tokens.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        // Writing to a text does not fail.
        let _ = write!(text, "{comma}{}", value(token));
    }
    text + "]"
}

/// One entry for each token; none where nothing is told.
pub(super) fn list(tokens: &[Arc<Likely>]) -> Value {
    tokens.iter().map(|one| token(one)).collect()
}

fn token(likely: &Likely) -> Value {
    let mut token = entry(&likely.bytes, likely.logprob);
    token["top_logprobs"] =
        likely.top.iter().map(|(bytes, logprob)| entry(bytes, *logprob)).collect();
    token
}

/// The older form, that of a completion: lists side by side.
pub(super) fn of_text(tokens: &[Arc<Likely>]) -> Value {
    if tokens.is_empty() {
        return Value::Null;
    }
    let list = |of: &dyn Fn(&Likely) -> Value| tokens.iter().map(|one| of(one)).collect::<Value>();
    json!({
        "tokens": list(&|token| json!(name(&token.bytes))),
        "token_logprobs": list(&|token| json!(token.logprob)),
        "top_logprobs": list(&alternatives),
        "text_offset": list(&|token| json!(token.offset)),
    })
}

/// The same as text.
pub(super) fn written_of_text(tokens: &[Arc<Likely>]) -> String {
    if tokens.is_empty() {
        return "null".to_owned();
    }
    let list = |of: &dyn Fn(&Likely) -> Value| list_of(tokens, of);
    format!(
        r#"{{"tokens":{},"token_logprobs":{},"top_logprobs":{},"text_offset":{}}}"#,
        list(&|token| json!(name(&token.bytes))),
        list(&|token| json!(token.logprob)),
        list(&alternatives),
        list(&|token| json!(token.offset)),
    )
}

/// The likeliest tokens by name, and the one that was taken whether it is among them or not.
fn alternatives(token: &Likely) -> Value {
    let all = token.top.iter().map(|(bytes, logprob)| (bytes, *logprob));
    let all = all.chain([(&token.bytes, token.logprob)]);
    Value::Object(all.map(|(bytes, logprob)| (name(bytes), json!(logprob))).collect())
}

/// Text, or bytes that are none by themselves.
fn name(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            bytes.iter().fold("bytes:".to_owned(), |name, byte| format!("{name}\\x{byte:02x}"))
        }
    }
}

fn entry(bytes: &[u8], logprob: f64) -> Value {
    json!({ "token": String::from_utf8_lossy(bytes), "logprob": logprob, "bytes": bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_value_are_the_same() {
        let one = Likely {
            bytes: b"a\"".to_vec(),
            offset: 3,
            logprob: -0.25,
            top: vec![(b"a\"".to_vec(), -0.25), (vec![0xff, 0xfe], -1.5e-9)],
        };
        let two = Likely { logprob: f64::NEG_INFINITY, top: Vec::new(), ..one.clone() };
        let both = [one, two].map(Arc::new);
        for (reasoning, content) in
            [(&both[..], &both[1..]), (&[], &both), (&both, &[]), (&[], &[])]
        {
            assert_eq!(written(reasoning, content), of(reasoning, content).to_string());
        }
        for tokens in [&both[..], &both[1..], &[]] {
            assert_eq!(written_of_text(tokens), of_text(tokens).to_string());
        }
    }
}
