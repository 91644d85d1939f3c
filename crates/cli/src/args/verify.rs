//! `verify`: whether a checkpoint still is what it was.

use std::time::Duration;

use clap::Args;

use super::model::{FolderArgs, Looked};
use super::network::HubArgs;
use super::sleep::SleepArgs;
use super::{Given, Usage};

/// Look for damage in a checkpoint, and mend it
///
/// Sizes and headers are always checked. With --deep every byte is read, on all processors, and held
/// against the digests that 'deltafin setup' noted when it came; damage is named by layer and expert.
/// Packs of the spine and the drafter that lie in the folder are looked at as well.
/// Exits with 1 where something is wrong and not mended.
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    model: FolderArgs,

    /// Read every byte
    #[arg(long)]
    deep: bool,

    /// Fetch what is damaged again, from where it came; about one expert for each that is. Files of a pack that
    /// 'deltafin convert' made are made again
    #[arg(long)]
    repair: bool,

    /// Seconds to go on asking a source that gives nothing
    #[arg(long, value_name = "SECONDS", default_value = "600")]
    patience: u32,

    #[command(flatten)]
    hub: HubArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    pub(super) sleep: SleepArgs,
}

/// A checkpoint to look at.
#[derive(Clone, Debug)]
pub(crate) struct Verify {
    /// Which one.
    pub(crate) model: Looked,
    /// Whether every byte.
    pub(crate) is_deep: bool,
    /// Whether damage is mended.
    pub(crate) repairs: bool,
    /// How long to ask a source that gives nothing.
    pub(crate) patience: Duration,
    /// The hub's address, if not the usual one.
    pub(crate) endpoint: Option<String>,
    /// Whether for machines.
    pub(crate) json: bool,
}

impl VerifyArgs {
    pub(super) fn meaning(self, given: Given) -> Result<Verify, Usage> {
        Ok(Verify {
            model: self.model.meaning(given)?,
            is_deep: self.deep,
            repairs: self.repair,
            patience: Duration::from_secs(self.patience.into()),
            endpoint: self.hub.endpoint,
            json: self.json,
        })
    }
}
