//! `warm`: experts of a streamed model, before they are needed.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;

use super::layers::Layers;
use super::model::{FolderArgs, Looked};
use super::network::{JOBS_MOST, Network, NetworkArgs};
use super::size::{Bounded, Positive};
use super::sleep::SleepArgs;
use super::{Given, Usage};

/// Fetch experts of a streamed model before they are needed
///
/// Of a model that 'deltafin setup --stream' got, experts come over the network when they are first needed, and
/// stay. This fetches ahead of time those that are likely to be: what runs have chosen, the most often chosen
/// first, or whole layers. It takes no more than the drive has room for, can be stopped at any moment and run
/// again, and works beside programs that run the model.
#[derive(Args, Debug)]
pub(crate) struct WarmArgs {
    #[command(flatten)]
    model: FolderArgs,

    /// What a run chose, from 'run --route-trace FILE'; several files count together
    #[arg(long, value_name = "FILE", conflicts_with_all = ["heat", "layers"])]
    trace: Vec<PathBuf>,

    /// What earlier runs of this user chose lately
    #[arg(long, conflicts_with = "layers")]
    heat: bool,

    /// All experts of these layers
    #[arg(long, value_name = "FIRST-LAST")]
    layers: Option<Layers>,

    /// Say what would be fetched and what it would be good for; fetch nothing
    #[arg(long)]
    show: bool,

    /// Requests on their way at once
    #[arg(long, value_name = "N", default_value = "8")]
    jobs: Bounded<JOBS_MOST>,

    /// At most so many bytes a second; K, M and G are powers of 1024
    #[arg(long, value_name = "RATE")]
    limit_rate: Option<Positive>,

    #[command(flatten)]
    network: NetworkArgs,

    /// Print events as lines of JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    sleep: SleepArgs,
}

/// What says which experts are likely to be needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Routes that were recorded in these files.
    Traces(Vec<PathBuf>),
    /// What earlier runs learned.
    Heat,
    /// Somebody who knows the layers.
    Layers(RangeInclusive<u32>),
}

/// Experts to fetch.
#[derive(Debug)]
pub(crate) struct Warm {
    /// Of which model.
    pub(crate) model: Looked,
    /// Which of them.
    pub(crate) sign: Sign,
    /// Whether only to say what would be done.
    pub(crate) is_show: bool,
    /// Requests on their way at once.
    pub(crate) jobs: usize,
    /// Bytes a second, if they are bounded.
    pub(crate) bytes_per_second: Option<u64>,
    /// How to ask for them.
    pub(crate) network: Network,
    /// Whether for machines.
    pub(crate) json: bool,
    /// Whether the machine may go to sleep meanwhile.
    pub(crate) may_sleep: bool,
}

impl WarmArgs {
    pub(super) fn meaning(self, given: Given) -> Result<Warm, Usage> {
        let sign = match (self.trace, self.heat, self.layers) {
            (_, true, _) => Sign::Heat,
            (_, _, Some(Layers(layers))) => Sign::Layers(layers),
            (traces, ..) if !traces.is_empty() => Sign::Traces(traces),
            _ => {
                let why = "which experts? give --trace FILE, --heat or --layers FIRST-LAST";
                return Err(Usage(why.to_owned()));
            }
        };
        Ok(Warm {
            model: self.model.meaning(given)?,
            sign,
            is_show: self.show,
            jobs: self.jobs.0.get(),
            bytes_per_second: self.limit_rate.map(|rate| rate.0.get() as u64),
            network: self.network.meaning(),
            json: self.json,
            may_sleep: self.sleep.allow_sleep,
        })
    }
}
