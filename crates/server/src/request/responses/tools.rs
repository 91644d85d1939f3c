//! `tools` and `tool_choice` of a response: flat functions, and tools that take free text.

use serde_json::{Map, Value, json};

use super::super::choice::{self, Choice};
use super::super::fields::{Fields, shown};
use super::super::tools::{Declared, Names};
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
            None => return Err(tool.missing("type")),
        }
    }
    Ok(read)
}

fn function(
    tool: &Fields<'_>,
    parameters: Option<Value>,
    names: &mut Names,
) -> Result<Value, ApiError> {
    let name = tool.needed_string("name")?;
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
    names.add(Declared { name, parameters, path: schema, is_strict }, &tool.path("name"))?;
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

/// What may, or must, be called.
pub(super) fn choice(fields: &Fields<'_>, names: &Names) -> Result<Choice, ApiError> {
    let given = fields.get("tool_choice").filter(|choice| choice.is_object());
    let Some(given) = given else { return choice::read(fields, names) };
    let choice = Fields::of(given, "tool_choice".to_owned())?;
    match choice.string("type")? {
        Some("allowed_tools") => choice::allowed(&choice, |tool| named(tool, names)),
        _ => Ok(Choice::of_one(named(&choice, names)?)),
    }
}

/// The name of a declared tool that `tool_choice`, or a part of it, points to.
fn named(tool: &Fields<'_>, names: &Names) -> Result<String, ApiError> {
    let kind = tool.string("type")?;
    if !matches!(kind, Some("function" | "custom")) {
        let (path, given) = (tool.path("type"), shown(kind.unwrap_or_default()));
        return Err(ApiError::value(&path, format!("{path} is '{given}': use function or custom")));
    }
    let name = tool.needed_string("name")?;
    names.require(name, &tool.path("name"))?;
    Ok(name.to_owned())
}
