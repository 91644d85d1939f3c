//! Properties of every plan, and the plans of the released model.

use super::*;
use deltafin_spec::ModelSpec;
use proptest::prelude::*;

const GIB: u64 = 1 << 30;

fn demands() -> impl Strategy<Value = Demand> {
    let spine = prop::collection::vec(1u64..5000, 1..40);
    let moe = (0usize..9, 1usize..20, 0usize..10, 1u64..400);
    let rest = (
        0u64..2000,
        0u64..2000,
        (0u64..500, 0u64..500, 0u64..500),
        0u64..500,
        0u64..20,
        1usize..600,
    );
    let slabs = prop_oneof![3 => Just(usize::MAX), 1 => 1usize..30];
    let flags = (slabs, prop::bool::weighted(0.8), 0u64..2000);
    (spine, moe, rest, flags).prop_map(
        |(spine, (top_k, experts, moe_layers, expert), rest, flags)| {
            let (slabs, cache, pin) = flags;
            let (fixed, state, (snapshots, requests, besides), base, per_row, chunk) = rest;
            let top_k = top_k.clamp(1, experts);
            let workspace = Workspace::linear(base, per_row);
            let experts = experts * moe_layers;
            Demand {
                fixed,
                state,
                snapshots,
                requests,
                besides,
                workspace,
                chunk,
                spine,
                expert,
                experts,
                top_k,
                moe_layers,
                slabs,
                cache,
                pin,
            }
        },
    )
}

