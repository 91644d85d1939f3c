//! Prompts into ids, of whatever length they are.
//!
//! **Promise.** No more ids are kept than the context has positions, and no more text is held than the plan
//! has room for: what is too long is refused by what it is too long for, whatever `--memory` there is. A text
//! that becomes ids as it comes is not held at all; a message of a conversation has to be, for it is
//! rendered first.

use deltafin_engine::{Engine, EngineError};
use deltafin_text::chat::Request;
use deltafin_text::tokenizer::{Encoded, Encoder};

use crate::args::{IdsSource, check_ids};
use crate::failure::Failure;
use crate::input::{Bound, Source};
use crate::load::Loaded;

/// Bytes that an id takes in a list, white space included, that somebody laid out to be read.
const ID_BYTES: u64 = 64;
/// Bytes of a message that every plan has room for among its fixed needs, with the copies that rendering makes.
const MESSAGE_BYTES: u64 = 1 << 20;
/// What part of a conversation's state its last message may take, where that is more.
const MESSAGE_SHARE: u64 = 1024;

/// A text of which each of several models has made ids.
pub(crate) struct Texts<const N: usize> {
    /// By each model, no more than its context holds; and how many there are.
    pub(crate) encoded: [Encoded; N],
    /// The text's length.
    pub(crate) bytes: u64,
}

/// Encodes a text while it is read.
///
/// # Errors
/// When it is longer than the least context holds, cannot be read, or there is no tokenizer.
pub(crate) fn texts<const N: usize>(
    source: Source,
    loaded: [&Loaded; N],
) -> Result<Texts<N>, Failure> {
    let mut encoders = Vec::with_capacity(N);
    for loaded in loaded {
        encoders.push(Encoder::new(loaded.tokenizer()?, loaded.engine.context()));
    }
    let bounds = loaded.into_iter().map(|loaded| Ok(bound(text_bytes(loaded)?, &loaded.engine)));
    let bounds = bounds.collect::<Result<Vec<_>, Failure>>()?;
    let narrowest = bounds.into_iter().min_by_key(|bound| bound.bytes);
    let bound = narrowest.unwrap_or_else(Bound::of_any_text);
    let bytes = source.read(&bound, |piece| {
        encoders.iter_mut().for_each(|encoder| encoder.push(piece));
        Ok(())
    })?;
    let mut encoders = encoders.into_iter();
    let encoded = loaded.map(|_| encoders.next().map(Encoder::finish).unwrap_or_default());
    Ok(Texts { encoded, bytes })
}

/// The ids of a text, which all have room in the context; and the text's length in bytes.
///
/// # Errors
/// When they have not, and as [`texts`].
pub(crate) fn text(source: Source, loaded: &Loaded) -> Result<(Vec<u32>, u64), Failure> {
    let Texts { encoded: [encoded], bytes } = texts(source, [loaded])?;
    Ok((fitting(encoded, &loaded.engine)?, bytes))
}

/// The ids of a list, which all have room in the context and are the model's.
///
/// # Errors
/// When they have not or are not, or cannot be read.
pub(crate) fn ids(source: IdsSource, engine: &Engine) -> Result<Vec<u32>, Failure> {
    let context = engine.context();
    let bound = bound((context as u64).saturating_mul(ID_BYTES).saturating_add(ID_BYTES), engine);
    let (ids, count) = source.read(context, &bound)?;
    check_ids(&ids, engine.spec().vocab)?;
    fitting(Encoded { ids, count }, engine)
}

/// The ids of a conversation, which all have room in the context.
///
/// # Errors
/// When they have not, or when the conversation cannot be rendered.
pub(crate) fn chat(request: &Request, loaded: &Loaded) -> Result<Vec<u32>, Failure> {
    let segments = deltafin_text::render(request)?;
    let (tokenizer, context) = (loaded.tokenizer()?, loaded.engine.context());
    fitting(tokenizer.encode_segments_within(&segments, context)?, &loaded.engine)
}

/// How long a message of a conversation may be; `instead` is what else can be done about a longer one.
///
/// # Errors
/// When there is no tokenizer.
pub(crate) fn message_bound(loaded: &Loaded, instead: &str) -> Result<Bound, Failure> {
    let state = loaded.engine.plan().map_or(u64::MAX, |plan| plan.state);
    let (text, share) = (text_bytes(loaded)?, state / MESSAGE_SHARE);
    if text <= MESSAGE_BYTES.max(share) {
        return Ok(bound(text, &loaded.engine));
    }
    Ok(message_room(share, loaded.engine.context(), instead))
}

/// The bound of a message of which there may be more than there is room to hold while it is rendered.
fn message_room(share: u64, context: usize, instead: &str) -> Bound {
    if share <= MESSAGE_BYTES {
        let remedy = format!(", the most that one message may have: shorten it, or {instead}");
        return Bound { bytes: MESSAGE_BYTES, remedy };
    }
    let remedy = format!(
        ", the most that one message may have in a context of {context} tokens: shorten it, {instead}, or \
         raise --context"
    );
    Bound { bytes: share, remedy }
}

/// A text of more bytes has more tokens than the context has positions.
fn text_bytes(loaded: &Loaded) -> Result<u64, Failure> {
    let longest = loaded.tokenizer()?.longest_token_bytes() as u64;
    Ok(longest.saturating_mul(loaded.engine.context() as u64))
}

fn bound(bytes: u64, engine: &Engine) -> Bound {
    let (context, remedy) = (engine.context(), engine.context_remedy());
    Bound { bytes, remedy: format!(", too long for a context of {context} tokens: {remedy}") }
}

/// The refusal of an engine, which is never handed what does not fit.
pub(crate) fn fitting(encoded: Encoded, engine: &Engine) -> Result<Vec<u32>, Failure> {
    match encoded.count > engine.context() {
        true => Err(too_long(encoded.count, engine).into()),
        false => Ok(encoded.ids),
    }
}

/// What an engine says of more ids than its context has positions.
pub(crate) fn too_long(prompt: usize, engine: &Engine) -> EngineError {
    EngineError::PromptTooLong {
        prompt,
        context: engine.context(),
        short_of: engine.context_short_of(),
        remedy: engine.context_remedy(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A longer context is no remedy while the bound does not grow with it.
    #[test]
    fn a_message_that_is_too_long_is_told_what_helps() {
        let said = |share| message_room(share, 4096, "leave --chat out");
        let small = said(1000);
        assert_eq!(small.bytes, MESSAGE_BYTES);
        assert!(small.remedy.ends_with("shorten it, or leave --chat out"), "{}", small.remedy);
        let large = said(3 << 20);
        assert_eq!(large.bytes, 3 << 20);
        assert!(large.remedy.contains("context of 4096"), "{}", large.remedy);
        assert!(large.remedy.ends_with("or raise --context"), "{}", large.remedy);
    }
}
