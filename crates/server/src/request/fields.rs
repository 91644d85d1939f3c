//! Members of a JSON object by type. `null` means absent everywhere; a wrong type names its path.

use serde_json::{Map, Value};

use crate::http::ApiError;

/// An object and the path that leads to it.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    members: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    /// The request itself.
    pub(crate) fn of_request(value: &'a Value) -> Result<Fields<'a>, ApiError> {
        let members = value
            .as_object()
            .ok_or_else(|| ApiError::json("the body must be a JSON object".to_owned()))?;
        Ok(Fields { members, path: String::new() })
    }

    /// An object somewhere inside.
    pub(crate) fn of(value: &'a Value, path: String) -> Result<Fields<'a>, ApiError> {
        match value.as_object() {
            Some(members) => Ok(Fields { members, path }),
            None => Err(wrong_type(&path, "an object", value)),
        }
    }

    /// The path of a member.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Names of the members that say something.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.members.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.as_str())
    }

    /// A member of any type.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    fn typed<T>(
        &self,
        name: &str,
        wanted: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| wrong_type(&self.path(name), wanted, value))
    }

    pub(crate) fn string(&self, name: &str) -> Result<Option<&'a str>, ApiError> {
        self.typed(name, "a string", Value::as_str)
    }

    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.typed(name, "true or false", Value::as_bool)
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, ApiError> {
        self.typed(name, "a number", Value::as_f64)
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        // Some clients write whole numbers with a point.
        let whole = |value: &Value| {
            let float = value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15);
            value.as_i64().or(float.map(|n| n as i64))
        };
        self.typed(name, "an integer", whole)
    }

    pub(crate) fn array(&self, name: &str) -> Result<Option<&'a [Value]>, ApiError> {
        self.typed(name, "an array", |value| value.as_array().map(Vec::as_slice))
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<Fields<'a>>, ApiError> {
        self.get(name).map(|value| Fields::of(value, self.path(name))).transpose()
    }

    /// A string that has to be there.
    pub(crate) fn needed_string(&self, name: &str) -> Result<&'a str, ApiError> {
        self.string(name)?.ok_or_else(|| self.missing(name))
    }

    /// An object that has to be there.
    pub(crate) fn needed_object(&self, name: &str) -> Result<Fields<'a>, ApiError> {
        self.object(name)?.ok_or_else(|| self.missing(name))
    }

    /// What is said where a member has to be there and is not.
    pub(crate) fn missing(&self, name: &str) -> ApiError {
        let path = self.path(name);
        ApiError::missing(&path, format!("{path} is missing"))
    }
}

/// What was wanted, and what came instead.
pub(crate) fn wrong_type(path: &str, wanted: &str, found: &Value) -> ApiError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    ApiError::value(path, format!("{path} must be {wanted}, not {found}"))
}

/// Foreign words in a message, short and on one line.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(80).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
