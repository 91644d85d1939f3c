//! The form that a request wants its reply to have.

use deltafin_text::chat::{Request, ToolChoice};
use serde_json::{Value, json};

use super::choice::Choice;
use super::tools::{Declared, Names};
use crate::guide::{Calls, Form, Said, Tool};

/// The form of the reply; none where all of it is left to the model.
pub(crate) fn of(
    request: &Request,
    tools: &Names,
    choice: &Choice,
    parallel: bool,
    schema_path: &str,
) -> Option<Form> {
    let must = choice.rendered == ToolChoice::Required;
    let format = request.response_format.as_ref().map(|format| wanted(format, schema_path));
    let may = choice.rendered == ToolChoice::Auto && !tools.is_empty();
    let is_allowed = |name: &String| choice.only.is_empty() || choice.only.contains(name);
    let is_bound = !choice.only.is_empty() || tools.all().any(|tool| tool.is_strict);
    if !must && format.is_none() && !(may && is_bound) {
        return None;
    }
    let said = match format {
        _ if must => Said::Nothing,
        Some(said) => said,
        None => Said::Text,
    };
    let called = tools.all().filter(|tool| is_allowed(&tool.name));
    let calls = (must || may).then(|| Calls {
        tools: called.map(|declared| tool(declared, must)).collect(),
        single: choice.single || !parallel,
    });
    Some(Form { thinking: request.thinking, said, calls })
}

/// A format, which was checked: an object is wanted, or what a schema describes.
fn wanted(format: &Value, schema_path: &str) -> Said {
    let schema = format["json_schema"].get("schema").cloned();
    let schema = schema.unwrap_or_else(|| json!({ "type": "object" }));
    Said::Json { schema, path: schema_path.to_owned() }
}

fn tool(declared: &Declared, must: bool) -> Tool {
    Tool {
        name: declared.name.clone(),
        parameters: declared.parameters.clone(),
        path: declared.path.clone(),
        lenient: !must && !declared.is_strict,
    }
}
