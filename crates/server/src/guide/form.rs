//! What a reply must look like after its reasoning.

use serde_json::Value;

use super::references;

/// The form of a reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Form {
    /// The reply begins with reasoning, and opens the channel of its answer itself.
    pub(crate) thinking: bool,
    pub(crate) said: Said,
    /// Calls that may come, or must where nothing is said.
    pub(crate) calls: Option<Calls>,
}

/// What the answer's channel holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    /// Nothing: calls follow at once.
    Nothing,
    /// Any text; calls may follow.
    Text,
    /// JSON that a schema describes; where calls are possible, they may come instead.
    Json {
        /// The schema.
        schema: Value,
        /// Where the request gives it.
        path: String,
    },
}

/// Calls, each to one of these tools.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Calls {
    pub(crate) tools: Vec<Tool>,
    /// Only one call is made.
    pub(crate) single: bool,
}

/// A tool that may be called.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// The schema of its arguments; it takes none if absent.
    pub(crate) parameters: Option<Value>,
    /// Where the request gives them.
    pub(crate) path: String,
    /// Arguments that no grammar expresses may be any object.
    pub(crate) lenient: bool,
}

impl Form {
    /// The same form with references that are followed without their escapes.
    pub(super) fn with_plain_references(&self) -> Form {
        let mut form = self.clone();
        if let Said::Json { schema, .. } = &mut form.said {
            references::simplify(schema);
        }
        let tools = form.calls.iter_mut().flat_map(|calls| &mut calls.tools);
        tools.filter_map(|tool| tool.parameters.as_mut()).for_each(references::simplify);
        form
    }

    /// The member of the request that asks for it.
    pub(super) fn path(&self) -> &str {
        match (&self.said, &self.calls) {
            (Said::Json { path, .. }, _) => path,
            _ => "tools",
        }
    }
}
