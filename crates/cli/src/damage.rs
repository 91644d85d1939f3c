//! Damage in words: a line for each piece, and one for all that went with the end of a layer's file.

use std::collections::BTreeMap;

use deltafin_fetch::Damage;

use crate::stats::bytes;
use crate::terminal::one_line;

/// What is damaged, a line each, in the order of files; experts that a layer's file ends before are one.
pub(crate) fn lines(damage: &[Damage]) -> Vec<String> {
    let pieces = damage.iter().filter(|damage| damage.cut_from.is_none());
    let pieces = pieces.map(|Damage { file, offset, bytes, of, .. }| {
        format!("{}: {of}: {bytes} bytes at {offset} are damaged", one_line(file))
    });
    cut(damage).into_iter().chain(pieces).collect()
}

/// Files that end before experts that came into them, a line each.
pub(crate) fn cut(damage: &[Damage]) -> Vec<String> {
    let mut lost: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for Damage { cut_from, bytes, .. } in damage {
        if let Some(file) = cut_from {
            let lost = lost.entry(file).or_default();
            *lost = (lost.0 + 1, lost.1 + bytes);
        }
    }
    let line = |(file, (experts, size)): (&str, (u64, u64))| {
        let experts = match experts {
            1 => "1 expert".to_owned(),
            n => format!("{n} experts"),
        };
        format!("{file}: ends before {experts} that came into it, {}", bytes(size))
    };
    lost.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_with_a_file_is_one_line() {
        let piece = |offset: u64, cut_from: Option<&str>| Damage {
            file: "a".to_owned(),
            offset,
            bytes: 512,
            of: "layer 3".to_owned(),
            converted: None,
            cut_from: cut_from.map(str::to_owned),
        };
        let (third, fourth) = (Some("experts-003.records"), Some("experts-004.records"));
        let damage = [piece(0, fourth), piece(1, None), piece(2, third), piece(3, third)];
        let wanted = [
            "experts-003.records: ends before 2 experts that came into it, 1.00 KiB",
            "experts-004.records: ends before 1 expert that came into it, 512 B",
            "a: layer 3: 512 bytes at 1 are damaged",
        ];
        assert_eq!(lines(&damage), wanted);
    }
}
