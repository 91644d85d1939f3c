//! One message and the calls in it.

use serde::Deserialize;
use serde_json::Value;

use super::{Content, null_as_default};
use crate::reply::Answer;

/// One message. Which fields count depends on the role; the rest are ignored.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Message {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    pub role: String,
    /// What it says.
    pub content: Content,
    /// The speaker's name; of a tool message, the tool's.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// An assistant's reasoning.
    #[serde(deserialize_with = "null_as_default")]
    pub reasoning_content: String,
    /// Another name for the reasoning, used when the first is empty.
    #[serde(deserialize_with = "null_as_default")]
    pub reasoning: String,
    /// An assistant's calls.
    #[serde(deserialize_with = "null_as_default")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    #[serde(deserialize_with = "id")]
    pub tool_call_id: Option<String>,
    /// Another name for the answered call.
    #[serde(deserialize_with = "id")]
    pub id: Option<String>,
    /// The tool's name, before `name`.
    #[serde(deserialize_with = "null_as_default")]
    pub tool: String,
    /// A system message with tools declares them from here on.
    #[serde(deserialize_with = "null_as_default")]
    pub tools: Vec<Value>,
}

impl Message {
    /// A message of any role.
    #[must_use]
    pub fn new(role: &str, content: impl Into<Content>) -> Self {
        Self { role: role.to_owned(), content: content.into(), ..Self::default() }
    }

    /// What a person says.
    #[must_use]
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new("user", content)
    }

    /// An instruction.
    #[must_use]
    pub fn system(content: impl Into<Content>) -> Self {
        Self::new("system", content)
    }

    /// What the model said.
    #[must_use]
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new("assistant", content)
    }

    /// The result of the call with this id.
    #[must_use]
    pub fn tool(tool_call_id: &str, content: impl Into<Content>) -> Self {
        Self { tool_call_id: Some(tool_call_id.to_owned()), ..Self::new("tool", content) }
    }

    /// The tool's own name for itself, if it gives one.
    pub(super) fn tool_name(&self) -> Option<&str> {
        [&self.tool, &self.name].into_iter().find(|name| !name.is_empty()).map(String::as_str)
    }

    /// The call that a tool message says it answers. As everywhere, an empty first name for a
    /// field falls back to the second.
    pub(super) fn answers(&self) -> Option<&str> {
        let given = [&self.tool_call_id, &self.id].into_iter().flatten();
        given.map(String::as_str).find(|id| !id.is_empty())
    }
}

/// The answer as a message of the history. Calls get the ids `call_0`, `call_1`…
impl From<&Answer> for Message {
    fn from(answer: &Answer) -> Self {
        let call = |(at, call): (usize, &crate::reply::Call)| ToolCall {
            id: Some(format!("call_{at}")),
            name: call.name.clone(),
            arguments: Value::String(call.arguments.clone()),
        };
        Self {
            reasoning_content: answer.reasoning_content.clone(),
            tool_calls: answer.tool_calls.iter().enumerate().map(call).collect(),
            ..Self::assistant(answer.content.clone())
        }
    }
}

/// A call in the history.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(from = "AnyCall")]
pub struct ToolCall {
    /// Matches the call with its result.
    pub id: Option<String>,
    /// The function's name.
    pub name: String,
    /// An object, or a string that spells one.
    pub arguments: Value,
}

/// The two JSON forms: nested in `function`, or flat.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnyCall {
    #[serde(deserialize_with = "id")]
    id: Option<String>,
    function: Option<Function>,
    #[serde(deserialize_with = "null_as_default")]
    name: String,
    arguments: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Function {
    #[serde(deserialize_with = "null_as_default")]
    name: String,
    arguments: Value,
}

impl From<AnyCall> for ToolCall {
    fn from(call: AnyCall) -> Self {
        let flat = Function { name: call.name, arguments: call.arguments };
        let Function { name, arguments } = call.function.unwrap_or(flat);
        Self { id: call.id, name, arguments }
    }
}

/// Ids are compared as strings, so a client that numbers its calls is understood.
fn id<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        Value::Number(number) => Ok(Some(crate::json::number(&number))),
        _ => Err(serde::de::Error::custom("a call id must be a string or a number")),
    }
}
