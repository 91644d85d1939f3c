//! Fields that chats and completions share.

use serde_json::Value;

use super::fields::{Fields, shown, wrong_type};
use crate::choice::Sampling;
use crate::http::ApiError;
use crate::settings::Settings;

/// Members that mean something, or are checked, in every dialect.
const KNOWN_EVERYWHERE: &[&str] = &[
    "model",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "repetition_penalty",
    "n",
    "best_of",
];

/// Sequences that may end an answer.
const STOPS_MAX: usize = 16;

/// Alternatives that are told beside a token.
const ALTERNATIVES_MAX: usize = 20;

/// What the server was told about all requests.
#[derive(Clone, Copy)]
pub(crate) struct Policy<'a> {
    pub(crate) settings: &'a Settings,
    /// Seeds for requests that give none.
    pub(crate) fresh_seed: &'a dyn Fn() -> u64,
}

/// How ids are drawn. Where chance is not allowed, its settings are only checked, so that a mistake
/// is still noticed. A request that gives none of them, or a temperature of 0, wants the most likely ids.
pub(crate) fn sampling(
    fields: &Fields<'_>,
    policy: Policy<'_>,
) -> Result<Option<Sampling>, ApiError> {
    check_neutral(fields, policy.settings.lenient)?;
    let temperature = within(fields, "temperature", 0.0, 2.0)?;
    let top_p = within(fields, "top_p", 0.0, 1.0)?;
    let (min_p, top_k) = (fields.number("min_p")?, fields.integer("top_k")?);
    let seed = seed(fields)?;
    fields.number("typical_p")?;
    if !policy.settings.allow_sampling {
        return Ok(None);
    }
    within(fields, "min_p", 0.0, 1.0)?;
    let narrowed = top_p.is_some() || min_p.is_some() || top_k.is_some();
    let temperature = temperature.unwrap_or(if narrowed { 1.0 } else { 0.0 });
    if temperature == 0.0 {
        return Ok(None);
    }
    Ok(Some(Sampling {
        temperature,
        // Some clients say −1 for all.
        top_k: top_k.and_then(|count| usize::try_from(count).ok()).unwrap_or(0),
        top_p: top_p.unwrap_or(1.0),
        min_p: min_p.unwrap_or(0.0),
        seed: seed.unwrap_or_else(policy.fresh_seed),
    }))
}

/// A seed: any whole number of 64 bits, with or without a sign. Both are the same bits.
fn seed(fields: &Fields<'_>) -> Result<Option<u64>, ApiError> {
    let given = fields.get("seed");
    if let Some(seed) = given.and_then(Value::as_u64) {
        return Ok(Some(seed));
    }
    let is_huge = |seed: &Value| seed.as_f64().is_some_and(|seed| seed.abs() >= 9e15);
    if given.is_some_and(is_huge) && given.and_then(Value::as_i64).is_none() {
        let message = "seed must have 64 bits: a whole number from -2^63 to 2^64 - 1";
        return Err(ApiError::value("seed", message));
    }
    Ok(fields.integer("seed")?.map(|seed| seed as u64))
}

/// What would change the model's choice in ways that are not offered. Types are checked even where it is let pass.
fn check_neutral(fields: &Fields<'_>, lenient: bool) -> Result<(), ApiError> {
    for (name, neutral) in
        [("presence_penalty", 0.0), ("frequency_penalty", 0.0), ("repetition_penalty", 1.0)]
    {
        if fields.number(name)?.is_some_and(|given| given != neutral) && !lenient {
            return Err(not_greedy(name, &neutral.to_string()));
        }
    }
    if let Some(bias) = fields.get("logit_bias") {
        let bias = bias.as_object().ok_or_else(|| wrong_type("logit_bias", "an object", bias))?;
        if !bias.is_empty() && !lenient {
            return Err(not_greedy("logit_bias", "{}"));
        }
    }
    for name in ["n", "best_of"] {
        if fields.integer(name)?.is_some_and(|count| count != 1) {
            let message = format!("{name} must be 1: one choice is made at a time");
            return Err(ApiError::unsupported(name, message));
        }
    }
    Ok(())
}

fn not_greedy(name: &str, neutral: &str) -> ApiError {
    let message = format!("{name} would change the model's choice: leave it out or send {neutral}");
    ApiError::unsupported(name, message)
}

fn within(fields: &Fields<'_>, name: &str, least: f64, most: f64) -> Result<Option<f64>, ApiError> {
    match fields.number(name)? {
        Some(given) if !(least..=most).contains(&given) => {
            Err(ApiError::value(name, format!("{name} must be between {least} and {most}")))
        }
        given => Ok(given),
    }
}

