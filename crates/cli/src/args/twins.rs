//! Environment variables in place of flags.

use std::env;
use std::ffi::OsString;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};

/// An empty key is refused, not ignored: whoever sets one means to keep others out.
const NEVER_EMPTY: &str = "api_keys";

/// The table without the variables that are empty: such a variable is as good as none.
pub(super) fn without_empty(table: Command) -> Command {
    let inner: Vec<String> =
        table.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let table = table.mut_args(|arg| match is_empty(&arg) && arg.get_id() != NEVER_EMPTY {
        true => arg.env(Resettable::Reset),
        false => arg,
    });
    inner.iter().fold(table, |table, name| table.mut_subcommand(name, without_empty))
}

fn is_empty(arg: &Arg) -> bool {
    arg.get_env().and_then(env::var_os).is_some_and(|value| value.is_empty())
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
