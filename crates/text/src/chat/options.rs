//! The two choices that have a closed set of values.

use std::str::FromStr;

use serde::Deserialize;

use super::ChatError;

/// How much the model should think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effort {
    /// Little.
    Low,
    /// Much.
    High,
    /// As much as it takes; the publisher's default.
    #[default]
    Max,
}

impl Effort {
    /// The word the format uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::High => "high",
            Self::Max => "max",
        }
    }
}

impl FromStr for Effort {
    type Err = ChatError;

    fn from_str(given: &str) -> Result<Self, ChatError> {
        [Self::Low, Self::High, Self::Max]
            .into_iter()
            .find(|effort| effort.as_str() == given)
            .ok_or_else(|| ChatError::Effort { given: crate::one_line(given) })
    }
}

/// Whether the model may, must or must not call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoice {
    /// It may.
    #[default]
    Auto,
    /// It must.
    Required,
    /// It must not, and calls it makes anyway are not published.
    None,
}
