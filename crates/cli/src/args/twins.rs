//! Environment variables in place of flags.

use std::env;
use std::ffi::OsString;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};

use crate::terminal;

/// What the names of all our variables begin with.
pub(super) const PREFIX: &str = "DELTAFIN_";

/// An empty key is refused, not ignored: whoever sets one means to keep others out.
const NEVER_EMPTY: &str = "api_keys";

/// A variable of ours, and another's name for the same, read where only that is set.
const OTHER_NAME: (&str, &str) = ("DELTAFIN_PROFILE", "K3_PROFILE");

/// The table as this environment has it: without the variables that are empty, for such a variable is
/// as good as none, and with the other name of one that is not set.
pub(super) fn as_set(table: Command) -> Command {
    let inner: Vec<String> =
        table.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let table = table.mut_args(under_other_name).mut_args(|arg| match is_empty(&arg) {
        true if arg.get_id() != NEVER_EMPTY => arg.env(Resettable::Reset),
        _ => arg,
    });
    inner.iter().fold(table, |table, name| table.mut_subcommand(name, as_set))
}

fn under_other_name(arg: Arg) -> Arg {
    let (ours, other) = OTHER_NAME;
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_meant = arg.get_env().is_some_and(|name| name == ours);
    if is_meant && is_set(other) && !is_set(ours) { arg.env(other) } else { arg }
}

fn is_empty(arg: &Arg) -> bool {
    arg.get_env().and_then(env::var_os).is_some_and(|value| value.is_empty())
}

/// Says which variables look like ours and are not: a misspelled one would otherwise be missed.
pub(super) fn say_unknown(table: &Command) {
    let set = env::vars_os().map(|(name, _)| name);
    let names = unknown(table, set);
    if !names.is_empty() {
        let (names, plural) = (names.join(", "), if names.len() == 1 { "is" } else { "are" });
        terminal::say(&format!(
            "{names} {plural} ignored: no flag has such a variable; --help names those that count"
        ));
    }
}

/// Of the names given, sorted, those with our prefix that are in no row of the table.
fn unknown(table: &Command, set: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut names: Vec<String> = set
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with(PREFIX) && !is_known(name, table))
        .collect();
    names.sort();
    names
}

fn is_known(name: &str, table: &Command) -> bool {
    let mut own = table.get_arguments().filter_map(Arg::get_env);
    own.any(|known| known == name) || table.get_subcommands().any(|inner| is_known(name, inner))
}

/// A refused value with the variable it came from, where it was not typed.
pub(super) fn named(mut error: clap::Error, table: &Command) -> clap::Error {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let flag = shown.split(' ').next().unwrap_or_default();
    if !is_typed(flag, env::args_os())
        && let Some(variable) = variable_of(flag, table)
    {
        let shown = format!("{shown} ({variable})");
        error.insert(ContextKind::InvalidArg, ContextValue::String(shown));
    }
    error
}

fn is_typed(flag: &str, mut words: impl Iterator<Item = OsString>) -> bool {
    words.any(|word| {
        let word = word.to_string_lossy();
        word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    })
}

/// The variable of a flag that is set.
fn variable_of(flag: &str, table: &Command) -> Option<String> {
    let long = flag.strip_prefix("--")?;
    let own = table.get_arguments().find(|arg| arg.get_long() == Some(long));
    let variable = own.and_then(Arg::get_env).filter(|name| env::var_os(name).is_some());
    let inner = || table.get_subcommands().find_map(|inner| variable_of(flag, inner));
    variable.map(|name| name.to_string_lossy().into_owned()).or_else(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_s_variable_is_known_and_no_other() {
        let known = ["DELTAFIN_MODEL", "DELTAFIN_ISA", "DELTAFIN_API_KEY", "HOME"];
        let set = known.iter().chain(&["DELTAFIN_ZZZ", "DELTAFIN_THREAD"]).map(OsString::from);
        assert_eq!(unknown(&super::super::table(), set), ["DELTAFIN_THREAD", "DELTAFIN_ZZZ"]);
    }
}