/// What ends an answer: one sequence or several.
pub(crate) fn stops(fields: &Fields<'_>, name: &str) -> Result<Vec<String>, ApiError> {
    let stops: Vec<String> = match fields.get(name) {
        None => Vec::new(),
        Some(Value::String(stop)) => vec![stop.clone()],
        Some(Value::Array(stops)) => {
            let read = |(at, stop): (usize, &Value)| {
                let text = stop.as_str().map(str::to_owned);
                text.ok_or_else(|| wrong_type(&format!("{name}[{at}]"), "a string", stop))
            };
            stops.iter().enumerate().map(read).collect::<Result<_, _>>()?
        }
        Some(other) => return Err(wrong_type(name, "a string or an array of strings", other)),
    };
    if stops.len() > STOPS_MAX || stops.iter().any(String::is_empty) {
        let message = format!("{name} takes up to {STOPS_MAX} sequences, none of them empty");
        return Err(ApiError::value(name, message));
    }
    Ok(stops)
}

/// A limit of tokens; −1 is some clients' word for none.
pub(crate) fn token_limit(fields: &Fields<'_>, name: &str) -> Result<Option<usize>, ApiError> {
    if fields.get(name).is_some_and(is_beyond_count) {
        return Ok(Some(usize::MAX));
    }
    match fields.integer(name)? {
        None | Some(-1) => Ok(None),
        Some(limit @ 1..) => Ok(Some(usize::try_from(limit).unwrap_or(usize::MAX))),
        Some(_) => Err(ApiError::value(name, format!("{name} must be at least 1"))),
    }
}

/// Whether a value is a number beyond all counts, as some clients write for no limit.
fn is_beyond_count(value: &Value) -> bool {
    let Some(number) = value.as_number() else { return false };
    number.as_f64().map_or(!number.as_str().starts_with('-'), |number| number >= 9e15)
}

/// How many alternatives are wanted beside a token; nothing where this member does not say.
pub(crate) fn alternatives(fields: &Fields<'_>, name: &str) -> Result<Option<usize>, ApiError> {
    match fields.integer(name)?.map(usize::try_from) {
        None => Ok(None),
        Some(Ok(count @ 0..=ALTERNATIVES_MAX)) => Ok(Some(count)),
        Some(_) => {
            let message = format!("{name} must be between 0 and {ALTERNATIVES_MAX}");
            Err(ApiError::value(name, message))
        }
    }
}

/// `stream`, and whether a last chunk tells usage.
pub(crate) fn streaming(fields: &Fields<'_>) -> Result<(bool, bool), ApiError> {
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let options = fields.object("stream_options")?;
    let usage = options.map(|options| options.boolean("include_usage")).transpose()?.flatten();
    Ok((stream, usage.unwrap_or(false)))
}

/// Features that this server does not have: absent or off is fine.
pub(crate) fn refuse_unsupported(fields: &Fields<'_>) -> Result<(), ApiError> {
    refuse(
        fields,
        &[
            ("audio", "this model speaks text"),
            ("functions", "use tools"),
            ("function_call", "use tool_choice"),
            ("web_search_options", "there is no search here"),
        ],
    )?;
    if fields.boolean("deltafin")?.unwrap_or(false) {
        let message = "deltafin is not supported: see /metrics for timings";
        return Err(ApiError::unsupported("deltafin", message));
    }
    match fields.array("modalities")? {
        Some(given) if given.iter().any(|kind| kind.as_str() != Some("text")) => {
            Err(ApiError::unsupported("modalities", "modalities must be [\"text\"]"))
        }
        _ => Ok(()),
    }
}

/// Refuses the first of these members that is given, each with what to do instead.
pub(crate) fn refuse(fields: &Fields<'_>, members: &[(&str, &str)]) -> Result<(), ApiError> {
    match members.iter().find(|(name, _)| fields.get(name).is_some()) {
        Some((name, remedy)) => {
            Err(ApiError::unsupported(name, format!("{name} is not supported: {remedy}")))
        }
        None => Ok(()),
    }
}

/// The names of members that change nothing here: neither known everywhere nor to this dialect.
///
/// # Errors
/// For the first of them, where nothing may be ignored.
pub(crate) fn ignored(
    fields: &Fields<'_>,
    known: &[&str],
    policy: Policy<'_>,
) -> Result<Vec<String>, ApiError> {
    let is_known = |name: &&str| KNOWN_EVERYWHERE.contains(name) || known.contains(name);
    let unknown: Vec<_> =
        fields.names().filter(|name| !is_known(name)).map(str::to_owned).collect();
    match unknown.first().filter(|_| policy.settings.strict) {
        Some(name) => {
            let name = shown(name);
            Err(ApiError::unsupported(&name, format!("{name} means nothing here: leave it out")))
        }
        None => Ok(unknown),
    }
}
