//! What the kernels gave on x86-64 when the recording was made: a line per case with its name, how
//! many floats, a digest of all their bits, and the first few for whoever looks for the difference.

use super::cases::Case;
use std::fmt;

const COMMITTED: &str = include_str!("../../tests/vectors/kernels.txt");
const SHOWN: usize = 4;

#[derive(PartialEq, Eq)]
pub(crate) struct Record {
    name: String,
    len: usize,
    digest: u64,
    first: Vec<u32>,
}

impl Record {
    pub(crate) fn of(case: &Case, values: &[f32]) -> Record {
        let bits = || values.iter().map(|v| canonical(*v));
        Record {
            name: case.name.to_owned(),
            len: values.len(),
            digest: fnv1a(bits()),
            first: bits().take(SHOWN).collect(),
        }
    }

    fn parse(line: &str) -> Option<Record> {
        let mut words = line.split_whitespace();
        Some(Record {
            name: words.next()?.to_owned(),
            len: words.next()?.parse().ok()?,
            digest: u64::from_str_radix(words.next()?, 16).ok()?,
            first: words.map(|w| u32::from_str_radix(w, 16).ok()).collect::<Option<_>>()?,
        })
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:016x}", self.name, self.len, self.digest)?;
        self.first.iter().try_for_each(|bits| write!(f, " {bits:08x}"))
    }
}

pub(crate) struct Recording(Vec<Record>);

impl Recording {
    pub(crate) fn committed() -> Recording {
        Recording(COMMITTED.lines().filter_map(Record::parse).collect())
    }

    /// Whether the case gave these values when the recording was made.
    pub(crate) fn check(&self, case: &Case, values: &[f32]) -> bool {
        self.0.contains(&Record::of(case, values))
    }
}

/// That NaN comes out is promised, which NaN is not.
pub(crate) fn canonical(x: f32) -> u32 {
    if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }
}

fn fnv1a(words: impl Iterator<Item = u32>) -> u64 {
    words.flat_map(u32::to_le_bytes).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
