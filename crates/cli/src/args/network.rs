//! Where experts come from that are not here, and how long to wait for them.

use std::time::Duration;

use clap::Args;

use super::size::Positive;

/// More requests at once would be refused by every server.
pub(super) const JOBS_MOST: usize = 256;
/// The twin of `--cache-limit`.
const CACHE_LIMIT: &str = "DELTAFIN_CACHE_LIMIT";

/// The limit that commands have which are not told another, in bytes.
pub(crate) fn default_cache_limit() -> Option<u64> {
    let Positive(bytes) = std::env::var(CACHE_LIMIT).ok()?.parse().ok()?;
    Some(bytes.get() as u64)
}

/// Where the hub is.
#[derive(Args, Clone, Debug)]
pub(super) struct HubArgs {
    /// Address of the hub
    #[arg(long, value_name = "URL", env = "HF_ENDPOINT", hide_env_values = true)]
    pub(super) endpoint: Option<String>,
}

/// The flags.
#[derive(Args, Clone, Debug)]
pub(crate) struct NetworkArgs {
    /// Seconds to wait for a source that gives nothing, where experts come over the network [default: what
    /// 'setup' was given, or else 300]
    #[arg(long, value_name = "SECONDS", env = "DELTAFIN_PATIENCE", hide_env_values = true)]
    patience: Option<u32>,

    #[command(flatten)]
    hub: HubArgs,

    /// Most room on the drive for experts that came over the network; those used least make room for others
    #[arg(long, value_name = "SIZE", env = CACHE_LIMIT, hide_env_values = true)]
    cache_limit: Option<Positive>,
}

/// How to ask for what is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    /// How long to wait for a source that gives nothing; what the folder was set up with if that was not said.
    pub(crate) patience: Option<Duration>,
    /// The hub's address, if not the usual one.
    pub(crate) endpoint: Option<String>,
    /// The most bytes of the drive that experts take which came.
    pub(crate) cache_limit: Option<u64>,
}

impl Network {
    /// For commands that read nothing but what is here.
    pub(crate) fn unused() -> Network {
        Network { patience: Some(Duration::ZERO), endpoint: None, cache_limit: None }
    }
}

impl NetworkArgs {
    /// What was asked for.
    pub(super) fn meaning(&self) -> Network {
        let patience = self.patience.map(|seconds| Duration::from_secs(seconds.into()));
        let cache_limit = self.cache_limit.map(|bytes| bytes.0.get() as u64);
        Network { patience, endpoint: self.hub.endpoint.clone(), cache_limit }
    }
}
