//! `doctor`: what is wrong with a machine.

use clap::Args;

use super::engine::ModelArg;
use crate::built_in;

/// Say what is wrong with this machine, a model and the way to its source, and what helps
///
/// Looks at the processor, memory and its limits, drives with their room and speed, the checkpoint, the
/// clock and the network. Each kind of trouble has a code of its own. Nothing is changed; a file is
/// written and removed to see whether a folder takes one. Exits with 1 where something does not work.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    #[arg(
        long,
        value_name = built_in::VALUE_NAME,
        help = built_in::HELP,
        env = "DELTAFIN_MODEL",
        hide_env_values = true
    )]
    model: Option<ModelArg>,

    /// Leave out the drive's speed, which takes a second or two
    #[arg(long)]
    quick: bool,

    /// Do not ask the source
    #[arg(long)]
    offline: bool,

    /// Address of the hub
    #[arg(long, value_name = "URL", env = "HF_ENDPOINT", hide_env_values = true)]
    endpoint: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What to look at.
#[derive(Debug)]
pub(crate) struct Doctor {
    /// Which model.
    pub(crate) model: Option<ModelArg>,
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
    pub(super) fn meaning(self) -> Doctor {
        Doctor {
            model: self.model,
            is_quick: self.quick,
            is_offline: self.offline,
            endpoint: self.endpoint,
            json: self.json,
        }
    }
}
