//! `tokenize`: text to ids and back, without an engine.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::engine::ModelArg;
use super::ids;
use super::{Given, Usage};
use crate::built_in;

/// Turn text or a chat into token ids, ids into text, or a reply into its parts
///
/// Needs only a directory with 'tiktoken.model' and 'tokenizer_config.json'. Ids print as a JSON
/// array. Text to turn into ids is not held; a request, a reply, a list of ids and a line of --batch
/// are, and may have 64 MiB.
#[derive(Args, Debug)]
pub(crate) struct TokenizeArgs {
    /// Text to turn into ids, or with --parse the reply; '-' reads standard input as it is
    #[arg(value_name = "TEXT|-", allow_hyphen_values = true)]
    text: Option<String>,

    #[arg(
        long,
        help = built_in::HELP,
        long_help = built_in::LONG_HELP,
        value_name = built_in::VALUE_NAME,
        env = "DELTAFIN_MODEL",
        hide_env_values = true
    )]
    model: Option<ModelArg>,

    /// Directory with the tokenizer's files, instead of --model
    #[arg(long, value_name = "DIR")]
    tokenizer: Option<PathBuf>,

    /// Turn the chat of this file into ids; '-' reads standard input
    #[arg(
        long,
        value_name = "REQUEST.json|-",
        num_args = 0..=1,
        conflicts_with_all = ["text", "decode", "parse"]
    )]
    chat: Option<Option<PathBuf>>,

    /// With --chat, print the rendered text instead of its ids
    #[arg(long)]
    render: bool,

    /// Turn ids into text; '-' reads them from standard input
    #[arg(long, value_name = "IDS|-", num_args = 0.., conflicts_with = "parse")]
    decode: Option<Vec<String>>,

    /// Take a reply apart: text with spelled markers, or ids where all of it is a list of ids
    #[arg(long)]
    parse: bool,

    /// With --parse, the channel that the prompt left open; 'think' by default
    #[arg(long, value_enum)]
    start: Option<Channel>,

    /// Read one JSON value per line of standard input, print one per line: a string to ids, a
    /// request to ids or with --render a string, ids to a string with --decode, ids or a string
    /// to an object with --parse. A refused line prints {"error": ...}, and the exit code is 1
    #[arg(long)]
    batch: bool,
}

/// A channel of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Channel {
    /// The model thinks first
    Think,
    /// The model answers at once
    Response,
}

/// A piece of work for the tokenizer.
#[derive(Debug)]
pub(crate) struct Tokenize {
    /// Whose vocabulary.
    pub(crate) vocabulary: Vocabulary,
    /// What to do.
    pub(crate) what: What,
    /// With what.
    pub(crate) input: Input,
}

/// Whose vocabulary is used.
#[derive(Debug)]
pub(crate) enum Vocabulary {
    /// That of a model.
    Model(Option<ModelArg>),
    /// That in a directory.
    Directory(PathBuf),
}

/// What is done to the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Text to ids.
    Encode,
    /// A chat to ids.
    Chat,
    /// A chat to text.
    Render,
    /// Ids to text.
    Decode,
    /// A reply to its parts.
    Parse(Channel),
}

/// Where the input is.
#[derive(Debug)]
pub(crate) enum Input {
    /// Here.
    Text(String),
    /// In a file.
    File(PathBuf),
    /// On standard input.
    Stdin,
    /// On standard input, a JSON value per line.
    Batch,
}

impl TokenizeArgs {
    pub(super) fn meaning(self, given: Given) -> Result<Tokenize, Usage> {
        if self.tokenizer.is_some() && given == Given::Typed {
            return Err(Usage("give --model or --tokenizer, not both".to_owned()));
        }
        let what = self.what()?;
        let (batch, typed) = (self.batch, typed(self.text, self.chat, self.decode)?);
        let input = match (batch, typed) {
            (true, None | Some(Input::Stdin)) => Input::Batch,
            (true, Some(_)) => {
                return Err(Usage("--batch reads standard input: give it no other".to_owned()));
            }
            (false, Some(input)) => input,
            (false, None) => return Err(Usage(format!("nothing to {}", what.wants()))),
        };
        let vocabulary = match self.tokenizer {
            Some(directory) => Vocabulary::Directory(directory),
            None => Vocabulary::Model(self.model),
        };
        Ok(Tokenize { vocabulary, what, input })
    }

    // The parser would not notice these: it forgives a missing flag that another one excludes.
    fn what(&self) -> Result<What, Usage> {
        if self.render && self.chat.is_none() {
            return Err(Usage("--render needs --chat".to_owned()));
        }
        if self.start.is_some() && !self.parse {
            return Err(Usage("--start needs --parse".to_owned()));
        }
        Ok(match () {
            () if self.render => What::Render,
            () if self.chat.is_some() => What::Chat,
            () if self.decode.is_some() => What::Decode,
            () if self.parse => What::Parse(self.start.unwrap_or(Channel::Think)),
            () => What::Encode,
        })
    }
}

impl What {
    fn wants(self) -> &'static str {
        match self {
            What::Encode => "tokenize: give a text, or - for standard input",
            What::Chat | What::Render => "render: give --chat a file, or - for standard input",
            What::Decode => "decode: give --decode ids, or - for standard input",
            What::Parse(_) => "parse: give a reply, or - for standard input",
        }
    }
}

/// The one input among the places where it can be typed.
fn typed(
    text: Option<String>,
    chat: Option<Option<PathBuf>>,
    decode: Option<Vec<String>>,
) -> Result<Option<Input>, Usage> {
    if let Some(path) = chat.flatten() {
        let is_stdin = path.as_os_str() == "-";
        return Ok(Some(if is_stdin { Input::Stdin } else { Input::File(path) }));
    }
    let text = match (decode, text) {
        (None, text) => text,
        // After `--`, or in front of the flag, ids look like a text.
        (Some(words), text) if words.is_empty() => text.map(ids_text).transpose()?,
        (Some(words), None) => Some(ids_text(words.join(" "))?),
        (Some(_), Some(_)) => {
            return Err(Usage("give the ids to --decode in one place".to_owned()));
        }
    };
    Ok(text.map(|text| if text == "-" { Input::Stdin } else { Input::Text(text) }))
}

fn ids_text(text: String) -> Result<String, Usage> {
    if text != "-" {
        ids::parse_list(&text).map_err(Usage)?;
    }
    Ok(text)
}
