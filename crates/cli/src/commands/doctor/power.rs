//! Whether the machine stays awake while there is work.

use super::finding::{Code, Finding, Level};
use crate::awake;

/// Looks at it, where there is something to look at.
pub(super) fn look() -> Option<Finding> {
    awake::is_possible().map(|possible| match possible {
        Ok(()) => Finding::ok("sleep", "the machine is kept awake while there is work".to_owned()),
        Err(reason) => Finding::trouble(
            Level::Note,
            Code::MaySleep,
            "sleep",
            format!("the machine may go to sleep while there is work: {reason}"),
            "a service of the system that allows it (systemd-logind), or a machine that is set to stay awake",
        ),
    })
}
