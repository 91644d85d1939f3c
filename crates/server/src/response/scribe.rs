//! The events of a stream, in one dialect.

use serde_json::Value;

use crate::app::App;
use crate::http::ApiError;
use crate::sink::{Piece, Summary};

/// Writes what happens as events, each of them whole.
pub(crate) trait Scribe: Send {
    /// Before the first token.
    fn opening(&mut self) -> Vec<String>;

    /// A piece of the reply.
    fn piece(&mut self, app: &App, piece: &Piece) -> Vec<String>;

    /// The end.
    fn closing(&mut self, app: &App, summary: &Summary) -> Vec<String>;

    /// After a silence: how far it has come.
    fn sign_of_life(&mut self, status: &str) -> String;

    /// It failed, and this is the last that is heard.
    fn fault(&mut self, error: &ApiError) -> Vec<String>;
}

/// An event without a name.
pub(super) fn data(document: &Value) -> String {
    format!("data: {document}\n\n")
}

/// An event that is named after the type of its document.
pub(super) fn named(document: &Value) -> String {
    let name = document["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {document}\n\n")
}
