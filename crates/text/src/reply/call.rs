//! A tool call being written.
//!
//! Promises: [`OpenCall::arguments`] follows the model's order, a repeated key keeps its first
//! place and takes its last value, and a value that does not parse as its type says is a
//! string. Fragments published early are a beginning of the final arguments, or no more
//! fragments are published.

use serde_json::Value;

use super::header::Tag;
use crate::json;

/// The call, its arguments so far, and what was published of them.
#[derive(Debug, Clone)]
pub(super) struct OpenCall {
    pub(super) name: String,
    /// Keys with their values as JSON text.
    members: Vec<(String, String)>,
    /// Arguments given as one text, which count instead of the members.
    raw: Option<String>,
    element: Option<Element>,
    /// The joined fragments; nothing once they can no longer come true.
    published: Option<String>,
    /// How much of `published` was handed out.
    taken: usize,
}

#[derive(Debug, Clone)]
enum Element {
    Argument { key: Option<String>, is_string: bool, text: String },
    Json { text: String },
}

impl OpenCall {
    pub(super) fn new(name: String) -> Self {
        let (members, raw, element) = (Vec::new(), None, None);
        Self { name, members, raw, element, published: Some(String::new()), taken: 0 }
    }

    pub(super) fn open_argument(&mut self, tag: &mut Tag) {
        self.abandon_element();
        let key = tag.take("key");
        let is_string = matches!(tag.take("type").as_deref(), None | Some("" | "string"));
        match &key {
            Some(key) if is_string => {
                let head = self.member_head(key);
                self.publish(key, &(head + "\""));
            }
            _ => {}
        }
        self.element = Some(Element::Argument { key, is_string, text: String::new() });
    }

    pub(super) fn open_json(&mut self) {
        self.abandon_element();
        if !self.members.is_empty() || self.raw.is_some() {
            self.published = None;
        }
        self.element = Some(Element::Json { text: String::new() });
    }

    /// Text inside an element; elsewhere in a call it means nothing.
    pub(super) fn text(&mut self, more: &str) {
        match &mut self.element {
            Some(Element::Argument { key, is_string, text }) => {
                text.push_str(more);
                if let (Some(_), true, Some(published)) = (key, *is_string, &mut self.published) {
                    published.push_str(&json::escaped(more));
                }
            }
            Some(Element::Json { text }) => {
                text.push_str(more);
                if let Some(published) = &mut self.published {
                    published.push_str(more);
                }
            }
            None => {}
        }
    }

    pub(super) fn close_argument(&mut self) {
        match self.element.take() {
            Some(Element::Argument { key: Some(key), is_string, text }) => {
                let value = value_of(&text, is_string);
                if is_string {
                    self.publish(&key, "\"");
                } else {
                    let head = self.member_head(&key);
                    self.publish(&key, &(head + &value));
                }
                self.store(key, value);
            }
            Some(Element::Argument { key: None, .. }) => {}
            other => self.element = other,
        }
    }

    pub(super) fn close_json(&mut self) {
        match self.element.take() {
            Some(Element::Json { text }) => self.raw = Some(text),
            other => self.element = other,
        }
    }

    /// The fragment that became known since the last one.
    pub(super) fn take_fragment(&mut self) -> Option<String> {
        let fragment = self.published.as_ref()?[self.taken..].to_owned();
        self.taken += fragment.len();
        (!fragment.is_empty()).then_some(fragment)
    }

    /// Ends the call: the last fragment, if fragments came true, and the arguments.
    pub(super) fn finish(mut self) -> (Option<String>, String) {
        self.abandon_element();
        let arguments = self.arguments();
        let known = self.published.is_some_and(|published| arguments.starts_with(&published));
        let rest = known.then(|| arguments[self.taken..].to_owned());
        (rest.filter(|fragment| !fragment.is_empty()), arguments)
    }

    fn arguments(&self) -> String {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        let member = |(key, value): &(String, String)| format!("{}: {value}", json::quoted(key));
        let members: Vec<String> = self.members.iter().map(member).collect();
        format!("{{{}}}", members.join(", "))
    }

    fn store(&mut self, key: String, value: String) {
        match self.members.iter_mut().find(|(name, _)| *name == key) {
            Some(member) => member.1 = value,
            None => self.members.push((key, value)),
        }
    }

    fn member_head(&self, key: &str) -> String {
        let before = if self.members.is_empty() { "{" } else { ", " };
        format!("{before}{}: ", json::quoted(key))
    }

    fn publish(&mut self, key: &str, fragment: &str) {
        if self.raw.is_some() || self.members.iter().any(|(name, _)| name == key) {
            self.published = None;
        }
        if let Some(published) = &mut self.published {
            published.push_str(fragment);
        }
    }

    /// An element that was never closed is lost; so are fragments that showed it.
    fn abandon_element(&mut self) {
        match self.element.take() {
            None | Some(Element::Argument { key: None, .. }) => {}
            Some(Element::Argument { is_string: false, .. }) => {}
            Some(_) => self.published = None,
        }
    }
}

/// A value that is text, or does not parse, is a string. So is a number too large for a
/// double, whose Python spelling would not be JSON.
fn value_of(text: &str, is_string: bool) -> String {
    let parsed: Option<Value> = (!is_string).then(|| serde_json::from_str(text).ok()).flatten();
    match parsed {
        Some(value) if json::is_finite(&value) => json::spaced(&value),
        _ => json::quoted(text),
    }
}
