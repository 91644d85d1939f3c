//! What can be seen of a session's passes while they run. None of it changes a token.

mod both;
mod critical;
mod profile;
mod reads;
mod report;
mod routes;
mod several;
mod trace;

pub(crate) use both::Both;
pub use critical::Critical;
pub use profile::Profile;
pub use report::{DriveUse, PhaseReport, ProfileReport, Section, Times};
pub use routes::RouteLines;
pub use several::Several;
pub use trace::Trace;
