//! `plan`: what memory buys, and how fast that will be.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::engine::EngineArgs;
use super::size::{Auto, Count};
use super::{Given, Usage, snapshots};

/// Say what memory buys and how fast a model will run, before it runs
///
/// Measures this machine for some seconds, then reads from the drive as the engine would. No weights are needed
/// for --k3. --memory is what to plan with: measuring takes up to 600 MiB, or half of what this machine has to
/// spare.
#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// Plan for the released Kimi K3, which need not be here
    #[arg(long)]
    k3: bool,

    /// With --k3: where the checkpoint would be; a file of 1 GiB is written there, read and removed
    ///
    /// The current directory by default.
    #[arg(long, value_name = "DIR", conflicts_with = "drive_gbps")]
    drive: Option<PathBuf>,

    /// The drive's speed in 10^9 bytes per second, in place of measuring it
    #[arg(long, value_name = "GBPS")]
    drive_gbps: Option<Gbps>,

    /// Plan for 'serve', with this memory for states of conversations to go on from; 'auto' as 'serve'
    /// and 'chat' take it
    #[arg(long, value_name = "SIZE|auto")]
    snapshot_memory: Option<Auto<Count>>,

    #[command(flatten)]
    engine: EngineArgs,
}

/// A rate in 10^9 bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gbps(f64);

impl FromStr for Gbps {
    type Err = String;

    fn from_str(typed: &str) -> Result<Gbps, String> {
        let number: Option<f64> = typed.parse().ok();
        let sane = number.filter(|gbps| (1e-3..=1e4).contains(gbps));
        sane.map(Gbps).ok_or_else(|| "expected a number of GB/s from 0.001 to 10000".to_owned())
    }
}

/// What to plan.
#[derive(Debug)]
pub(crate) struct Plan {
    /// For which model.
    pub(crate) subject: Subject,
    /// What is known of the drive.
    pub(crate) drive: Drive,
    /// Memory, context, threads, output.
    pub(crate) engine: EngineArgs,
}

/// The model that is planned for.
#[derive(Debug, PartialEq)]
pub(crate) enum Subject {
    /// The released one, of which only the dimensions are here.
    Released,
    /// The one that the flags name.
    Model,
}

/// What is known of the drive.
#[derive(Debug, PartialEq)]
pub(crate) enum Drive {
    /// Read the checkpoint, or a file in the current directory.
    Measure,
    /// Read a file in this directory.
    MeasureAt(PathBuf),
    /// So many 10^9 bytes per second.
    Assume(f64),
}

impl PlanArgs {
    pub(super) fn meaning(self, given: Given) -> Result<Plan, Usage> {
        let PlanArgs { k3, drive, drive_gbps, snapshot_memory, engine } = self;
        if k3 && given == Given::Typed {
            return Err(Usage("--k3 plans for the released model: leave --model out".to_owned()));
        }
        if drive.is_some() && !k3 {
            let why = "--drive is for --k3: with a checkpoint, its own drive is measured";
            return Err(Usage(why.to_owned()));
        }
        let drive = match (drive_gbps, drive) {
            (Some(Gbps(gbps)), _) => Drive::Assume(gbps),
            (None, Some(dir)) => Drive::MeasureAt(dir),
            (None, None) => Drive::Measure,
        };
        let subject = if k3 { Subject::Released } else { Subject::Model };
        let snapshots = snapshot_memory.as_ref().map(snapshots::memory).unwrap_or_default();
        Ok(Plan { subject, drive, engine: engine.with_snapshots(snapshots) })
    }
}
