//! `tools` and `tool_choice` of a response: flat functions, and tools that take free text.

use deltafin_text::chat::ToolChoice;
use serde_json::{Map, Value, json};

use super::super::fields::{Fields, shown};
use super::super::tools::{self, Choice, Declared, Names};
use crate::http::ApiError;

/// What the tools of a request are.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// As a chat declares them.
    pub(super) rendered: Vec<Value>,
    /// Names of those that take free text.
    pub(super) custom: Vec<String>,
    /// Paths of those that a server would have to bring along.
    pub(super) ignored: Vec<String>,
}

/// Reads the tools. Agents offer search and the like to every server, whether it has them or not.
pub(super) fn declare(fields: &Fields<'_>, names: &mut Names) -> Result<Tools, ApiError> {
    let mut read = Tools::default();
    for (at, value) in fields.array("tools")?.unwrap_or_default().iter().enumerate() {
        let path = format!("tools[{at}]");
        let tool = Fields::of(value, path.clone())?;
        match tool.string("type")? {
            Some("function") => {
                tool.object("parameters")?;
                let parameters = tool.get("parameters").cloned();
                read.rendered.push(function(&tool, parameters, names)?);
            }
            Some("custom") => {
                read.rendered.push(function(&tool, Some(free_text(&tool)?), names)?);
                read.custom.extend(tool.string("name")?.map(str::to_owned));
            }
            Some(_) => read.ignored.push(path),
            None => {
                let path = tool.path("type");
                return Err(ApiError::missing(&path, format!("{path} is missing")));
            }
        }
    }
    Ok(read)
}

fn function(
    tool: &Fields<'_>,
    parameters: Option<Value>,
    names: &mut Names,
) -> Result<Value, ApiError> {
    let path = tool.path("name");
    let name = tool.string("name")?;
    let name = name.ok_or_else(|| ApiError::missing(&path, format!("{path} is missing")))?;
    let mut function = Map::new();
    function.insert("name".to_owned(), json!(name));
    for (member, value) in [
        ("description", tool.string("description")?.map(|text| json!(text))),
        ("parameters", parameters.clone()),
    ] {
        function.extend(value.map(|value| (member.to_owned(), value)));
    }
    let is_strict = tool.boolean("strict")?.unwrap_or(false);
    let (name, schema) = (name.to_owned(), tool.path("parameters"));
    names.add(Declared { name, parameters, path: schema, is_strict }, &path)?;
    Ok(json!({ "type": "function", "function": function }))
}

/// One string. A grammar for it is told to the model, not enforced.
fn free_text(tool: &Fields<'_>) -> Result<Value, ApiError> {
    let format = tool.object("format")?;
    let grammar = format.map(|format| format.string("definition")).transpose()?.flatten();
    let mut input = json!({ "type": "string" });
    if let Some(grammar) = grammar {
        input["description"] = json!(format!("A text of this grammar:\n{grammar}"));
    }
    Ok(json!({
        "type": "object",
        "properties": { "input": input },
        "required": ["input"],
        "additionalProperties": false,
    }))
}

/// What must be called, if anything must.
pub(super) fn choice(fields: &Fields<'_>, names: &Names) -> Result<Choice, ApiError> {
    if !fields.get("tool_choice").is_some_and(Value::is_object) {
        return tools::choice(fields, names);
    }
    let Some(choice) = fields.object("tool_choice")? else { return tools::choice(fields, names) };
    match choice.string("type")? {
        Some("function" | "custom") => {
            let path = choice.path("name");
            let name = choice.string("name")?;
            let name =
                name.ok_or_else(|| ApiError::missing(&path, format!("{path} is missing")))?;
            names.require(name, &path)?;
            Ok(Choice { rendered: ToolChoice::Required, named: Some(name.to_owned()) })
        }
        other => {
            let given = shown(other.unwrap_or_default());
            let message = format!("tool_choice.type is '{given}': use function or custom");
            Err(ApiError::value("tool_choice.type", message))
        }
    }
}
