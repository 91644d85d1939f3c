//! What may be typed for the engine's flags.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{OsStringValueParser, TypedValueParser, ValueParserFactory};

/// What was typed for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModelArg {
    /// The model inside this program.
    Demo,
    /// A directory.
    Directory(PathBuf),
}

impl TryFrom<OsString> for ModelArg {
    type Error = String;

    /// Nothing names no model: most likely it stands where a script's variable was never set, and
    /// another model than the one meant would answer.
    fn try_from(typed: OsString) -> Result<ModelArg, String> {
        match typed.to_str() {
            Some("") => Err("the name is empty; is a variable unset?".to_owned()),
            Some("demo") => Ok(ModelArg::Demo),
            _ => Ok(ModelArg::Directory(typed.into())),
        }
    }
}

impl ValueParserFactory for ModelArg {
    type Parser = clap::builder::ValueParser;

    fn value_parser() -> Self::Parser {
        OsStringValueParser::new().try_map(ModelArg::try_from).into()
    }
}

/// What may be typed for an instruction set.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum IsaArg {
    /// The fastest one this CPU has
    Auto,
    /// Portable code
    Scalar,
    /// AVX2 with FMA
    Avx2,
    /// AVX-512 F, BW, DQ and VL
    Avx512,
    /// 64-bit Arm
    Neon,
}

/// What may be typed for a way to read drives.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum IoArg {
    /// The best that the drive and the system can do
    Auto,
    /// io_uring past the page cache (Linux)
    Uring,
    /// Plain reads past the page cache
    Direct,
    /// Reads through the page cache
    Buffered,
}

/// What may be typed for guesses.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum PrefetchArg {
    /// The next two together
    Auto,
    /// Nothing
    Off,
    /// Experts that the previous token used
    Prev,
    /// Experts that the next layer's router would choose now
    Lookahead,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    /// They do
    On,
    /// They do not
    Off,
}
