//! Layers as people write them: `7`, `1-40`.

use std::ops::RangeInclusive;
use std::str::FromStr;

/// Layers from one to another, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layers(pub(crate) RangeInclusive<u32>);

impl FromStr for Layers {
    type Err = String;

    fn from_str(typed: &str) -> Result<Layers, String> {
        let (first, last) = typed.split_once('-').unwrap_or((typed, typed));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Layers(first..=last)),
            _ => Err("expected a layer, or FIRST-LAST".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_one_or_a_range() {
        assert_eq!("7".parse(), Ok(Layers(7..=7)));
        assert_eq!("1-40".parse(), Ok(Layers(1..=40)));
        for typed in ["", "-", "4-1", "a", "1-", "-3", "1-2-3"] {
            assert!(typed.parse::<Layers>().is_err(), "{typed}");
        }
    }
}
