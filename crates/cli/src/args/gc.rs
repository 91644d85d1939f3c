//! `gc`: what lies about and is needed by nobody.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::model::{FolderArgs, Looked};
use super::{Given, Usage};

const DAY: u64 = 24 * 3600;

/// List what earlier commands left that nothing needs, and free it on request
///
/// Listed are files that an installation or a conversion had in the making, files of no use to anybody, an int8
/// spine where 'deltafin setup --spine bf16' was chosen since, and what has not been used for long: conversations
/// of the server, what runs learned of experts. Nothing is removed without --yes, nothing that a command is at work
/// on is touched, and what can be gone on with is only removed with --partial.
#[derive(Args, Debug)]
pub(crate) struct GcArgs {
    #[command(flatten)]
    model: FolderArgs,

    /// Remove what is of no use, and what is old
    #[arg(long)]
    yes: bool,

    /// With --yes: remove also what setup or convert would go on with
    #[arg(long, requires = "yes")]
    partial: bool,

    /// Days after which what was not used counts as old
    #[arg(long, value_name = "DAYS", default_value = "90")]
    older_than: u32,

    /// Folder of the server's conversations, if it is not the usual one
    #[arg(long, value_name = "DIR", env = "DELTAFIN_SNAPSHOT_DIR", hide_env_values = true)]
    snapshot_dir: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What to look for, and what to do with it.
#[derive(Debug)]
pub(crate) struct Gc {
    /// In which model's folder.
    pub(crate) model: Looked,
    /// Whether it is removed.
    pub(crate) removes: bool,
    /// Whether also what can be gone on with is.
    pub(crate) removes_partial: bool,
    /// What was not used for so long is old.
    pub(crate) old: Duration,
    /// Where conversations are, if not where they usually are.
    pub(crate) snapshots: Option<PathBuf>,
    /// Whether for machines.
    pub(crate) json: bool,
}

impl GcArgs {
    pub(super) fn meaning(self, given: Given) -> Result<Gc, Usage> {
        Ok(Gc {
            model: self.model.meaning(given)?,
            removes: self.yes,
            removes_partial: self.partial,
            old: Duration::from_secs(DAY * u64::from(self.older_than)),
            snapshots: self.snapshot_dir,
            json: self.json,
        })
    }
}
