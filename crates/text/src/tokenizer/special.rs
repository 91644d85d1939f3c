//! The 256 special ids that follow the ordinary ones, and their names.
//!
//! Promises: every special id has a non-empty name and no two share one. A name comes from the
//! tokenizer configuration, else it is `<|reserved_token_N|>` with the full id. Spellings
//! are looked for only in trusted markup.

use std::collections::{BTreeMap, HashMap};

use regex::Regex;
use serde::Deserialize;

use super::TokenizerError;
use crate::{has_byte_order_mark, one_line};

/// The number of special ids after the last rank.
pub const SPECIAL_TOKENS: u32 = 256;
/// The largest tokenizer configuration that is looked at; the release's has 3.5 kB.
pub const TOKENIZER_CONFIG_BYTES_MAX: usize = 1 << 20;
/// The longest name accepted for a special token.
const NAME_BYTES_MAX: usize = 256;

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    added_tokens_decoder: BTreeMap<String, AddedToken>,
}

#[derive(Deserialize)]
struct AddedToken {
    content: String,
}

/// Names of the special ids, both ways.
#[derive(Debug)]
pub(crate) struct Specials {
    base: u32,
    names: Vec<String>,
    by_name: HashMap<String, u32>,
    spelling: Regex,
}

impl Specials {
    pub(crate) fn new(base: u32, config: Option<&[u8]>) -> Result<Self, TokenizerError> {
        let mut names: Vec<String> =
            (base..base + SPECIAL_TOKENS).map(|id| format!("<|reserved_token_{id}|>")).collect();
        for (id, name) in config.map_or(Ok(Vec::new()), |file| configured(base, file))? {
            names[(id - base) as usize] = name;
        }
        let by_name = index(base, &names)?;
        let spelling = spelling_of(&names)?;
        Ok(Self { base, names, by_name, spelling })
    }

    pub(crate) fn name(&self, id: u32) -> Option<&str> {
        self.names.get(id.checked_sub(self.base)? as usize).map(String::as_str)
    }

    pub(crate) fn id(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The leftmost spelling of a special token: where it starts, where it ends, its id.
    pub(crate) fn find(&self, text: &str) -> Option<(usize, usize, u32)> {
        let found = self.spelling.find(text)?;
        Some((found.start(), found.end(), self.id(found.as_str())?))
    }
}

fn configured(base: u32, file: &[u8]) -> Result<Vec<(u32, String)>, TokenizerError> {
    if file.len() > TOKENIZER_CONFIG_BYTES_MAX {
        let (bytes, limit) = (file.len(), TOKENIZER_CONFIG_BYTES_MAX);
        return Err(TokenizerError::ConfigTooLarge { bytes, limit });
    }
    if has_byte_order_mark(file) {
        return Err(TokenizerError::ConfigByteOrderMark);
    }
    let config: Config = serde_json::from_slice(file)
        .map_err(|e| TokenizerError::ConfigJson { reason: one_line(&e.to_string()) })?;
    let named = |(id, token): (String, AddedToken)| Ok((checked_id(base, id)?, checked(token)?));
    config.added_tokens_decoder.into_iter().map(named).collect()
}

fn checked_id(base: u32, id: String) -> Result<u32, TokenizerError> {
    let (first, last) = (base, base + SPECIAL_TOKENS - 1);
    let number = id.bytes().all(|b| b.is_ascii_digit()).then(|| id.parse().ok()).flatten();
    match number {
        Some(number) if (first..=last).contains(&number) => Ok(number),
        _ => Err(TokenizerError::SpecialId { id: one_line(&id), first, last }),
    }
}

fn checked(token: AddedToken) -> Result<String, TokenizerError> {
    match token.content.len() {
        1..=NAME_BYTES_MAX => Ok(token.content),
        bytes => Err(TokenizerError::SpecialName { bytes, limit: NAME_BYTES_MAX }),
    }
}

fn index(base: u32, names: &[String]) -> Result<HashMap<String, u32>, TokenizerError> {
    let mut by_name = HashMap::with_capacity(names.len());
    for (id, name) in (base..).zip(names) {
        if let Some(first) = by_name.insert(name.clone(), id) {
            return Err(TokenizerError::SpecialTwice { name: one_line(name), first, second: id });
        }
    }
    Ok(by_name)
}

/// One search for all names. Longer names come first, so that a name which begins another
/// (none does in the release) never hides it.
fn spelling_of(names: &[String]) -> Result<Regex, TokenizerError> {
    let mut longest_first: Vec<&str> = names.iter().map(String::as_str).collect();
    longest_first.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let alternatives: Vec<String> = longest_first.into_iter().map(regex::escape).collect();
    Regex::new(&alternatives.join("|"))
        .map_err(|e| TokenizerError::ConfigJson { reason: one_line(&e.to_string()) })
}
