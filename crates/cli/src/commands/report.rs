//! What `--json` prints about a generation.

use deltafin_text::reply::{Answer, Channel, Reply, ReplyOptions};
use deltafin_text::{DecodeError, Tokenizer};
use serde_json::{Value, json};

use super::generate::Generated;
use crate::stats::Summary;

/// The reply that the ids are, read as a whole.
pub(crate) fn answer(
    tokenizer: &Tokenizer,
    channel: Channel,
    generated: &Generated,
) -> Result<Answer, DecodeError> {
    let mut reply = Reply::new(tokenizer, ReplyOptions::new(channel));
    for id in generated.ids_to_stop() {
        reply.push(id)?;
    }
    reply.finish(generated.cut());
    Ok(reply.answer())
}

/// A reply in a conversation.
pub(crate) fn of_reply(answer: &Answer, generated: &Generated, summary: &Summary) -> Value {
    json!({
        "text": answer.content,
        "reasoning_content": answer.reasoning_content,
        "tool_calls": answer.tool_calls,
        "ids": generated.ids,
        "finish": answer.finish,
        "stats": summary,
    })
}

/// A plain continuation, or any where ids are wanted instead of text: without a tokenizer there is
/// no text, and `text` is null.
pub(crate) fn of_text(
    tokenizer: Option<&Tokenizer>,
    generated: &Generated,
    summary: &Summary,
) -> Result<Value, DecodeError> {
    let text = tokenizer.map(|tokenizer| tokenizer.text(&generated.ids)).transpose()?;
    Ok(json!({
        "text": text,
        "ids": generated.ids,
        "finish": generated.finish_word(),
        "stats": summary,
    }))
}
