//! What is said about misuse: the parser's words on one line, and whose help to read.

use std::env;
use std::ffi::OsString;
use std::io::Write as _;

use clap::Error;
use clap::error::ErrorKind;

use super::twins;
use crate::failure::Failure;
use crate::terminal;

/// What shells expect of a program that was called wrongly.
const MISUSE: i32 = 2;

/// Ends the process as the parser's outcome demands: help and version are printed as they are.
pub(super) fn exit(error: &Error) -> ! {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => show(error),
        ErrorKind::InvalidUtf8 => exit_over(&not_utf8(env::args_os(), env::vars_os())),
        _ => exit_over(&words(&error.render().to_string())),
    }
}

/// Prints help or a version, and ends the process.
fn show(error: &Error) -> ! {
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    let Err(failed) = printed else { std::process::exit(error.exit_code()) };
    let failure = Failure::writing(&failed);
    failure.line().iter().for_each(|line| terminal::note(line));
    std::process::exit(i32::from(failure.exit_code()))
}

/// Which words and variables are no text; the parser does not say.
fn not_utf8(
    words: impl Iterator<Item = OsString>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> String {
    let (mut places, mut before) = (Vec::new(), String::new());
    for word in words.skip(1) {
        let shown = word.to_string_lossy();
        let flag = if shown.starts_with("--") { shown.split('=').next() } else { None };
        if word.to_str().is_none() {
            let flag = flag.or(Some(before.as_str()).filter(|word| word.starts_with("--")));
            places.push(flag.map_or_else(|| format!("'{shown}'"), str::to_owned));
        }
        before = shown.into_owned();
    }
    let ours = |name: &OsString| name.to_string_lossy().starts_with(twins::PREFIX);
    let wrong = variables.filter(|(name, value)| ours(name) && value.to_str().is_none());
    places.extend(wrong.map(|(name, _)| name.to_string_lossy().into_owned()));
    format!("what is given for {} is not UTF-8 text", places.join(" and "))
}

/// Ends the process over a combination of arguments that the parser let pass.
pub(super) fn exit_over(message: &str) -> ! {
    let typed = env::args_os().filter_map(|word| word.into_string().ok());
    terminal::say(&format!("{message}; try '{} --help'", command(typed)));
    std::process::exit(MISUSE)
}

/// What the parser says before it shows the usage: a line, and perhaps names, choices and tips below.
fn words(said: &str) -> String {
    let said = said.strip_prefix("error: ").unwrap_or(said);
    let lines = said.lines().take_while(|line| !is_end(line)).map(str::trim);
    let mut words = String::new();
    for line in lines.filter(|line| !line.is_empty()) {
        words += match () {
            () if words.is_empty() => "",
            () if line.starts_with("tip: ") => "; ",
            () => " ",
        };
        words += line;
    }
    words
}

fn is_end(line: &str) -> bool {
    line.starts_with("Usage: ") || line.starts_with("For more information")
}

/// The command that the words of a command line begin with.
fn command(typed: impl Iterator<Item = String>) -> String {
    let (table, mut name) = (super::table(), "deltafin".to_owned());
    let mut at = &table;
    for word in typed.skip(1) {
        let Some(inner) = at.find_subcommand(&word) else { break };
        name += &format!(" {word}");
        at = inner;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_parser_says_becomes_one_line() {
        for (args, line, of) in [
            (
                &["run"][..],
                "the following required arguments were not provided: \
                 <--prompt <TEXT|->|--prompt-ids <IDS|FILE|->>",
                "deltafin run",
            ),
            (
                &["eval", "logits", "--ids", "1", "--out", "x", "--frob"],
                "unexpected argument '--frob' found",
                "deltafin eval logits",
            ),
            (
                &["run", "--prompt", "run", "--isa", "sse9"],
                "invalid value 'sse9' for '--isa <ISA>' \
                 [possible values: auto, scalar, avx2, avx512, neon]",
                "deltafin run",
            ),
            (
                &["chat", "--effrt", "low"],
                "unexpected argument '--effrt' found; tip: a similar argument exists: '--effort'",
                "deltafin chat",
            ),
            (
                &["tokenise"],
                "unrecognized subcommand 'tokenise'; tip: a similar subcommand exists: 'tokenize'",
                "deltafin",
            ),
        ] {
            let typed = || ["deltafin"].iter().chain(args).map(ToString::to_string);
            let said = super::super::table().try_get_matches_from(typed()).unwrap_err();
            assert_eq!(words(&said.render().to_string()), line);
            assert_eq!(command(typed()), of);
        }
    }
}