proptest! {
    #[test]
    fn a_plan_keeps_its_budget_and_its_parts_add_up(demand in demands(), more in 0u64..300_000) {
        let budget = Plan::smallest(&demand) + more;
        let plan = Plan::make(&demand, budget).unwrap();
        prop_assert!(plan.bytes() <= budget);
        prop_assert!((1..=demand.chunk).contains(&plan.chunk_rows));
        prop_assert_eq!(plan.workspace, demand.workspace.bytes(plan.chunk_rows));
        prop_assert!(plan.cache <= plan.expert_slabs && plan.expert_slabs <= demand.experts);
        prop_assert!(plan.expert_slabs >= demand.experts.min(2).min(demand.slabs));
        prop_assert!(plan.expert_slabs <= demand.slabs && (demand.cache || plan.cache == 0));
        prop_assert!(plan.pinned <= plan.cache && plan.pinned as u64 * plan.expert_room <= demand.pin);
        let units = demand.spine.iter().zip(&plan.spine_resident);
        let held: u64 = units.clone().filter(|(_, stays)| **stays).map(|(room, _)| room).sum();
        prop_assert_eq!(held, plan.spine_resident_bytes);
        let largest = units.filter(|(_, stays)| !**stays).map(|(room, _)| *room).max();
        prop_assert!(plan.spine_stream_bytes >= largest.unwrap_or(0));
    }

    #[test]
    fn the_budget_that_a_refusal_names_is_accepted(demand in demands(), less in 1u64..5000) {
        let smallest = Plan::smallest(&demand);
        prop_assert!(Plan::make(&demand, smallest).is_ok());
        let budget = smallest.saturating_sub(less);
        match Plan::make(&demand, budget) {
            Err(PlanError::TooSmall { smallest: named, .. }) => prop_assert_eq!(named, smallest),
            Ok(_) => prop_assert_eq!(budget, smallest),
        }
    }

    #[test]
    fn more_memory_never_buys_less(demand in demands(), a in 0u64..200_000, b in 0u64..4000) {
        let less = Plan::make(&demand, Plan::smallest(&demand) + a).unwrap();
        let more = Plan::make(&demand, Plan::smallest(&demand) + a + b).unwrap();
        prop_assert!(more.chunk_rows >= less.chunk_rows);
        // The whole spine may take the place of slabs.
        let whole = more.is_spine_resident() && !less.is_spine_resident();
        prop_assert!(whole || more.working_slabs() >= less.working_slabs() || more.cache == more.experts);
        prop_assert!(more.token_bytes(&demand) <= less.token_bytes(&demand), "{less}\n{more}");
        let spine = |plan: &Plan| (plan.spine_resident_bytes, plan.spine_stream_bytes);
        if spine(&more) == spine(&less) {
            prop_assert!(more.cache >= less.cache);
        }
    }

    #[test]
    fn less_is_left_idle_than_one_more_row_or_record_takes(demand in demands(), more in 0u64..300_000) {
        let plan = Plan::make(&demand, Plan::smallest(&demand) + more).unwrap();
        let row = match plan.chunk_rows < demand.chunk {
            true => demand.workspace.bytes(plan.chunk_rows + 1) - plan.workspace,
            false => 0,
        };
        // More of them are wanted than there are: those that are read, and those that may stay.
        let wanted = match demand.cache {
            true => demand.experts.min(demand.slabs),
            false => (2 * demand.top_k).max(2).min(demand.experts).min(demand.slabs),
        };
        let record = if plan.expert_slabs < wanted { demand.expert } else { 0 };
        if row.max(record) > 0 {
            let idle = plan.budget - plan.bytes();
            prop_assert!(idle < row.max(record), "{idle} of {plan:?}");
        }
    }

    #[test]
    fn what_is_large_enough_for_everything_holds_everything(demand in demands()) {
        let all = Plan::largest(&demand);
        prop_assert!(all >= Plan::smallest(&demand));
        let plan = Plan::make(&demand, all).unwrap();
        prop_assert!(plan.is_spine_resident());
        prop_assert_eq!(plan.is_resident(), demand.experts == 0 || demand.cache && demand.slabs >= demand.experts);
        prop_assert_eq!(plan.spine_stream_bytes, 0);
        prop_assert_eq!(plan.bytes(), all);
        prop_assert_eq!(Plan::make(&demand, all + 100_000).unwrap().bytes(), all);
        if all > Plan::smallest(&demand) {
            prop_assert!(Plan::make(&demand, all - 1).unwrap().bytes() < all);
        }
    }

    #[test]
    fn resident_layers_are_spread_evenly(demand in demands(), more in 0u64..300_000) {
        let plan = Plan::make(&demand, Plan::smallest(&demand) + more).unwrap();
        let layers = &plan.spine_resident[..plan.spine_resident.len() - 1];
        let held = layers.iter().filter(|stays| **stays).count();
        for end in 0..=layers.len() {
            let here = layers[..end].iter().filter(|stays| **stays).count() as f64;
            let share = (held * end) as f64 / layers.len().max(1) as f64;
            prop_assert!((here - share).abs() < 1.0, "{here} of the first {end}, wanted {share}");
        }
    }
}

fn usage(context: usize, chunk: usize) -> Usage {
    Usage { context, chunk, threads: 8 }
}

#[test]
fn the_released_model_runs_in_four_gigabytes() {
    let demand = Demand::of_spec(&ModelSpec::k3(), SpineFormat::Bf16, usage(4096, 512));
    let smallest = Plan::smallest(&demand);
    assert!(smallest <= 4_000_000_000, "{}", Size(smallest));
    let plan = Plan::make(&demand, smallest).unwrap();
    assert_eq!((plan.expert_slabs, plan.cache, plan.chunk_rows), (2, 0, 1));
    // The head is the largest unit there is.
    assert!(plan.spine_stream_bytes > 7168 * 163_840 * 2);
    assert!(!plan.spine_resident.contains(&true));
}

#[test]
fn sixteen_gigabytes_go_to_the_spine_of_the_released_model() {
    for format in [SpineFormat::Bf16, SpineFormat::Int8] {
        let demand = Demand::of_spec(&ModelSpec::k3(), format, usage(32 * 1024, 512));
        let plan = Plan::make(&demand, 16 * GIB).unwrap();
        assert_eq!((plan.chunk_rows, plan.working_slabs()), (512, 32));
        // The head, which needs the widest room to stream in, stays first.
        assert_eq!(plan.spine_resident.last(), Some(&true));
        assert!(plan.spine_resident_bytes > 8 * GIB, "{}", Size(plan.spine_resident_bytes));
        // What is left is less than one more layer.
        assert!(plan.budget - plan.bytes() < plan.expert_room);
    }
}

