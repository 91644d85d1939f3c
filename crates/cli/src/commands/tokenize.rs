//! `tokenize`: text to ids and back, without an engine.

use std::io::stdin;
use std::path::Path;

use deltafin_text::chat::{Request, rendered_text};
use deltafin_text::reply::{self, Answer, ReplyOptions};
use deltafin_text::tokenizer::Encoder;
use deltafin_text::{Segment, Tokenizer};
use serde_json::{Value, json};

use crate::args::{Channel, Given, Input, Tokenize, Vocabulary, What, parse_list};
use crate::failure::Failure;
use crate::input::{Bound, Lines, Source};
use crate::load;
use crate::model_choice::{self, Model};
use crate::terminal;

/// Does it.
pub(crate) fn tokenize(tokenize: Tokenize, given: Given) -> Result<(), Failure> {
    let Tokenize { vocabulary, what, input } = tokenize;
    let tokenizer = match vocabulary {
        Vocabulary::Model(typed) => load::fitting_tokenizer(&model_choice::choose(typed, given)?)?,
        Vocabulary::Directory(directory) => load::tokenizer(&Model::Directory(directory))?,
    };
    match input {
        Input::Batch => batch(&tokenizer, what),
        Input::Text(text) => one(&tokenizer, what, &text),
        Input::Stdin if what == What::Encode => encoded(&tokenizer, Source::stdin()),
        Input::Stdin => one(&tokenizer, what, &Source::stdin().text(&Bound::of_any_text())?),
        Input::File(path) if what == What::Encode => encoded(&tokenizer, Source::file(&path)?),
        Input::File(path) => {
            let text = Source::file(&path)?.text(&Bound::of_any_text())?;
            one(&tokenizer, what, &text).map_err(|e| of_file(&path, e))
        }
    }
}

/// The ids of a text, which is not held.
fn encoded(tokenizer: &Tokenizer, source: Source) -> Result<(), Failure> {
    let mut encoder = Encoder::new(tokenizer, usize::MAX);
    source.read(&Bound::of_any_text(), |piece| {
        encoder.push(piece);
        Ok(())
    })?;
    terminal::print_line(&serde_json::to_string(&encoder.finish().ids)?)
}

fn of_file(path: &Path, failure: Failure) -> Failure {
    match failure {
        Failure::Fault(message) => Failure::new(format!("{}: {message}", path.display())),
        other => other,
    }
}

/// One input as it was typed: text prints as text, everything else as JSON.
fn one(tokenizer: &Tokenizer, what: What, text: &str) -> Result<(), Failure> {
    let output = match what {
        What::Encode => json!(tokenizer.encode_text(text)),
        What::Chat => json!(tokenizer.encode_segments(&segments(text.as_bytes())?)?),
        What::Render => Value::String(rendered_text(&segments(text.as_bytes())?)),
        What::Decode => Value::String(tokenizer.text(&ids(text)?)?),
        What::Parse(channel) => json!(match as_ids(text) {
            Some(ids) => parse_ids(tokenizer, channel, &ids)?,
            None => parse_text(channel, text),
        }),
    };
    match output {
        Value::String(text) => terminal::print_line(&text),
        value => terminal::print_line(&value.to_string()),
    }
}

/// One JSON value per line in, one out. A bad line spoils only its own answer, and the exit code.
fn batch(tokenizer: &Tokenizer, what: What) -> Result<(), Failure> {
    let mut refused = 0;
    let mut count = 0;
    let mut lines = Lines::of(stdin().lock(), Bound::of_any_text());
    while let Some(line) = lines.next()? {
        count += 1;
        let output = match utf8(&line).and_then(|line| value(tokenizer, what, line)) {
            Ok(output) => output,
            Err(Failure::Fault(message)) => {
                refused += 1;
                json!({ "error": message })
            }
            Err(other) => return Err(other),
        };
        terminal::print_line(&output.to_string())?;
    }
    match refused {
        0 => Ok(()),
        _ => Err(Failure::new(format!("{refused} of {count} lines were refused"))),
    }
}

fn utf8(line: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(line).map_err(|e| Failure::about("not UTF-8 text", &e))
}

fn value(tokenizer: &Tokenizer, what: What, line: &str) -> Result<Value, Failure> {
    Ok(match what {
        What::Encode => json!(tokenizer.encode_text(&string(line)?)),
        What::Chat => json!(tokenizer.encode_segments(&segments(line.as_bytes())?)?),
        What::Render => json!(rendered_text(&segments(line.as_bytes())?)),
        What::Decode => json!(tokenizer.text(&array(line)?)?),
        What::Parse(channel) => json!(match string(line) {
            Ok(text) => parse_text(channel, &text),
            Err(_) => parse_ids(tokenizer, channel, &array(line)?)?,
        }),
    })
}

fn string(line: &str) -> Result<String, Failure> {
    serde_json::from_str(line).map_err(|e| Failure::about("not a JSON string", &e))
}

fn array(line: &str) -> Result<Vec<u32>, Failure> {
    serde_json::from_str(line).map_err(|e| Failure::about("not a JSON array of token ids", &e))
}

fn segments(request: &[u8]) -> Result<Vec<Segment>, Failure> {
    Ok(deltafin_text::render(&Request::from_json(request)?)?)
}

fn ids(text: &str) -> Result<Vec<u32>, Failure> {
    parse_list(text).map_err(Failure::new)
}

/// The ids, where all of a text is a list of ids. A number by itself is more likely an answer than a
/// token, unless it stands in brackets.
fn as_ids(text: &str) -> Option<Vec<u32>> {
    let least = if text.trim_start().starts_with('[') { 1 } else { 2 };
    parse_list(text).ok().filter(|ids| ids.len() >= least)
}

fn options(channel: Channel) -> ReplyOptions {
    ReplyOptions::new(match channel {
        Channel::Think => reply::Channel::Think,
        Channel::Response => reply::Channel::Response,
    })
}

fn parse_ids(tokenizer: &Tokenizer, channel: Channel, ids: &[u32]) -> Result<Answer, Failure> {
    Ok(reply::parse_ids(tokenizer, options(channel), ids)?)
}

fn parse_text(channel: Channel, text: &str) -> Answer {
    reply::parse_text(options(channel), text)
}
