//! A form in the grammar dialect of `llguidance`.
//!
//! Tags are written as the very ids that the prompt has for them, so that the model reads its own
//! reply as it was trained to. Names, keys and values from a request never become grammar: they are ids, or
//! quoted as JSON.

use std::fmt::Write as _;

use deltafin_text::chat::tag::{closing, opening};
use deltafin_text::{Segment, Tokenizer, TokenizerError};
use serde_json::Value;

use super::arguments::{Argument, Arguments, Text, Way};
use super::form::{Calls, Form, Said, Tool};
use super::{Fault, place, schema};

/// Calls of one reply.
const CALLS_MAX: usize = 16;
/// Segments of a call's opening tag up to its tool's name: marker, tag, key, quote.
const CALL_HEAD: usize = 4;

/// The grammar of what follows the reasoning, or of the whole reply if there is none.
pub(super) fn write(tokenizer: &Tokenizer, form: &Form) -> Result<String, Fault> {
    let mut writer = Writer { tokenizer, rules: String::new(), schemas: 0 };
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
    writer.rule("text", "/(?s:.)+/");
    writer.rule("number", r"/-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?/");
    Ok(writer.rules)
}

struct Writer<'a> {
    tokenizer: &'a Tokenizer,
    rules: String,
    schemas: usize,
}

impl Writer<'_> {
    fn rule(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.rules, "{name}: {body}");
    }

    fn ids(&self, segments: &[Segment]) -> Result<String, Fault> {
        let broken =
            |error: TokenizerError| Fault { path: "model".to_owned(), reason: error.to_string() };
        let ids = self.tokenizer.encode_segments(segments).map_err(broken)?;
        Ok(ids.iter().map(|id| format!("<[{id}]> ")).collect())
    }

    fn open(
        &self,
        tag: &'static str,
        attributes: &[(&'static str, &str)],
    ) -> Result<String, Fault> {
        self.ids(&opening(tag, attributes))
    }

    fn close(&self, tag: &'static str) -> Result<String, Fault> {
        self.ids(&closing(tag))
    }

    fn said(&mut self, said: &Said) -> Result<String, Fault> {
        match said {
            Said::Nothing => Ok(String::new()),
            Said::Text => Ok("text?".to_owned()),
            Said::Json { schema, path } => {
                place::check(schema, path, path)?;
                Ok(self.json(schema))
            }
        }
    }

    /// A rule of its own for JSON.
    fn json(&mut self, schema: &Value) -> String {
        self.schemas += 1;
        let name = format!("json_{}", self.schemas);
        self.rule(&name, &format!("%json {}", schema::prepared(schema)));
        name
    }

    fn calls(&mut self, calls: &Calls) -> Result<(), Fault> {
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
            let (before, rest) = tag.split_at(CALL_HEAD);
            let (name, after) = rest.split_at(1);
            if at == 0 {
                head = self.ids(before)?;
                let after = self.ids(after)?;
                self.rule(&format!("index_{index}"), &after);
            }
            choices.push(format!("{} index_{index} arguments_{at}", self.ids(name)?));
        }
        let close = self.close("call")?;
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

    fn check(&self, arguments: &Arguments, path: &str) -> Result<(), Fault> {
        let arguments = match arguments {
            Arguments::Whole(schema) => return place::check(schema, path, path),
            Arguments::Tagged(arguments) => arguments,
        };
        arguments.iter().try_for_each(|Argument { key, ways, .. }| {
            ways.iter().try_for_each(|way| match &way.text {
                Text::Json(schema) => {
                    place::check(schema, &format!("{path}.properties.{key}"), path)
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

    fn argument(&mut self, argument: &Argument) -> Result<String, Fault> {
        let close = self.close("argument")?;
        let way = |way: &Way| {
            let open = self.open("argument", &[("key", &argument.key), ("type", way.kind)])?;
            Ok(format!("{open} {} {close}", self.text(&way.text)))
        };
        let ways: Vec<String> = argument.ways.iter().map(way).collect::<Result<_, Fault>>()?;
        let mark = if argument.is_required { "" } else { "?" };
        Ok(format!("({}){mark} ", ways.join(" | ")))
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
