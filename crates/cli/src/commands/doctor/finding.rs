//! What was looked at and what was found: one line, one code for each kind of trouble, one remedy.

use serde::Serialize;

use crate::terminal::one_line;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// Works, but worse than it could.
    Warning,
    /// Does not work.
    Fault,
}

/// Kinds of trouble. A name that was once given to one is never given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    SlowProcessor,
    NoEncryption,
    FewerCores,
    MaySleep,
    TooLittleMemory,
    LimitedMemory,
    ShortMemory,
    UnwritableFolder,
    FullDrive,
    SlowDrive,
    IndirectReads,
    UnreadableDrive,
    NoModel,
    GoneModel,
    UnfinishedModel,
    BrokenModel,
    NoTokenizer,
    DamagedNote,
    UnusablePack,
    UnusedPack,
    LostPack,
    BadDrafter,
    WrongClock,
    UnreachableSource,
}

impl Code {
    /// All of them, with their names.
    pub(super) const ALL: [(Code, &str); 24] = [
        (Code::SlowProcessor, "DF-CPU-01"),
        (Code::NoEncryption, "DF-CPU-02"),
        (Code::FewerCores, "DF-CPU-03"),
        (Code::MaySleep, "DF-POWER-01"),
        (Code::TooLittleMemory, "DF-MEM-01"),
        (Code::LimitedMemory, "DF-MEM-02"),
        (Code::ShortMemory, "DF-MEM-03"),
        (Code::UnwritableFolder, "DF-DRIVE-01"),
        (Code::FullDrive, "DF-DRIVE-02"),
        (Code::SlowDrive, "DF-DRIVE-03"),
        (Code::IndirectReads, "DF-DRIVE-04"),
        (Code::UnreadableDrive, "DF-DRIVE-05"),
        (Code::NoModel, "DF-MODEL-01"),
        (Code::GoneModel, "DF-MODEL-02"),
        (Code::UnfinishedModel, "DF-MODEL-03"),
        (Code::BrokenModel, "DF-MODEL-04"),
        (Code::NoTokenizer, "DF-MODEL-05"),
        (Code::DamagedNote, "DF-MODEL-06"),
        (Code::UnusablePack, "DF-SPINE-01"),
        (Code::UnusedPack, "DF-SPINE-02"),
        (Code::LostPack, "DF-SPINE-03"),
        (Code::BadDrafter, "DF-DRAFTER-01"),
        (Code::WrongClock, "DF-CLOCK-01"),
        (Code::UnreachableSource, "DF-NET-01"),
    ];

    fn name(self) -> &'static str {
        Code::ALL.iter().find(|(code, _)| *code == self).map_or("", |(_, name)| name)
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// The kind of trouble, if there is any.
    pub(super) code: Option<&'static str>,
    pub(super) subject: &'static str,
    pub(super) found: String,
    /// What helps.
    pub(super) fix: Option<String>,
}

impl Finding {
    /// It is as it should be.
    pub(super) fn ok(subject: &'static str, found: impl Into<String>) -> Finding {
        Finding { level: Level::Ok, code: None, subject, found: found.into(), fix: None }
    }

    /// It is not, and this helps.
    pub(super) fn trouble(
        level: Level,
        code: Code,
        subject: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        let (code, fix) = (Some(code.name()), Some(fix.into()));
        Finding { level, code, subject, found: found.into(), fix }
    }

    /// A line, and one more for what helps.
    pub(super) fn words(&self) -> String {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Fault => "FAULT",
        };
        let code = self.code.unwrap_or_default();
        let found = one_line(&self.found);
        let mut words = format!("{level:<8}{code:<13}{:<11}{found}", self.subject);
        if let Some(fix) = &self.fix {
            words.push_str(&format!("\n{:<32}→ {}", "", one_line(fix)));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_of_their_own_and_are_documented() {
        let page = include_str!("../../../../../docs/DOCTOR.md");
        for (number, (code, name)) in Code::ALL.iter().enumerate() {
            assert_eq!(code.name(), *name);
            assert!(page.contains(&format!("| `{name}` |")), "{name} is not in docs/DOCTOR.md");
            assert!(Code::ALL[..number].iter().all(|(_, other)| other != name), "{name}");
        }
    }
}
