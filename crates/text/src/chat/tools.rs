//! The bodies of system messages that the program itself writes.

use serde_json::Value;

use super::{ChatError, Effort, ToolChoice};
use crate::json::compact_sorted;

const TOOLS_HEAD: &str = "# Tools\nHere are the available tools, described in JSONSchema.\n\n";
const MORE_TOOLS_HEAD: &str = "## New Tools Available\nThe system dynamically extends the toolset via lazy-loading.\nYou have access to all existing and extended tools.\nHere are the specs for the extended tools.\n\n";
const REQUIRED: &str =
    "The system is invoked with `tool_choice=required`.\nYou MUST call tools in the next message.";
const FORBIDDEN: &str = "The system is invoked with `tool_choice=none`.\nYou MUST NOT call any tools in the next message.";
const RAW_JSON: &str = "Your response must be raw JSON data without markdown code blocks (```json) or any additional formatting.";

/// The tools of the whole conversation.
pub(super) fn declaration(tools: &[Value]) -> String {
    TOOLS_HEAD.to_owned() + &fenced(&Value::Array(tools.to_vec()))
}

/// Tools that a system message adds.
pub(super) fn dynamic_declaration(tools: &[Value]) -> String {
    MORE_TOOLS_HEAD.to_owned() + &fenced(&Value::Array(tools.to_vec()))
}

pub(super) fn effort(effort: Effort) -> String {
    let effort = effort.as_str();
    format!(
        "`thinking_effort` guides on how much to think in your thinking channel (not including the response channel), supported values include `low`, `medium`, `high`, and `max`.\nNow the system is invoked with `thinking_effort={effort}`."
    )
}

pub(super) fn choice(choice: ToolChoice) -> Option<&'static str> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::Required => Some(REQUIRED),
        ToolChoice::None => Some(FORBIDDEN),
    }
}

pub(super) fn response_format(format: &Value) -> Result<Option<String>, ChatError> {
    let refuse = |reason| Err(ChatError::ResponseFormat { reason });
    let invoked =
        |kind| format!("The system is invoked with `response_format={kind}`.\n{RAW_JSON}");
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(invoked("json_object"))),
        Some("json_schema") => match schema(format) {
            Some(schema) => Ok(Some(format!(
                "{}\nThe JSON data must match the following schema:\n{}",
                invoked("json_schema"),
                fenced(schema)
            ))),
            None => refuse("json_schema needs a json_schema member; add the schema"),
        },
        _ => refuse("the type must be text, json_object or json_schema"),
    }
}

/// Clients nest the schema in three ways.
fn schema(format: &Value) -> Option<&Value> {
    let present = |value: &&Value| !value.is_null();
    let given = format.get("json_schema").filter(present)?;
    let nested =
        ["schema", "json_schema"].into_iter().find_map(|key| given.get(key).filter(present));
    Some(nested.unwrap_or(given))
}

fn fenced(value: &Value) -> String {
    format!("```json\n{}\n```", compact_sorted(value))
}
