//! `tools` and `tool_choice` of Messages.

use deltafin_text::chat::ToolChoice;
use serde_json::{Map, Value, json};

use super::super::choice::Choice;
use super::super::fields::{Fields, shown};
use super::super::tools::{Declared, Names};
use crate::http::ApiError;

/// The tools as a chat declares them.
pub(super) fn declare(fields: &Fields<'_>, names: &mut Names) -> Result<Vec<Value>, ApiError> {
    let tools = fields.array("tools")?.unwrap_or_default();
    let read = |(at, tool): (usize, &Value)| {
        declare_one(&Fields::of(tool, format!("tools[{at}]"))?, names)
    };
    tools.iter().enumerate().map(read).collect()
}

fn declare_one(tool: &Fields<'_>, names: &mut Names) -> Result<Value, ApiError> {
    if let Some(kind) = tool.string("type")?.filter(|kind| *kind != "custom") {
        let path = tool.path("type");
        let message = format!("{path} is '{}': only custom tools are known here", shown(kind));
        return Err(ApiError::unsupported(&path, message));
    }
    let (name, schema) = (tool.needed_string("name")?, tool.path("input_schema"));
    tool.needed_object("input_schema")?;
    let parameters = tool.get("input_schema").cloned();
    let mut function = Map::new();
    function.insert("name".to_owned(), json!(name));
    if let Some(description) = tool.string("description")? {
        function.insert("description".to_owned(), json!(description));
    }
    function.insert("parameters".to_owned(), json!(parameters));
    let is_strict = tool.boolean("strict")?.unwrap_or(false);
    let declared = Declared { name: name.to_owned(), parameters, path: schema, is_strict };
    names.add(declared, &tool.path("name"))?;
    Ok(json!({ "type": "function", "function": function }))
}

/// What must be called, if anything must.
pub(super) fn choice(fields: &Fields<'_>, names: &Names) -> Result<Choice, ApiError> {
    let auto = Choice::among_all(ToolChoice::Auto);
    let Some(choice) = fields.object("tool_choice")? else { return Ok(auto) };
    match choice.string("type")? {
        Some("auto") => Ok(auto),
        Some("none") => Ok(Choice::among_all(ToolChoice::None)),
        Some("any") => {
            names.require_some()?;
            Ok(Choice::among_all(ToolChoice::Required))
        }
        Some("tool") => {
            let name = choice.needed_string("name")?;
            names.require(name, "tool_choice.name")?;
            Ok(Choice::of_one(name.to_owned()))
        }
        other => {
            let given = shown(other.unwrap_or_default());
            let message = format!("tool_choice.type is '{given}': use auto, any, tool or none");
            Err(ApiError::value("tool_choice.type", message))
        }
    }
}

/// Whether more than one call may be made.
pub(super) fn is_parallel(fields: &Fields<'_>) -> Result<bool, ApiError> {
    let choice = fields.object("tool_choice")?;
    let single = choice.map(|choice| choice.boolean("disable_parallel_tool_use")).transpose()?;
    Ok(!single.flatten().unwrap_or(false))
}
