//! `tools` and `response_format`.

use std::collections::HashSet;

use serde_json::Value;

use super::fields::{Fields, shown};
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
            None => return Err(tool.missing("type")),
        }
        let function = tool.needed_object("function")?;
        function.string("description")?;
        function.object("parameters")?;
        let is_strict = function.boolean("strict")?.unwrap_or(false);
        let declared = Declared {
            name: function.needed_string("name")?.to_owned(),
            parameters: function.get("parameters").cloned(),
            path: function.path("parameters"),
            is_strict,
        };
        self.add(declared, &function.path("name"))
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
    check_schema(&format.needed_object("json_schema")?)
}

/// A schema with a name.
pub(super) fn check_schema(schema: &Fields<'_>) -> Result<(), ApiError> {
    schema.needed_string("name")?;
    schema.needed_object("schema")?;
    schema.boolean("strict")?;
    Ok(())
}
