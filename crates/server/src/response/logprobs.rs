//! How likely tokens were, in the form clients know.

use serde_json::{Value, json};

use crate::sink::Likely;

/// `logprobs` of a choice: null where nothing is told. Tokens of the reasoning have a member of their own.
pub(super) fn of(reasoning: &[Likely], content: &[Likely]) -> Value {
    if reasoning.is_empty() && content.is_empty() {
        return Value::Null;
    }
    let list = |tokens: &[Likely]| tokens.iter().map(token).collect::<Value>();
    let mut logprobs = json!({ "content": list(content), "refusal": null });
    if !reasoning.is_empty() {
        logprobs["reasoning_content"] = list(reasoning);
    }
    logprobs
}

fn token(likely: &Likely) -> Value {
    let mut token = entry(&likely.bytes, likely.logprob);
    token["top_logprobs"] =
        likely.top.iter().map(|(bytes, logprob)| entry(bytes, *logprob)).collect();
    token
}

fn entry(bytes: &[u8], logprob: f64) -> Value {
    json!({ "token": String::from_utf8_lossy(bytes), "logprob": logprob, "bytes": bytes })
}
