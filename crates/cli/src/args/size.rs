//! Counts as people write them: `4096`, `32K`, `1M`. Suffixes are powers of 1024.

use std::num::NonZeroUsize;
use std::str::FromStr;

/// A count that may have been typed with a suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) usize);

/// A [`Count`] of at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Positive(pub(crate) NonZeroUsize);

/// A [`Positive`] count up to a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounded<const MOST: usize>(pub(crate) NonZeroUsize);

/// Something typed, or `auto` for "choose for this machine".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Auto<T>(pub(crate) Option<T>);

const EXPECTED: &str = "expected a whole number, with K, M or G for 1024, 1024² or 1024³";

impl FromStr for Count {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let (digits, shift) = match typed.char_indices().next_back() {
            Some((at, 'k' | 'K')) => (&typed[..at], 10),
            Some((at, 'm' | 'M')) => (&typed[..at], 20),
            Some((at, 'g' | 'G')) => (&typed[..at], 30),
            _ => (typed, 0),
        };
        // `usize::from_str` also takes a plus sign.
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(EXPECTED.to_owned());
        }
        let number: Option<usize> = digits.parse().ok();
        let count = number.and_then(|number| number.checked_mul(1 << shift));
        count.map(Count).ok_or_else(|| format!("at most {}", usize::MAX))
    }
}

impl FromStr for Positive {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let Count(count) = typed.parse()?;
        NonZeroUsize::new(count).map(Positive).ok_or_else(|| "must be at least 1".to_owned())
    }
}

impl<const MOST: usize> FromStr for Bounded<MOST> {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let Positive(count) = typed.parse()?;
        match count.get() <= MOST {
            true => Ok(Bounded(count)),
            false => Err(format!("at most {MOST}")),
        }
    }
}

impl<T: FromStr<Err = String>> FromStr for Auto<T> {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        match typed {
            "auto" => Ok(Auto(None)),
            _ => typed.parse().map(|typed| Auto(Some(typed))).map_err(|e| format!("{e}, or auto")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_powers_of_1024() {
        for (typed, count) in [
            ("0", 0),
            ("7", 7),
            ("1K", 1024),
            ("2k", 2048),
            ("3M", 3 << 20),
            ("1m", 1 << 20),
            ("4G", 4 << 30),
            ("0G", 0),
            ("007", 7),
        ] {
            assert_eq!(typed.parse(), Ok(Count(count)), "{typed}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for typed in
            ["", "K", "-1", "+1", "1.5K", "1 K", " 1", "1KB", "1KiB", "K1", "1KK", "０", "1T", "é"]
        {
            assert!(typed.parse::<Count>().is_err(), "{typed}");
        }
    }

    #[test]
    fn overflow_is_refused() {
        for typed in ["18446744073709551616", "18014398509481984K", "99999999999999G"] {
            assert!(typed.parse::<Count>().is_err(), "{typed}");
        }
        assert_eq!("18446744073709551615".parse(), Ok(Count(usize::MAX)));
        let refused = "99999999999999G".parse::<Auto<Count>>();
        assert_eq!(refused, Err(format!("at most {}, or auto", usize::MAX)));
    }

    #[test]
    fn zero_is_not_positive() {
        assert!("0".parse::<Positive>().is_err());
        assert!("0K".parse::<Positive>().is_err());
        assert_eq!("1K".parse::<Positive>().map(|n| n.0.get()), Ok(1024));
    }

    #[test]
    fn bounds_are_named() {
        assert_eq!("1K".parse::<Bounded<1024>>().map(|n| n.0.get()), Ok(1024));
        assert_eq!("1025".parse::<Bounded<1024>>(), Err("at most 1024".to_owned()));
        assert!("0".parse::<Bounded<1024>>().is_err());
    }
}