#[test]
fn no_budget_of_the_released_model_leaves_more_than_a_record_idle() {
    for (format, context) in
        [SpineFormat::Bf16, SpineFormat::Int8].into_iter().zip([256, 32 * 1024])
    {
        let demand = Demand::of_spec(&ModelSpec::k3(), format, usage(context, 512));
        for budget in (3..200).map(|halves| halves * GIB / 2) {
            let Ok(plan) = Plan::make(&demand, budget) else { continue };
            let idle = plan.budget - plan.bytes();
            assert!(idle < plan.expert_room, "{} of {}", Size(idle), Size(budget));
        }
    }
}

/// Where the spine's next unit needs more than is left, that goes to the experts.
#[test]
fn what_no_layer_fits_into_goes_to_the_cache() {
    let demand = Demand::of_spec(&ModelSpec::k3(), SpineFormat::Bf16, usage(256, 512));
    let plan = Plan::make(&demand, 5 * GIB).unwrap();
    assert!(!plan.spine_resident.contains(&true));
    assert!(plan.cache > 16, "{plan}");
}

#[test]
fn a_refusal_names_a_budget_that_can_be_typed() {
    let demand = Demand::of_spec(&ModelSpec::k3(), SpineFormat::Bf16, usage(8192, 512));
    let error = Plan::make(&demand, 2 * GIB).unwrap_err();
    let message = error.to_string();
    let typed = message.split("--memory ").nth(1).unwrap().split('M').next().unwrap();
    let bytes = typed.parse::<u64>().unwrap() << 20;
    assert!(Plan::make(&demand, bytes).is_ok(), "{message}");
    assert!(message.starts_with("a memory budget of 2.00 GiB is too small"), "{message}");
}

#[test]
fn the_longest_context_overflows_nothing() {
    let demand =
        Demand::of_spec(&ModelSpec::k3(), SpineFormat::Bf16, usage(usize::MAX, usize::MAX));
    let error = Plan::make(&demand, u64::MAX - 1).unwrap_err();
    assert!(matches!(error, PlanError::TooSmall { smallest: u64::MAX, .. }));
}

#[test]
fn sizes_read_well() {
    for (bytes, shown) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (4 << 30, "4.00 GiB")]
    {
        assert_eq!(Size(bytes).to_string(), shown);
    }
}

#[test]
fn a_plan_reads_well() {
    let demand = Demand::of_spec(&ModelSpec::k3(), SpineFormat::Int8, usage(32 * 1024, 512));
    let plan = Plan::make(&demand, 16 * GIB).unwrap();
    let text = plan.to_string();
    assert!(text.starts_with("memory budget    16.00 GiB  the most"), "{text}");
    assert!(text.contains("of 93 layers and the output head stay; the rest is read"), "{text}");
    assert!(text.contains("for 512 prompt rows at a time") && text.contains("room for 32 experts"));
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["budget"], 16 * GIB);
    assert_eq!(json["spine_resident"].as_array().unwrap().len(), 94);
}

#[test]
fn what_is_pinned_is_a_part_of_the_cache() {
    let demand = Demand::of_spec(&ModelSpec::k3(), SpineFormat::Int8, usage(8192, 512));
    let pinned = |pin: u64, slabs: usize, gib: u64| {
        let plan = Plan::make(&Demand { pin, slabs, ..demand.clone() }, gib * GIB).unwrap();
        (plan.pinned, plan)
    };
    let (records, plan) = pinned(4 * GIB, usize::MAX, 128);
    assert_eq!(records as u64, 4 * GIB / plan.expert_room);
    assert!(plan.to_string().contains(&format!(", {records} of them for good")), "{plan}");
    // No more than there is beside the experts that are being read.
    assert_eq!(pinned(4 * GIB, 40, 128).0, 8);
    assert_eq!(pinned(4 * GIB, 32, 128).0, 0);
    assert_eq!(pinned(0, usize::MAX, 128).0, 0);
}
