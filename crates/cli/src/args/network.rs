//! Where experts come from that are not here, and how long to wait for them.

use std::time::Duration;

use clap::Args;

/// More requests at once would be refused by every server.
pub(super) const JOBS_MOST: usize = 256;

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
}

/// How to ask for what is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    /// How long to wait for a source that gives nothing; what the folder was set up with if that was not said.
    pub(crate) patience: Option<Duration>,
    /// The hub's address, if not the usual one.
    pub(crate) endpoint: Option<String>,
}

impl Network {
    /// For commands that read nothing but what is here.
    pub(crate) fn unused() -> Network {
        Network { patience: Some(Duration::ZERO), endpoint: None }
    }
}

impl NetworkArgs {
    /// What was asked for.
    pub(super) fn meaning(&self) -> Network {
        let patience = self.patience.map(|seconds| Duration::from_secs(seconds.into()));
        Network { patience, endpoint: self.hub.endpoint.clone() }
    }
}
