//! `doctor`: whether this machine, its drives, the checkpoint and the way to its source are as they should
//! be, and what helps where they are not.
//!
//! Each group of checks has a file of its own and gives findings; nothing is changed, but for a file that is
//! written and removed to see whether a folder takes one.

mod drives;
mod finding;
mod machine;
mod memory;
mod model;
mod notes;
mod power;
mod source;
mod speed;

use serde_json::json;

use self::finding::{Finding, Level};
use self::model::Subject;
use crate::args::Doctor;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::terminal::{self, ProgressLine, Terminal};

/// Does it.
pub(crate) fn doctor(asked: &Doctor) -> Result<(), Failure> {
    let interrupts = Interrupts::install()?.and_terminations()?;
    let stop = interrupts.begin();
    let mut progress = ProgressLine::new(Terminal::detect());
    let mut findings = machine::look();
    findings.extend(power::look());
    let (subject, about) = Subject::find(&asked.model);
    findings.extend(memory::look(&subject));
    findings.extend(about);
    progress.update(|| "measuring the drive".to_owned());
    findings.extend(drives::look(&subject, !asked.is_quick));
    if !asked.is_offline {
        progress.update(|| "asking the source".to_owned());
        findings.extend(source::look(&subject, asked.endpoint.as_deref(), stop)?);
    }
    findings.extend(source::clock());
    drop(progress);
    interrupts.end();
    report(asked, &findings)
}

fn report(asked: &Doctor, findings: &[Finding]) -> Result<(), Failure> {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (faults, warnings) = (count(Level::Fault), count(Level::Warning));
    if asked.json {
        let report = json!({"faults": faults, "warnings": warnings, "findings": findings});
        terminal::print_line(&report.to_string())?;
    } else {
        for finding in findings {
            terminal::print_line(&finding.words())?;
        }
        terminal::print_line(&match (faults, warnings) {
            (0, 0) => "all is as it should be".to_owned(),
            (faults, warnings) => format!("faults: {faults}, warnings: {warnings}"),
        })?;
    }
    if faults == 0 { Ok(()) } else { Err(Failure::Reported) }
}
