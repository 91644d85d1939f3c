//! Memory: how much there is for us, what sets that, and whether the model fits.

use deltafin_budget::{Bound, Level as Pressed, Limits, Pressure, Rooms, SpineFormat};
use deltafin_engine::{Division, EngineOptions, ModelSpec};

use super::finding::{Code, Finding, Level};
use super::model::Subject;
use crate::stats::bytes;

/// Looks at it.
pub(super) fn look(subject: &Subject) -> Vec<Finding> {
    let limits = Limits::read();
    let mut findings = vec![amount(&limits), room(&limits, subject)];
    findings.extend(pressure(Pressure::watch().poll()));
    findings
}

fn amount(limits: &Limits) -> Finding {
    let ceiling = limits.ceiling();
    let all = limits.physical.map_or_else(|| "unknown".to_owned(), bytes);
    match ceiling.bound {
        Bound::Group(_) | Bound::Address | Bound::Data => Finding::trouble(
            Level::Note,
            Code::LimitedMemory,
            "memory",
            format!("{} of {all}: {}", bytes(ceiling.bytes), ceiling.bound),
            "if it is to have more, raise that limit",
        ),
        _ => Finding::ok("memory", format!("{all}, {} for 'auto'", bytes(limits.auto()))),
    }
}

fn room(limits: &Limits, subject: &Subject) -> Finding {
    let (budget, released) = (limits.auto(), ModelSpec::k3());
    let (name, spec, rooms) = match subject.checkpoint() {
        Some(found) => ("the model", found.spec(), deltafin_engine::rooms(&found.catalog)),
        None => ("Kimi K3", &released, Rooms::of_spec(&released, SpineFormat::Bf16)),
    };
    // As a run divides it.
    match Division::of(spec, &rooms, &EngineOptions::default(), budget) {
        Ok(division) => {
            let (most, context) = (bytes(budget), division.usage.context);
            Finding::ok("budget", format!("{name} fits in {most}, with {context} positions"))
        }
        Err(error) => {
            let found = format!("{name} in {} ({}): {error}", bytes(budget), limits.usable().bound);
            let fix = "end other programs, or pack the spine ('deltafin convert --spine int8')";
            Finding::trouble(Level::Fault, Code::TooLittleMemory, "budget", found, fix)
        }
    }
}

fn pressure(level: Pressed) -> Option<Finding> {
    let (level, found) = match level {
        Pressed::Calm => return None,
        Pressed::Tight => (Level::Note, "others begin to wait for memory"),
        Pressed::Critical => (Level::Warning, "hardly any memory is free"),
    };
    let fix = "end other programs; a model that runs gives memory up by itself";
    Some(Finding::trouble(level, Code::ShortMemory, "pressure", found, fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_the_machine_is_named() {
        let machine = Limits { physical: Some(64 << 30), ..Limits::default() };
        assert_eq!(amount(&machine).level, Level::Ok);
        let found = amount(&Limits { data: Some(2 << 30), ..machine });
        assert_eq!(found.code, Some("DF-MEM-02"));
        assert!(found.found.contains("ulimit -d"), "{found:?}");
    }

    #[test]
    fn a_machine_that_is_too_small_for_k3_is_told_so() {
        let none = Subject::none();
        let small = Limits { physical: Some(1 << 30), ..Limits::default() };
        assert_eq!(room(&small, &none).code, Some("DF-MEM-01"));
        let large = Limits { physical: Some(1 << 40), ..Limits::default() };
        assert_eq!(room(&large, &none).level, Level::Ok);
    }

    #[test]
    fn pressure_is_told_by_its_level() {
        assert_eq!(pressure(Pressed::Calm), None);
        assert_eq!(pressure(Pressed::Critical).unwrap().code, Some("DF-MEM-03"));
    }
}
