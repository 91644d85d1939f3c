//! `tools`, `tool_choice` and `response_format`.

use std::collections::HashSet;

use deltafin_text::chat::ToolChoice;
use serde_json::Value;

use super::fields::{Fields, shown, wrong_type};
use crate::http::ApiError;

const NAME_MAX: usize = 256;

/// All tools, those of messages included. No two have one name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: HashSet<String>,
    declared: Vec<Declared>,
}

/// A tool as far as its calls are concerned.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) name: String,
    /// The schema of its arguments.
    pub(crate) parameters: Option<Value>,
    /// Where that stands.
    pub(crate) path: String,
    pub(crate) is_strict: bool,
}

/// `tool_choice`.
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

impl Names {
    pub(crate) fn is_empty(&self) -> bool {
        self.declared.is_empty()
    }

    /// In the order in which they were declared.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Declared> {
        self.declared.iter()
    }

    /// Something must be called.
    pub(super) fn require_some(&self) -> Result<(), ApiError> {
        if self.is_empty() {
            let message = "tool_choice is required and there are no tools: declare one";
            return Err(ApiError::value("tool_choice", message));
        }
        Ok(())
    }

    /// The tool that `path` names must be called.
    pub(super) fn require(&self, name: &str, path: &str) -> Result<(), ApiError> {
        if !self.names.contains(name) {
            let message = format!("tool_choice names '{}', which no tool has", shown(name));
            return Err(ApiError::value(path, message));
        }
        Ok(())
    }

    /// Checks declarations and keeps them as they are: they are rendered, not interpreted.
    pub(crate) fn declare(&mut self, tools: &[Value], path: &str) -> Result<Vec<Value>, ApiError> {
        for (at, tool) in tools.iter().enumerate() {
            self.tool(&Fields::of(tool, format!("{path}[{at}]"))?)?;
        }
        Ok(tools.to_vec())
    }

    fn tool(&mut self, tool: &Fields<'_>) -> Result<(), ApiError> {
        let path = tool.path("type");
        match tool.string("type")? {
            Some("function") => {}
            Some(kind) => {
                let message = format!("{path} is '{}': use function", shown(kind));
                return Err(ApiError::value(&path, message));
            }
            None => return Err(ApiError::missing(&path, format!("{path} is missing"))),
        }
        let path = tool.path("function");
        let function = tool
            .object("function")?
            .ok_or_else(|| ApiError::missing(&path, format!("{path} is missing")))?;
        function.string("description")?;
        function.object("parameters")?;
        let is_strict = function.boolean("strict")?.unwrap_or(false);
        let path = function.path("name");
        let name = function
            .string("name")?
            .ok_or_else(|| ApiError::missing(&path, format!("{path} is missing")))?;
        let declared = Declared {
            name: name.to_owned(),
            parameters: function.get("parameters").cloned(),
            path: function.path("parameters"),
            is_strict,
        };
        self.add(declared, &path)
    }

    /// A tool whose name stands at `path`.
    pub(super) fn add(&mut self, tool: Declared, path: &str) -> Result<(), ApiError> {
        let name = &tool.name;
        if !is_name(name) {
            let rule = "a letter or _, then letters, digits, _ . -, 256 at most";
            let message = format!("{path} is '{}': use {rule}", shown(name));
            return Err(ApiError::value(path, message));
        }
        if !self.names.insert(name.clone()) {
            return Err(ApiError::value(path, format!("{path}: '{name}' is declared twice")));
        }
        self.declared.push(tool);
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    first && rest && name.len() <= NAME_MAX
}

/// `tool_choice`.
pub(crate) fn choice(fields: &Fields<'_>, names: &Names) -> Result<Choice, ApiError> {
    let choice = match fields.get("tool_choice") {
        None => Choice::among_all(ToolChoice::Auto),
        Some(Value::String(word)) => Choice::among_all(word_of(word)?),
        Some(object @ Value::Object(_)) => {
            let choice = Fields::of(object, "tool_choice".to_owned())?;
            match choice.string("type")? {
                Some("allowed_tools") => {
                    let path = choice.path("allowed_tools");
                    let allowed = choice.object("allowed_tools")?;
                    let allowed = allowed
                        .ok_or_else(|| ApiError::missing(&path, format!("{path} is missing")))?;
                    self::allowed(&allowed, |tool| named(tool, names))?
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
    let path = format!("{}.name", tool.path("function"));
    let name = function.map(|function| function.string("name")).transpose()?.flatten();
    let name = name.ok_or_else(|| ApiError::missing(&path, format!("{path} is missing")))?;
    names.require(name, &path)?;
    Ok(name.to_owned())
}

/// `response_format`, as the model is told about it; nothing for plain text.
pub(crate) fn response_format(fields: &Fields<'_>) -> Result<Option<Value>, ApiError> {
    let Some(format) = fields.object("response_format")? else { return Ok(None) };
    match format.string("type")? {
        Some("text") => return Ok(None),
        Some("json_object") => {}
        Some("json_schema") => json_schema(&format)?,
        _ => {
            let message = "response_format.type must be text, json_object or json_schema";
            return Err(ApiError::value("response_format.type", message));
        }
    }
    Ok(fields.get("response_format").cloned())
}

fn json_schema(format: &Fields<'_>) -> Result<(), ApiError> {
    let missing = |path: &str| ApiError::missing(path, format!("{path} is missing"));
    let path = format.path("json_schema");
    let schema = format.object("json_schema")?.ok_or_else(|| missing(&path))?;
    check_schema(&schema)
}

/// A schema with a name.
pub(super) fn check_schema(schema: &Fields<'_>) -> Result<(), ApiError> {
    let missing = |path: &str| ApiError::missing(path, format!("{path} is missing"));
    schema.string("name")?.ok_or_else(|| missing(&schema.path("name")))?;
    schema.object("schema")?.ok_or_else(|| missing(&schema.path("schema")))?;
    schema.boolean("strict")?;
    Ok(())
}
