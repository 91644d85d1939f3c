//! OpenAI's HTTP interface over one model that answers one request at a time.
//!
//! Promises: a request is refused before anything is generated, or it is answered as asked; every
//! connection is kept visibly alive; work stops when nobody listens; questions about the
//! server's state never wait for the model.
//!
//! ```text
//! socket ─► http ─► request ─► Queue ─► Backend ═ Sink ═► relay ─► Generation ─► response ─► socket
//!                    (checked)   (one slot)   (ids)   (deltas, for all who asked alike)
//! ```
//!
//! HTTP runs on a few threads of its own. The engine has its own thread; a relay that bounds how far it may
//! be ahead joins the two. [`Backend`] is the line between them.
#![forbid(unsafe_code)]

mod app;
mod backend;
mod choice;
mod connection;
mod control;
mod engine;
mod generation;
mod guide;
mod http;
mod line;
mod lines;
mod log;
mod metrics;
mod passing;
mod queue;
mod reader;
mod relay;
mod request;
mod response;
mod room;
mod runs;
mod server;
mod settings;
mod sink;
mod speech;
mod steering;

pub use backend::{Backend, DriveUse, End, Facts, Flow, Job, Moved, NetworkUse};
pub use engine::EngineBackend;
pub use log::Entry;
pub use server::Server;
pub use settings::{ReasoningField, Settings};
pub use sink::Sink;
