//! Whether and how much to think. Clients say it in six ways; the more specific one counts.

use deltafin_text::Effort;

use super::fields::{Fields, shown};
use crate::http::ApiError;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thinking {
    /// Nothing means that thinking is off.
    pub(crate) effort: Option<Effort>,
    /// The word that was given is not the model's own.
    pub(crate) mapped: bool,
}

/// One place's opinion: on or off, and how much.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    on: Option<bool>,
    effort: Option<Word>,
}

#[derive(Clone, Copy, Debug)]
enum Word {
    Off,
    Level(Effort, bool),
}

impl Thinking {
    /// Reads all the places; where none of them says anything, it is as `usual`.
    pub(crate) fn read(fields: &Fields<'_>, usual: Option<Effort>) -> Result<Thinking, ApiError> {
        let places = [
            thinking(fields)?,
            effort_in(Some(fields), "reasoning_effort")?,
            nested(fields)?,
            template(fields)?,
            { Said { on: fields.boolean("enable_thinking")?, effort: None } },
        ];
        let word = places.iter().find_map(|said| said.effort);
        let on = places.iter().find_map(|said| said.on);
        match (on, word) {
            (Some(false), Some(Word::Level(..))) => Err(ApiError::value(
                "reasoning_effort",
                "thinking is switched off and an effort is given: send one of the two",
            )),
            (Some(true), Some(Word::Off)) => Err(ApiError::value(
                "reasoning_effort",
                "thinking is switched on and the effort is none: send one of the two",
            )),
            (Some(false), _) | (_, Some(Word::Off)) => Ok(Thinking { effort: None, mapped: false }),
            (_, Some(Word::Level(effort, mapped))) => Ok(Thinking { effort: Some(effort), mapped }),
            (Some(true), None) => {
                Ok(Thinking { effort: Some(usual.unwrap_or_default()), mapped: false })
            }
            (None, None) => Ok(Thinking { effort: usual, mapped: false }),
        }
    }
}

/// The publisher's own form: an object, or a boolean.
fn thinking(fields: &Fields<'_>) -> Result<Said, ApiError> {
    if let Some(on) = fields.get("thinking").and_then(serde_json::Value::as_bool) {
        return Ok(Said { on: Some(on), effort: None });
    }
    let Some(object) = fields.object("thinking")? else { return Ok(Said::default()) };
    let on = match object.string("type")? {
        None => None,
        Some("enabled") => Some(true),
        Some("disabled") => Some(false),
        Some(other) => {
            let message = format!("thinking.type is '{}': use enabled or disabled", shown(other));
            return Err(ApiError::value("thinking.type", message));
        }
    };
    match object.string("keep")? {
        Some(keep) if keep != "all" && on != Some(false) => Err(ApiError::value(
            "thinking.keep",
            format!("thinking.keep is '{}': the format keeps all reasoning, use all", shown(keep)),
        )),
        _ => Ok(Said { on, ..effort_in(Some(&object), "effort")? }),
    }
}

fn nested(fields: &Fields<'_>) -> Result<Said, ApiError> {
    effort_in(fields.object("reasoning")?.as_ref(), "effort")
}

fn template(fields: &Fields<'_>) -> Result<Said, ApiError> {
    let Some(object) = fields.object("chat_template_kwargs")? else { return Ok(Said::default()) };
    let on = object.boolean("thinking")?.or(object.boolean("enable_thinking")?);
    let first = effort_in(Some(&object), "thinking_effort")?.effort;
    let effort = first.or(effort_in(Some(&object), "reasoning_effort")?.effort);
    Ok(Said { on, effort })
}

fn effort_in(fields: Option<&Fields<'_>>, name: &str) -> Result<Said, ApiError> {
    let Some(fields) = fields else { return Ok(Said::default()) };
    let word = match fields.string(name)?.map(str::trim) {
        None => return Ok(Said::default()),
        Some("low") => Word::Level(Effort::Low, false),
        Some("high") => Word::Level(Effort::High, false),
        Some("max") => Word::Level(Effort::Max, false),
        Some("medium") => Word::Level(Effort::High, true),
        Some("xhigh") => Word::Level(Effort::Max, true),
        Some("none" | "off" | "minimal") => Word::Off,
        Some(other) => {
            let path = fields.path(name);
            let message = format!("{path} is '{}': use low, high, max or none", shown(other));
            return Err(ApiError::value(&path, message));
        }
    };
    Ok(Said { on: None, effort: Some(word) })
}

/// How much, in the words of dialects that take `minimal` for little rather than for none.
pub(super) fn graded(fields: &Fields<'_>, name: &str) -> Result<Option<Thinking>, ApiError> {
    let said = match fields.string(name)?.map(str::trim) {
        Some("minimal") => Some(Word::Level(Effort::Low, true)),
        _ => effort_in(Some(fields), name)?.effort,
    };
    Ok(said.map(|word| match word {
        Word::Off => Thinking { effort: None, mapped: false },
        Word::Level(effort, mapped) => Thinking { effort: Some(effort), mapped },
    }))
}
