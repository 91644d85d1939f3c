//! Sizes as people read them.

use std::fmt;

/// The least budget in whole MiB that holds so many bytes: the one to name, for a person types it. Of sizes
/// that no number of MiB holds, themselves.
pub fn whole_mib(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(1 << 20).unwrap_or(bytes)
}

/// Bytes, shown in powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// In words; to the byte where `other` would look the same and is not.
    pub fn beside(self, other: Size) -> String {
        let words = self.to_string();
        if self != other && words == other.to_string() { format!("{} B", self.0) } else { words }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut amount = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while amount >= 1024.0 && unit + 1 < UNITS.len() {
            amount /= 1024.0;
            unit += 1;
        }
        write!(f, "{amount:.2} {}", UNITS[unit])
    }
}
