//! Typed access to the fields of a JSON object, with errors that carry the field's path.

use serde_json::{Map, Value};

use super::ConfigError;
use crate::json::quote;

/// An object of the configuration and the path to it.
pub(crate) struct Fields<'v> {
    path: String,
    object: &'v Map<String, Value>,
}

/// A value in a message: on one line, and never long.
fn show(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Number(number) if number.as_str().len() > 40 => "a very long number".to_owned(),
        other => other.to_string(),
    }
}

impl<'v> Fields<'v> {
    pub(crate) fn root(value: &'v Value) -> Result<Fields<'v>, ConfigError> {
        let object = value.as_object().ok_or_else(|| ConfigError::WrongType {
            field: "the file".to_owned(),
            found: show(value),
            wanted: "an object",
        })?;
        Ok(Fields { path: String::new(), object })
    }

    fn full(&self, field: &str) -> String {
        format!("{}{field}", self.path)
    }

    fn wrong(&self, field: &str, found: &Value, wanted: &'static str) -> ConfigError {
        ConfigError::WrongType { field: self.full(field), found: show(found), wanted }
    }

    pub(crate) fn unsupported(&self, field: &str, found: &Value, supported: &str) -> ConfigError {
        let found = match found {
            Value::Array(list) => match list.as_slice() {
                [] => "an empty list".to_owned(),
                [only] => format!("[{}]", show(only)),
                [first, ..] => format!("[{}, …]", show(first)),
            },
            other => show(other),
        };
        ConfigError::Unsupported { field: self.full(field), found, supported: supported.to_owned() }
    }

    pub(crate) fn get(&self, field: &str) -> Result<&'v Value, ConfigError> {
        self.object.get(field).ok_or_else(|| ConfigError::Missing { field: self.full(field) })
    }

    /// The value of a field that may be absent or null.
    pub(crate) fn optional<T>(
        &self,
        field: &str,
        read: impl FnOnce(&Self, &str) -> Result<T, ConfigError>,
    ) -> Result<Option<T>, ConfigError> {
        match self.object.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => read(self, field).map(Some),
        }
    }

    pub(crate) fn object(&self, field: &str) -> Result<Fields<'v>, ConfigError> {
        let value = self.get(field)?;
        let object = value.as_object().ok_or_else(|| self.wrong(field, value, "an object"))?;
        Ok(Fields { path: format!("{}.", self.full(field)), object })
    }

    /// The fields' names and values, in their order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'v str> + use<'v> {
        self.object.keys().map(String::as_str)
    }

    pub(crate) fn switch(&self, field: &str) -> Result<bool, ConfigError> {
        let value = self.get(field)?;
        value.as_bool().ok_or_else(|| self.wrong(field, value, "true or false"))
    }

    /// A whole number of at least 0.
    pub(crate) fn count(&self, field: &str) -> Result<u64, ConfigError> {
        let value = self.get(field)?;
        value.as_u64().ok_or_else(|| self.wrong(field, value, "a whole number, not negative"))
    }

    /// A whole number of at least 1.
    pub(crate) fn dim(&self, field: &str) -> Result<usize, ConfigError> {
        let value = self.get(field)?;
        let number = value.as_u64().filter(|&number| number > 0);
        let number = number.and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| self.wrong(field, value, "a whole number of at least 1"))
    }

    pub(crate) fn float(&self, field: &str) -> Result<f32, ConfigError> {
        let value = self.get(field)?;
        let number = value.as_f64().map(|number| number as f32).filter(|n| n.is_finite());
        number.ok_or_else(|| self.wrong(field, value, "a number"))
    }

    /// A list of whole numbers.
    pub(crate) fn counts(&self, field: &str) -> Result<Vec<u64>, ConfigError> {
        let value = self.get(field)?;
        let list = value.as_array().and_then(|list| list.iter().map(Value::as_u64).collect());
        list.ok_or_else(|| self.wrong(field, value, "a list of whole numbers"))
    }

    /// One token id, a list of them, or none.
    pub(crate) fn ids(&self, field: &str, vocab: usize) -> Result<Vec<u32>, ConfigError> {
        let ids = match self.object.get(field) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(_)) => self.counts(field)?,
            Some(_) => vec![self.count(field)?],
        };
        let id = |found: u64| match u32::try_from(found) {
            Ok(id) if (id as usize) < vocab => Ok(id),
            _ => Err(ConfigError::TokenId { field: self.full(field), found, vocab }),
        };
        ids.into_iter().map(id).collect()
    }

    /// Refuses any value but the one that is implemented.
    pub(crate) fn expect(&self, field: &str, wanted: impl Into<Value>) -> Result<(), ConfigError> {
        let (found, wanted) = (self.get(field)?, wanted.into());
        if *found == wanted { Ok(()) } else { Err(self.unsupported(field, found, &show(&wanted))) }
    }

    /// As [`Fields::expect`], for a field that may be absent.
    pub(crate) fn expect_if_present(
        &self,
        field: &str,
        wanted: impl Into<Value>,
    ) -> Result<(), ConfigError> {
        if self.object.contains_key(field) { self.expect(field, wanted) } else { Ok(()) }
    }
}
