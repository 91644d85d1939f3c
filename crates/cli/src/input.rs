//! Text from standard input and from files, refused when it is not UTF-8.

use std::io::Read as _;
use std::path::Path;

use crate::failure::Failure;

/// All of standard input.
pub(crate) fn stdin_text() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|e| Failure::about("cannot read standard input", &e))?;
    utf8(bytes, "standard input")
}

/// All of a file.
pub(crate) fn file_text(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|e| Failure::about(format!("cannot read {}", path.display()), &e))?;
    utf8(bytes, &path.display().to_string())
}

/// The argument itself, or all of standard input where it is `-`.
pub(crate) fn text_or_stdin(typed: &str) -> Result<String, Failure> {
    if typed == "-" { stdin_text() } else { Ok(typed.to_owned()) }
}

fn utf8(bytes: Vec<u8>, source: &str) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Failure::new(format!("{source} is not UTF-8 text: byte {at} begins no character"))
    })
}
