//! The model's vocabulary as grammars see it.

use std::fmt;
use std::sync::Arc;

use deltafin_text::Tokenizer;
use deltafin_text::reply::Marker;
use deltafin_text::tokenizer::SPECIAL_TOKENS;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};

use super::known::Known;

/// Longer tokens are never chosen where a form is kept to; the release's longest has 256 bytes.
const TOKEN_BYTES_MAX: usize = 512;
/// States of a lexer take 1 to 2 kB each; a grammar that needs more than this ends its reply with an error.
const LEXER_STATES_MAX: usize = 50_000;
/// Ways to go on at one place: four for each property that may be left out.
pub(super) const ITEMS_MAX: usize = 10_000;
/// Ways to go on that one mask looks at: a token may end one member and begin another, and each such token meets all
/// ways anew. About 20,000 take a millisecond.
const MASK_ITEMS_MAX: usize = 4_000_000;
/// Work of the lexer for one mask. About 14,000 take a millisecond.
const MASK_FUEL_MAX: u64 = 4_000_000;

/// All tokens by their bytes. Special ones that are no markers are not among them.
pub(crate) struct Vocabulary {
    factory: ParserFactory,
    ordinary: u32,
    close: u32,
    landmarks: Vec<u32>,
    /// Forms that were compiled lately.
    pub(super) known: Known,
}

impl Vocabulary {
    /// Sorts the tokenizer's tokens by their bytes. Takes about a second for a vocabulary of full size.
    ///
    /// # Errors
    /// When the tokenizer lacks a marker.
    pub(crate) fn new(tokenizer: &Tokenizer) -> Result<Vocabulary, String> {
        let id = |marker: Marker| {
            let name = marker.spelling();
            tokenizer.special_id(name).ok_or_else(|| format!("the tokenizer has no {name}"))
        };
        let markers = [id(Marker::Open)?, id(Marker::Close)?, id(Marker::Sep)?, id(Marker::End)?];
        let size = tokenizer.base() + SPECIAL_TOKENS;
        let bytes = (0..size).map(|id| word(tokenizer, id, markers.contains(&id)));
        let trie = TokTrie::from(&TokRxInfo::new(size, markers[3]), &bytes.collect::<Vec<_>>());
        let tokens: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&tokens).map_err(|error| words(&error))?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        factory.limits_mut().max_lexer_states = LEXER_STATES_MAX;
        factory.limits_mut().max_items_in_row = ITEMS_MAX;
        factory.limits_mut().step_max_items = MASK_ITEMS_MAX;
        factory.limits_mut().step_lexer_fuel = MASK_FUEL_MAX;
        let close = markers[1];
        let signs = ["\"", ",", ":"].map(|sign| tokenizer.encode_text(sign));
        let landmarks = [close].into_iter().chain(signs.into_iter().flatten()).collect();
        let (ordinary, known) = (tokenizer.base(), Known::default());
        Ok(Vocabulary { factory, ordinary, close, landmarks, known })
    }

    /// Ids below this one are text.
    pub(super) fn ordinary(&self) -> u32 {
        self.ordinary
    }

    /// The marker that begins a closing tag.
    pub(super) fn close(&self) -> u32 {
        self.close
    }

    /// Ids that lead on to the next part of a form, the one that leads furthest first.
    pub(super) fn landmarks(&self) -> &[u32] {
        &self.landmarks
    }

    /// What follows a grammar in the dialect of `llguidance`.
    ///
    /// # Errors
    /// When it is malformed or too large.
    pub(super) fn compile(&self, grammar: String) -> Result<Matcher, String> {
        let parser = self.factory.create_parser(TopLevelGrammar::from_lark(grammar));
        Ok(Matcher::new(Ok(parser.map_err(|error| words(&error))?)))
    }
}

/// Bytes that no UTF-8 text has tell a marker from its spelling.
fn word(tokenizer: &Tokenizer, id: u32, is_marker: bool) -> Vec<u8> {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    match id < tokenizer.base() {
        true if bytes.len() <= TOKEN_BYTES_MAX => bytes.to_vec(),
        false if is_marker => [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat(),
        _ => Vec::new(),
    }
}

/// What went wrong, on one line.
pub(super) fn words(error: &impl fmt::Display) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("unknown");
    // What `llguidance` asserts of its inputs is their size.
    let first = if first.starts_with("panic:") { "it is too large" } else { first };
    // What is wrong with a pattern comes after the pattern itself.
    let reason = lines.find_map(|line| line.strip_prefix("error: ")).unwrap_or_default();
    let line = if reason.is_empty() { first.to_owned() } else { format!("{first} {reason}") };
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary").field("ordinary", &self.ordinary).finish_non_exhaustive()
    }
}
