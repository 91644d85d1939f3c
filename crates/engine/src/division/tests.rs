use super::*;
use crate::RequestMemory;
use deltafin_budget::{PlanError, SpineFormat};

const MIB: u64 = 1 << 20;

/// The released model, and one that allows few positions.
fn models() -> Vec<(ModelSpec, Rooms)> {
    let k3 = ModelSpec::k3();
    let short = ModelSpec { max_positions: 3000, ..k3.clone() };
    let formats = [SpineFormat::Bf16, SpineFormat::Int8];
    let specs = [k3, short].into_iter().zip(formats);
    specs.map(|(spec, format)| (Rooms::of_spec(&spec, format), spec)).map(|(r, s)| (s, r)).collect()
}

fn all_options() -> Vec<EngineOptions> {
    let contexts = [None, Some(1), Some(2000)];
    let snapshots = [SnapshotMemory::None, SnapshotMemory::Auto, SnapshotMemory::Bytes(1 << 30)];
    let of = |(context, snapshots): (Option<usize>, SnapshotMemory)| EngineOptions {
        context: context.and_then(NonZeroUsize::new),
        snapshots,
        threads: NonZeroUsize::new(4),
        ..EngineOptions::default()
    };
    let mut all: Vec<EngineOptions> =
        contexts.into_iter().flat_map(|c| snapshots.map(|s| (c, s))).map(of).collect();
    let slabs = NonZeroUsize::new(1);
    all.push(EngineOptions { slabs, cache: false, pin: 1 << 30, ..all[1] });
    let requests = RequestMemory { least: 20 * MIB, most: 500 * MIB, position: 72 };
    all.push(EngineOptions { besides: 345 * MIB, ..all[0] });
    all.extend([0, 1, 3].map(|at| EngineOptions { requests, ..all[at] }));
    all
}

fn refused(divided: Result<Division, EngineError>) -> Option<(u64, String)> {
    match divided {
        Ok(_) => None,
        Err(EngineError::Budget(BudgetError::Plan(error))) => {
            let PlanError::TooSmall { smallest, .. } = error;
            Some((smallest, error.to_string()))
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_budget_that_a_refusal_names_is_accepted_and_no_smaller_one_is() {
    let mut refusals = 0;
    for (spec, rooms) in models() {
        for options in all_options() {
            let divide = |budget| Division::of(&spec, &rooms, &options, budget);
            for budget in (0..24).map(|step| (MIB << (step / 2)) * (2 + step % 2) / 2) {
                let Some((smallest, message)) = refused(divide(budget)) else { continue };
                refusals += 1;
                let at = format!("{options:?} in {budget}: {message}");
                assert!(smallest > budget, "{at}");
                assert!(refused(divide(smallest)).is_none(), "{at}");
                assert!(refused(divide(smallest - 1)).is_some(), "{at}");
                let typed =
                    message.split("--memory ").nth(1).and_then(|rest| rest.split('M').next());
                let typed: u64 = typed.unwrap_or_default().parse().unwrap();
                assert_eq!(typed * MIB, smallest, "{at}");
            }
        }
    }
    assert!(refusals > 200, "{refusals}");
}

#[test]
fn a_larger_budget_never_has_fewer_positions() {
    for (spec, rooms) in models() {
        let options = all_options()[0];
        let budgets = (2..64).map(|gib| Division::of(&spec, &rooms, &options, gib << 30));
        let contexts: Vec<usize> = budgets.flatten().map(|d| d.usage.context).collect();
        assert!(contexts.is_sorted(), "{contexts:?}");
        let most = spec.max_positions.min(DEFAULT_CONTEXT);
        assert_eq!(contexts.first(), Some(&most.min(LEAST_CONTEXT)));
        assert_eq!(contexts.last(), Some(&most));
    }
}

#[test]
fn what_is_not_usual_is_told() {
    let (spec, rooms) = models().remove(0);
    let divide = |context: Option<usize>| {
        let context = context.and_then(NonZeroUsize::new);
        let options = EngineOptions { context, ..all_options()[0] };
        Division::of(&spec, &rooms, &options, 8 << 30).unwrap()
    };
    let short = divide(None);
    assert!(short.usage.context < DEFAULT_CONTEXT);
    assert_eq!(short.short_of, Some(DEFAULT_CONTEXT));
    assert_eq!(divide(Some(100)).short_of, None);
    let asked = EngineOptions { context: NonZeroUsize::new(2 << 20), ..all_options()[0] };
    let error = Division::of(&spec, &rooms, &asked, 8 << 30).unwrap_err();
    assert!(matches!(error, EngineError::Context { .. }), "{error}");
}

#[test]
fn whatever_takes_memory_is_in_the_plan() {
    let (spec, rooms) = models().remove(1);
    let divide =
        |options: EngineOptions| Division::of(&spec, &rooms, &options, 96 << 30).unwrap().plan;
    let usual = all_options()[0];
    let plan = divide(usual);
    assert!(plan.cache > 100 && (plan.snapshots, plan.pinned) == (0, 0), "{plan}");
    let snapshots = divide(EngineOptions { snapshots: SnapshotMemory::Auto, ..usual });
    assert!(snapshots.snapshots > 0 && snapshots.bytes() <= snapshots.budget, "{snapshots}");
    assert!(snapshots.cache < plan.cache, "{snapshots}");
    let slabs = divide(EngineOptions { slabs: NonZeroUsize::new(50), ..usual });
    assert_eq!((slabs.expert_slabs, slabs.cache), (50, 50 - plan.working_slabs()));
    assert_eq!(
        divide(EngineOptions { pin: 1 << 30, ..usual }).pinned as u64,
        (1 << 30) / plan.expert_room
    );
    let besides = divide(EngineOptions { besides: 1 << 30, ..usual });
    assert_eq!(besides.besides, 1 << 30);
    assert!(besides.cache < plan.cache && besides.bytes() <= besides.budget, "{besides}");
    let off = divide(EngineOptions { cache: false, ..usual });
    assert_eq!((off.cache, off.expert_slabs), (0, plan.working_slabs()));
}

#[test]
fn requests_have_a_part_of_the_memory_within_their_bounds() {
    let (spec, rooms) = models().remove(0);
    let requests = RequestMemory { least: 20 * MIB, most: 500 * MIB, position: 72 };
    let options = EngineOptions { requests, context: NonZeroUsize::new(1000), ..all_options()[1] };
    let bytes = |budget| Division::of(&spec, &rooms, &options, budget).map(|d| d.plan.requests);
    let (smallest, _) = refused(Division::of(&spec, &rooms, &options, MIB)).unwrap();
    // Less than a MiB is left of one that is named.
    let least = 20 * MIB + 72_000;
    assert!((least..least + MIB).contains(&bytes(smallest).unwrap()));
    assert_eq!(bytes(4 << 30).unwrap(), (4 << 30) / 16 + 72_000);
    assert_eq!(bytes(64 << 30).unwrap(), 500 * MIB + 72_000);
    let none = EngineOptions { requests: RequestMemory::default(), ..options };
    assert_eq!(Division::of(&spec, &rooms, &none, 4 << 30).unwrap().plan.requests, 0);
}
