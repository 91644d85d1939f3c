//! A form in the grammar dialect of `llguidance`.
//!
//! Tags are written as the very ids that the prompt has for them, so that the model reads its own
//! reply as it was trained to. Names, keys and values from a request never become grammar: they are ids, or
//! quoted as JSON.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use deltafin_text::chat::tag::{closing, opening};
use deltafin_text::{Segment, Tokenizer, TokenizerError};
use serde_json::Value;

use super::arguments::{Argument, Arguments};
use super::form::{Calls, Form, Said, Tool};
use super::ways::{Text, Way};
use super::{Fault, place, schema, size};

/// Values within all schemas of a form.
const PARTS_MAX: usize = 5 * size::PARTS_MAX;
/// Tools among which a call chooses.
const TOOLS_MAX: usize = 500;
/// Calls of one reply.
const CALLS_MAX: usize = 16;
/// Segments of an opening tag up to its first value: marker, tag, key, quote.
const HEAD: usize = 4;

/// The grammar of what follows the reasoning, or of the whole reply if there is none.
pub(super) fn write(tokenizer: &Tokenizer, form: &Form) -> Result<String, Fault> {
    let mut writer = Writer::new(tokenizer);
    let open = if form.thinking { writer.open("response", &[])? } else { String::new() };
    let [close, end] = [writer.close("response")?, writer.close("message")?];
    let said = writer.said(&form.said)?;
    if let Some(calls) = &form.calls {
        writer.calls(calls)?;
    }
    let body = match (&form.said, form.calls.is_some()) {
        (Said::Nothing, _) => format!("{close} calls"),
        (Said::Json { .. }, true) => format!("({said} {close} | {close} calls)"),
        (Said::Text, true) => format!("{said} {close} calls?"),
        (Said::Text | Said::Json { .. }, false) => format!("{said} {close}"),
    };
    writer.rule("start", &format!("{open} {body} {end}"));
    for id in std::mem::take(&mut writer.used) {
        writer.rule(&format!("id_{id}"), &format!("<[{id}]>"));
    }
    writer.rule("text", "/(?s:.)+/");
    writer.rule("number", r"/-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?/");
    Ok(writer.rules)
}

/// What is said twice is written once: the size of a grammar is bounded, and the time to read it.
struct Writer<'a> {
    tokenizer: &'a Tokenizer,
    rules: String,
    /// Ids of tags, each a rule.
    used: BTreeSet<u32>,
    /// Rules for segments that recur.
    named: HashSet<String>,
    /// Schemas by their text, and their rules.
    schemas: HashMap<String, String>,
    /// Schemas that can be enforced.
    checked: HashSet<String>,
}

impl<'a> Writer<'a> {
    fn new(tokenizer: &'a Tokenizer) -> Writer<'a> {
        Writer {
            tokenizer,
            rules: String::new(),
            used: BTreeSet::new(),
            named: HashSet::new(),
            schemas: HashMap::new(),
            checked: HashSet::new(),
        }
    }

    fn rule(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.rules, "{name}: {body}");
    }

    fn ids(&mut self, segments: &[Segment]) -> Result<String, Fault> {
        let broken =
            |error: TokenizerError| Fault { path: "model".to_owned(), reason: error.to_string() };
        let ids = self.tokenizer.encode_segments(segments).map_err(broken)?;
        self.used.extend(&ids);
        Ok(ids.iter().map(|id| format!("id_{id} ")).collect())
    }

    /// A rule for segments that recur.
    fn shared(&mut self, name: &str, segments: &[Segment]) -> Result<String, Fault> {
        if self.named.insert(name.to_owned()) {
            let ids = self.ids(segments)?;
            self.rule(name, &ids);
        }
        Ok(name.to_owned())
    }

