//! `doctor`: what is wrong with a machine.

use clap::Args;

use super::model::{Looked, ModelArgs};
use super::network::HubArgs;
use super::{Given, Usage};

/// Say what is wrong with this machine, a model and the way to its source, and what helps
///
/// Looks at the processor, memory and its limits, drives with their room and speed, the checkpoint, the
/// clock and the network. Each kind of trouble has a code of its own. Nothing is changed; a file is
/// written and removed to see whether a folder takes one. Exits with 1 where something does not work.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    model: ModelArgs,

    /// Leave out the drive's speed, which takes a second or two
    #[arg(long)]
    quick: bool,

    /// Do not ask the source
    #[arg(long)]
    offline: bool,

    #[command(flatten)]
    hub: HubArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What to look at.
#[derive(Debug)]
pub(crate) struct Doctor {
    /// Which model.
    pub(crate) model: Looked,
    /// Whether the drive's speed is left out.
    pub(crate) is_quick: bool,
    /// Whether the source is not asked.
    pub(crate) is_offline: bool,
    /// The hub's address, if not the usual one.
    pub(crate) endpoint: Option<String>,
    /// Whether for machines.
    pub(crate) json: bool,
}

impl DoctorArgs {
    pub(super) fn meaning(self, given: Given) -> Result<Doctor, Usage> {
        Ok(Doctor {
            model: self.model.meaning(given)?,
            is_quick: self.quick,
            is_offline: self.offline,
            endpoint: self.hub.endpoint,
            json: self.json,
        })
    }
}
