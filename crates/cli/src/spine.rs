//! Which spine a command runs with; it is always said, for it changes what the model computes.

use std::ffi::OsString;
use std::path::Path;

use clap::builder::{OsStringValueParser, TypedValueParser as _, ValueParserFactory};
use deltafin_engine::Recipe;
use deltafin_store::{Checkpoint, SpineChoice};

use crate::failure::Failure;
use crate::terminal;

/// What was typed for a spine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpineArg(pub(crate) SpineChoice);

impl From<OsString> for SpineArg {
    fn from(typed: OsString) -> SpineArg {
        let word = typed.to_str().and_then(choice);
        SpineArg(word.unwrap_or_else(|| SpineChoice::Pack(typed.into())))
    }
}

/// The choice with this name.
pub(crate) fn choice(word: &str) -> Option<SpineChoice> {
    let auto = (word == "auto").then_some(SpineChoice::Auto);
    auto.or_else(|| Recipe::parse(word).map(SpineChoice::Recipe))
}

impl ValueParserFactory for SpineArg {
    type Parser = clap::builder::ValueParser;

    fn value_parser() -> Self::Parser {
        OsStringValueParser::new().try_map(named).into()
    }
}

fn named(typed: OsString) -> Result<SpineArg, String> {
    match typed.is_empty() {
        true => Err("the name is empty; is a variable unset?".to_owned()),
        false => Ok(SpineArg::from(typed)),
    }
}

/// The checkpoint with the spine that was asked for. One that lies in no folder, as the built-in
/// model, gets its spine made on the spot.
pub(crate) fn apply(checkpoint: Checkpoint, choice: &SpineChoice) -> Result<Checkpoint, Failure> {
    let checkpoint = match choice {
        SpineChoice::Recipe(Recipe::Int8) if checkpoint.folder().is_none() => {
            let pack = deltafin_setup::pack_in_memory(&checkpoint, Recipe::Int8)?;
            checkpoint.with_pack(pack)?
        }
        _ => checkpoint.with_spine(choice)?,
    };
    let why = match choice {
        SpineChoice::Auto => lost(&checkpoint).map(|lost| format!("; {lost}")),
        SpineChoice::Recipe(_) | SpineChoice::Pack(_) => None,
    };
    terminal::say(&format!("spine: {}{}", words(&checkpoint), why.unwrap_or_default()));
    Ok(checkpoint)
}

/// Why the released spine runs where setup was told to pack one, if that is so, and what helps.
fn lost(checkpoint: &Checkpoint) -> Option<String> {
    let (lost, folder) = (checkpoint.lost_pack()?, checkpoint.folder()?);
    Some(format!("{}; {}", lost_words(&lost), lost_fix(folder)))
}

/// That a pack is gone.
pub(crate) fn lost_words(pack: &Path) -> String {
    format!("{}, which setup made, is gone", pack.display())
}

/// What helps against it.
pub(crate) fn lost_fix(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "'deltafin setup --model {folder}' makes it again, 'deltafin setup --spine bf16 --model {folder}' keeps to the \
         released one"
    )
}

/// The recipe and where it comes from.
pub(crate) fn words(checkpoint: &Checkpoint) -> String {
    let recipe = checkpoint.recipe();
    match checkpoint.pack() {
        None => format!("{recipe}, as released"),
        Some(_) if checkpoint.folder().is_none() => format!("{recipe}, made at the start"),
        Some(path) => format!("{recipe}, from {}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_word_is_a_folder() {
        let typed = |text: &str| SpineArg::from(OsString::from(text)).0;
        assert_eq!(typed("auto"), SpineChoice::Auto);
        assert_eq!(typed("int8"), SpineChoice::Recipe(Recipe::Int8));
        assert_eq!(typed("./int8"), SpineChoice::Pack("./int8".into()));
        assert_eq!(typed("int4"), SpineChoice::Pack("int4".into()));
    }
}
