//! How likely tokens were, in the form clients know.

use serde_json::{Value, json};

use crate::sink::Likely;

/// `logprobs` of a choice: null where nothing is told. Tokens of the reasoning have a member of their own.
pub(super) fn of(reasoning: &[Likely], content: &[Likely]) -> Value {
    if reasoning.is_empty() && content.is_empty() {
        return Value::Null;
    }
    let mut logprobs = json!({ "content": list(content), "refusal": null });
    if !reasoning.is_empty() {
        logprobs["reasoning_content"] = list(reasoning);
    }
    logprobs
}

/// One entry for each token; none where nothing is told.
pub(super) fn list(tokens: &[Likely]) -> Value {
    tokens.iter().map(token).collect()
}

fn token(likely: &Likely) -> Value {
    let mut token = entry(&likely.bytes, likely.logprob);
    token["top_logprobs"] =
        likely.top.iter().map(|(bytes, logprob)| entry(bytes, *logprob)).collect();
    token
}

/// The older form, that of a completion: lists side by side.
pub(super) fn of_text(tokens: &[Likely]) -> Value {
    if tokens.is_empty() {
        return Value::Null;
    }
    let list = |of: &dyn Fn(&Likely) -> Value| tokens.iter().map(of).collect::<Value>();
    json!({
        "tokens": list(&|token| json!(name(&token.bytes))),
        "token_logprobs": list(&|token| json!(token.logprob)),
        "top_logprobs": list(&alternatives),
        "text_offset": list(&|token| json!(token.offset)),
    })
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