    fn open(
        &mut self,
        tag: &'static str,
        attributes: &[(&'static str, &str)],
    ) -> Result<String, Fault> {
        self.ids(&opening(tag, attributes))
    }

    fn close(&mut self, tag: &'static str) -> Result<String, Fault> {
        self.ids(&closing(tag))
    }

    fn said(&mut self, said: &Said) -> Result<String, Fault> {
        match said {
            Said::Nothing => Ok(String::new()),
            Said::Text => Ok("text?".to_owned()),
            Said::Json { schema, path } => {
                self.check_one(schema, path, path)?;
                Ok(self.json(schema))
            }
        }
    }

    /// A rule of its own for JSON.
    fn json(&mut self, schema: &Value) -> String {
        let text = schema::prepared(schema).to_string();
        if let Some(name) = self.schemas.get(&text) {
            return name.clone();
        }
        let name = format!("json_{}", self.schemas.len());
        self.rule(&name, &format!("%json {text}"));
        self.schemas.insert(text, name.clone());
        name
    }

    fn calls(&mut self, calls: &Calls) -> Result<(), Fault> {
        let schemas = calls.tools.iter().filter_map(|tool| tool.parameters.as_ref());
        if calls.tools.len() > TOOLS_MAX || schemas.map(size::parts).sum::<usize>() > PARTS_MAX {
            let reason = format!("more than {TOOLS_MAX} tools, or {PARTS_MAX} parts of schemas");
            return Err(Fault { path: "tools".to_owned(), reason });
        }
        for (at, tool) in calls.tools.iter().enumerate() {
            let body = self.arguments(tool)?;
            self.rule(&format!("arguments_{at}"), &body);
        }
        let count = if calls.single { 1 } else { CALLS_MAX };
        for index in 1..=count {
            self.call(&calls.tools, index, index < count)?;
        }
        let [open, close] = [self.open("tools", &[])?, self.close("tools")?];
        self.rule("calls", &format!("{open} call_1 {close}"));
        Ok(())
    }

    /// The call with this index; its tag is split where the tools' names differ.
    fn call(&mut self, tools: &[Tool], index: usize, more: bool) -> Result<(), Fault> {
        let number = index.to_string();
        let mut head = String::new();
        let mut choices = Vec::new();
        for (at, tool) in tools.iter().enumerate() {
            let tag = opening("call", &[("tool", &tool.name), ("index", &number)]);
            let (before, rest) = tag.split_at(HEAD);
            let (name, after) = rest.split_at(1);
            head = self.shared("call", before)?;
            let after = self.shared(&format!("index_{index}"), after)?;
            choices.push(format!("{} {after} arguments_{at}", self.ids(name)?));
        }
        let close = self.shared("close_call", &closing("call"))?;
        let next = if more { format!("call_{}?", index + 1) } else { String::new() };
        let choices = choices.join(" | ");
        self.rule(&format!("call_{index}"), &format!("{head} ({choices}) {close} {next}"));
        Ok(())
    }

    fn arguments(&mut self, tool: &Tool) -> Result<String, Fault> {
        let arguments = Arguments::declared(tool.parameters.as_ref());
        match self.check(&arguments, &tool.path) {
            Ok(()) => {}
            Err(_) if tool.lenient => {
                return self.whole(&serde_json::json!({ "type": "object" }));
            }
            Err(fault) => return Err(fault),
        }
        match arguments {
            Arguments::Tagged(arguments) if arguments.is_empty() => Ok("\"\"".to_owned()),
            Arguments::Tagged(arguments) => {
                arguments.iter().map(|argument| self.argument(argument)).collect()
            }
            Arguments::Whole(schema) => self.whole(&schema),
        }
    }

    fn check_one(&mut self, schema: &Value, path: &str, home: &str) -> Result<(), Fault> {
        let text = schema::prepared(schema).to_string();
        if !self.checked.contains(&text) {
            place::check(schema, path, home)?;
            self.checked.insert(text);
        }
        Ok(())
    }

    fn check(&mut self, arguments: &Arguments, path: &str) -> Result<(), Fault> {
        let arguments = match arguments {
            Arguments::Whole(schema) => return self.check_one(schema, path, path),
            Arguments::Tagged(arguments) => arguments,
        };
        arguments.iter().try_for_each(|Argument { key, ways, .. }| {
            ways.iter().try_for_each(|way| match &way.text {
                Text::Json(schema) => {
                    self.check_one(schema, &format!("{path}.properties.{key}"), path)
                }
                _ => Ok(()),
            })
        })
    }

    /// All arguments as one text.
    fn whole(&mut self, schema: &Value) -> Result<String, Fault> {
        let [open, close] = [self.open("json", &[("type", "object")])?, self.close("json")?];
        Ok(format!("{open} {} {close}", self.json(schema)))
    }

    /// The ways to write it differ in what follows the key.
    fn argument(&mut self, argument: &Argument) -> Result<String, Fault> {
        let Argument { key, is_required, ways } = argument;
        let mut parts = (String::new(), String::new());
        let mut choices = Vec::new();
        for Way { kind, text } in ways {
            let tag = opening("argument", &[("key", key), ("type", kind)]);
            let (head, rest) = tag.split_at(HEAD);
            let (key, kind_and_end) = rest.split_at(usize::from(!key.is_empty()));
            parts = (self.shared("argument", head)?, self.ids(key)?);
            let kind = self.shared(&format!("type_{kind}"), kind_and_end)?;
            choices.push(format!("{kind} {}", self.text(text)));
        }
        let close = self.shared("close_argument", &closing("argument"))?;
        let (mark, choices) = (if *is_required { "" } else { "?" }, choices.join(" | "));
        Ok(format!("({} {}({choices}) {close}){mark} ", parts.0, parts.1))
    }

    fn text(&mut self, text: &Text) -> String {
        match text {
            Text::Characters { least: 0, most: None } => "text?".to_owned(),
            Text::Characters { most: Some(0), .. } => String::new(),
            Text::Characters { least, most } => {
                let mark = if *least == 0 { "?" } else { "" };
                let most = most.map_or_else(String::new, |most| most.to_string());
                format!("/(?s:.){{{},{most}}}/{mark}", least.max(&1))
            }
            Text::Literal(text) if text.is_empty() => String::new(),
            Text::Literal(text) => quoted(text),
            Text::Number => "number".to_owned(),
            Text::Json(schema) => self.json(schema),
        }
    }
}

/// The dialect's strings are JSON's, without a bare DEL.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\x7f', "\\u007f")
}
