//! Whether the machine may go to sleep while there is work.

use clap::Args;

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SleepArgs {
    /// Let the machine go to sleep while there is work; else it is kept awake where the system allows that
    #[arg(long, global = true)]
    pub(super) allow_sleep: bool,
}
