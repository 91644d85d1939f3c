//! The processor: what it is, how many of its cores there are for us, what it can do.

use std::env::consts::{ARCH, OS};
use std::fs;

use deltafin_kernels::{Isa, IsaKind};

use super::finding::{Code, Finding, Level};

/// Looks at it.
pub(super) fn look() -> Vec<Finding> {
    let version = env!("CARGO_PKG_VERSION");
    let platform = Finding::ok("platform", format!("deltafin {version} on {OS}, {ARCH}"));
    vec![platform, cores(), instructions(), encryption()]
}

fn cores() -> Finding {
    let threads = deltafin_measure::default_threads();
    match fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|list| count(&list)) {
        Some(all) if threads < all => Finding::trouble(
            Level::Note,
            Code::FewerCores,
            "cores",
            format!("{threads} of {all} are for this process"),
            "if it is to have more, raise its affinity (taskset) or its group's quota (cpu.max)",
        ),
        _ => Finding::ok("cores", format!("{threads}")),
    }
}

/// The length of a list such as `0-3,6`.
fn count(list: &str) -> Option<usize> {
    let part = |part: &str| -> Option<usize> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    list.trim().split(',').map(part).sum()
}

fn instructions() -> Finding {
    let names: Vec<_> = Isa::available().map(|isa| isa.kind().name()).collect();
    let found = format!("{} of {}", Isa::best().kind().name(), names.join(", "));
    if Isa::best().kind() == IsaKind::Scalar {
        let fix = "runs, but slowly: use a processor with AVX2, or a 64-bit Arm";
        return Finding::trouble(Level::Warning, Code::SlowProcessor, "kernels", found, fix);
    }
    Finding::ok("kernels", found)
}

fn encryption() -> Finding {
    if deltafin_fetch::can_encrypt() {
        return Finding::ok("encryption", "this processor has what https needs");
    }
    let found = "this processor lacks instructions that https needs (AES, AVX2)";
    let fix = "fetch on another machine and give the folder with 'deltafin setup --source DIR'";
    Finding::trouble(Level::Warning, Code::NoEncryption, "encryption", found, fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(count("0-3\n"), Some(4));
        assert_eq!(count("0,2-3,8"), Some(4));
        assert_eq!(count(""), None);
        assert_eq!(count("3-1"), None);
    }
}
