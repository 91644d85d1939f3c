//! Between text and token ids: tokenizer, chat rendering, reply parsing.
#![forbid(unsafe_code)]
