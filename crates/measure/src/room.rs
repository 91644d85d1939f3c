//! How much memory measuring may take.

use thiserror::Error;

/// Memory that measuring may take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What it is meant to stay within.
    pub wanted: u64,
    /// What it never goes beyond, where it cannot stay within that: what takes more is not measured.
    pub most: u64,
}

/// Measuring takes more memory than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("measuring takes {} MiB of memory, and may take {}", least.div_ceil(1 << 20), most >> 20)]
pub struct TooLittle {
    /// The bytes without which nothing is measured.
    pub least: u64,
    /// The bytes that it may take.
    pub most: u64,
}

impl Room {
    /// As much as it has use for.
    pub const ALL: Room = Room { wanted: u64::MAX, most: u64::MAX };

    /// Bytes for what takes at least so many: those that are meant for it, or else the least.
    pub(crate) fn of_at_least(self, least: u64) -> Result<u64, TooLittle> {
        let Room { wanted, most } = self;
        if least > most {
            return Err(TooLittle { least, most });
        }
        Ok(wanted.clamp(least, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_had_beyond_what_is_wanted_and_not_beyond_the_most() {
        let room = Room { wanted: 50, most: 80 };
        assert_eq!(room.of_at_least(30), Ok(50));
        assert_eq!(room.of_at_least(80), Ok(80));
        assert_eq!(room.of_at_least(81), Err(TooLittle { least: 81, most: 80 }));
        assert_eq!(Room { wanted: 99, ..room }.of_at_least(30), Ok(80));
        assert_eq!(Room::ALL.of_at_least(30), Ok(u64::MAX));
    }
}
