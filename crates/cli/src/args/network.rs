//! Where experts come from that are not here, and how long to wait for them.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::size::Positive;

/// More requests at once would be refused by every server.
pub(super) const JOBS_MOST: usize = 256;
/// The twin of `--cache-limit`.
const CACHE_LIMIT: &str = "DELTAFIN_CACHE_LIMIT";

/// The limit that the environment has for commands which are not told another.
pub(crate) fn default_cache_limit() -> Option<CacheLimit> {
    std::env::var(CACHE_LIMIT).ok()?.parse().ok()
}

/// Where the hub is.
#[derive(Args, Clone, Debug)]
pub(super) struct HubArgs {
    /// Address of the hub
    #[arg(long, value_name = "URL", env = "HF_ENDPOINT", hide_env_values = true)]
    pub(super) endpoint: Option<String>,
}

/// A limit of the cache, or that there is to be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheLimit(pub(crate) Option<u64>);

impl FromStr for CacheLimit {
    type Err = String;

    fn from_str(typed: &str) -> Result<CacheLimit, String> {
        if typed == "none" {
            return Ok(CacheLimit(None));
        }
        let Positive(bytes) = typed.parse().map_err(|error| format!("{error}, or none"))?;
        Ok(CacheLimit(Some(bytes.get() as u64)))
    }
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

    /// Most room on the drive for experts that came over the network, or none for no limit; those used least make room
    /// for others [default: what 'setup' was given]
    #[arg(long, value_name = "SIZE", env = CACHE_LIMIT, hide_env_values = true)]
    cache_limit: Option<CacheLimit>,
}

/// How to ask for what is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    /// How long to wait for a source that gives nothing; what the folder was set up with if that was not said.
    pub(crate) patience: Option<Duration>,
    /// The hub's address, if not the usual one.
    pub(crate) endpoint: Option<String>,
    /// The most bytes of the drive that experts take which came; what the folder was set up with if that was not said.
    pub(crate) cache_limit: Option<CacheLimit>,
}

impl Network {
    /// For commands that read nothing but what is here.
    pub(crate) fn unused() -> Network {
        let cache_limit = Some(CacheLimit(None));
        Network { patience: Some(Duration::ZERO), endpoint: None, cache_limit }
    }
}

impl NetworkArgs {
    /// What was asked for.
    pub(super) fn meaning(&self) -> Network {
        let patience = self.patience.map(|seconds| Duration::from_secs(seconds.into()));
        Network { patience, endpoint: self.hub.endpoint.clone(), cache_limit: self.cache_limit }
    }
}
