//! What a server says about itself: a line for people, and the same in parts for machines.

use std::fmt;

use serde_json::{Map, Value};

/// One thing worth knowing.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What kind of thing: `request`, `generation`, `shared`, `late_error` or `accept_error`.
    pub event: &'static str,
    /// On one line.
    pub words: String,
    /// What the words are made of.
    pub members: Map<String, Value>,
}

impl Entry {
    pub(crate) fn new(event: &'static str, words: String) -> Entry {
        Entry { event, words, members: Map::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Entry {
        self.members.insert(name.to_owned(), value.into());
        self
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}
