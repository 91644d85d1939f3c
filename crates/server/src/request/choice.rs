//! `tool_choice`: which of the tools may be called, and whether one must be.

use deltafin_text::chat::ToolChoice;
use serde_json::Value;

use super::fields::{Fields, shown, wrong_type};
use super::tools::Names;
use crate::http::ApiError;

/// What may be called.
#[derive(Debug)]
pub(crate) struct Choice {
    /// What the model is told.
    pub(crate) rendered: ToolChoice,
    /// The tools that may be called; all of them if it names none.
    pub(crate) only: Vec<String>,
    /// One call is all that is wanted.
    pub(crate) single: bool,
}

impl Choice {
    /// A choice among all tools.
    pub(super) fn among_all(rendered: ToolChoice) -> Choice {
        Choice { rendered, only: Vec::new(), single: false }
    }

    /// A call to this tool, which the model is told of as of any that must be made.
    pub(super) fn of_one(name: String) -> Choice {
        Choice { rendered: ToolChoice::Required, only: vec![name], single: true }
    }
}

/// Reads a chat's `tool_choice`.
pub(crate) fn read(fields: &Fields<'_>, names: &Names) -> Result<Choice, ApiError> {
    let choice = match fields.get("tool_choice") {
        None => Choice::among_all(ToolChoice::Auto),
        Some(Value::String(word)) => Choice::among_all(word_of(word)?),
        Some(object @ Value::Object(_)) => {
            let choice = Fields::of(object, "tool_choice".to_owned())?;
            match choice.string("type")? {
                Some("allowed_tools") => {
                    allowed(&choice.needed_object("allowed_tools")?, |tool| named(tool, names))?
                }
                _ => Choice::of_one(named(&choice, names)?),
            }
        }
        Some(other) => return Err(wrong_type("tool_choice", "a string or an object", other)),
    };
    if choice.rendered == ToolChoice::Required {
        names.require_some()?;
    }
    Ok(choice)
}

fn word_of(choice: &str) -> Result<ToolChoice, ApiError> {
    match choice {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        other => {
            let words = "use auto, none, required, a function or allowed_tools";
            let message = format!("tool_choice is '{}': {words}", shown(other));
            Err(ApiError::value("tool_choice", message))
        }
    }
}

/// Some of the tools, one of which may or must be called. How each of them is named is the dialect's.
pub(super) fn allowed(
    choice: &Fields<'_>,
    named: impl Fn(&Fields<'_>) -> Result<String, ApiError>,
) -> Result<Choice, ApiError> {
    let path = choice.path("mode");
    let rendered = match choice.string("mode")? {
        Some("auto") => ToolChoice::Auto,
        Some("required") => ToolChoice::Required,
        _ => return Err(ApiError::value(&path, format!("{path} must be auto or required"))),
    };
    let path = choice.path("tools");
    let tools = choice.array("tools")?.unwrap_or_default();
    if tools.is_empty() {
        return Err(ApiError::missing(&path, format!("{path} is missing: list at least one tool")));
    }
    let read = |(at, tool): (usize, &Value)| named(&Fields::of(tool, format!("{path}[{at}]"))?);
    let only = tools.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    Ok(Choice { rendered, only, single: false })
}

/// The name of a declared function that `tool_choice`, or a part of it, points to.
fn named(tool: &Fields<'_>, names: &Names) -> Result<String, ApiError> {
    let function = match tool.string("type")? {
        Some("function") => tool.object("function")?,
        _ => {
            let path = tool.path("type");
            return Err(ApiError::value(&path, format!("{path} must be function")));
        }
    };
    let function = function.ok_or_else(|| tool.missing("function.name"))?;
    let name = function.needed_string("name")?;
    names.require(name, &function.path("name"))?;
    Ok(name.to_owned())
}
