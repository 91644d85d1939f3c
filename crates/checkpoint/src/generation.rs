//! `generation_config.json`: where a reply ends.

use crate::config::{ConfigError, Fields, parse_json};

/// What `generation_config.json` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// The ids that end a reply; may be empty.
    pub eos: Vec<u32>,
    /// The most tokens of prompt and reply together.
    pub max_length: Option<u64>,
}

impl Generation {
    /// Parses the bytes of `generation_config.json` of a model with `vocab` token ids.
    pub fn parse(bytes: &[u8], vocab: usize) -> Result<Generation, ConfigError> {
        let value = parse_json(bytes)?;
        let fields = Fields::root(&value)?;
        Ok(Generation {
            eos: fields.ids("eos_token_id", vocab)?,
            max_length: fields.optional("max_length", |f, name| f.dim(name).map(|n| n as u64))?,
        })
    }
}
