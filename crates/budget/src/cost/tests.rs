use super::*;
use crate::hits::hit_rate;
use crate::{Demand, Usage};

const GIB: u64 = 1 << 30;
const RATES: Rates = Rates {
    memory_gbps: 60.0,
    drive_gbps: 4.0,
    spine_gbps: 50.0,
    expert_gbps: 30.0,
    prompt_gmacs: 90.0,
};

struct K3 {
    demand: Demand,
    touched: Touched,
}

fn k3(format: SpineFormat) -> K3 {
    let spec = ModelSpec::k3();
    let usage = Usage { context: 8192, chunk: 512, threads: 8 };
    K3 { demand: Demand::of_spec(&spec, format, usage), touched: Touched::of(&spec, format, 1024) }
}

impl K3 {
    fn at(&self, budget: u64, rates: &Rates) -> (Plan, Estimate) {
        let plan = Plan::make(&self.demand, budget).unwrap();
        let hits = hit_rate(&self.demand, plan.kept(&self.demand));
        let estimate = Estimate::of(&plan, &self.touched, rates, hits, GUESSED);
        (plan, estimate)
    }
}

#[test]
fn a_token_of_the_released_model_touches_what_is_published() {
    let bf16 = k3(SpineFormat::Bf16).touched;
    assert_eq!(bf16.token_experts(), 25_829_572_608);
    assert_eq!(bf16.spine_bytes() / 1_000_000, 111_160);
    let int8 = k3(SpineFormat::Int8).touched;
    // Router and write strength stay as released.
    assert_eq!(int8.spine_bytes() / 1_000_000, 56_263);
}

#[test]
fn a_streamed_spine_costs_its_bytes() {
    let (plan, estimate) = k3(SpineFormat::Bf16).at(8 * GIB, &RATES);
    assert!(!plan.is_spine_resident());
    let bytes = (estimate.spine_read_bytes + estimate.expert_read_bytes) as f64;
    assert!((estimate.token_seconds - bytes / 4e9).abs() < 1e-6);
    assert_eq!(estimate.limit, Limit::Drive);
}

#[test]
fn a_resident_spine_costs_its_reads_and_what_nothing_hides() {
    let (plan, estimate) = k3(SpineFormat::Int8).at(80 * GIB, &RATES);
    assert!(plan.is_spine_resident() && !plan.is_resident());
    assert_eq!(estimate.spine_read_bytes, 0);
    let late = estimate.read_seconds * (1.0 - GUESSED);
    assert!(estimate.token_seconds > late + 55e9 / 50e9);
    assert!(estimate.token_seconds < estimate.read_seconds + estimate.compute_seconds);
}

#[test]
fn with_everything_resident_nothing_is_read() {
    let (plan, estimate) = k3(SpineFormat::Bf16).at(4096 * GIB, &RATES);
    assert!(plan.is_resident());
    assert_eq!((estimate.spine_read_bytes, estimate.expert_read_bytes), (0, 0));
    assert_eq!(estimate.token_seconds, estimate.compute_seconds);
    assert_eq!(estimate.limit, Limit::Memory);
    assert_eq!((estimate.prompt_read_bytes, estimate.prompt_limit), (0, Limit::Compute));
}

#[test]
fn more_memory_or_a_faster_drive_is_never_slower() {
    for format in [SpineFormat::Bf16, SpineFormat::Int8] {
        let model = k3(format);
        let mut last = f64::INFINITY;
        for gib in (4..1800).step_by(7) {
            let (_, estimate) = model.at(gib * GIB, &RATES);
            // A unit of the spine may take the place of a small cache, which counts for a little too.
            assert!(estimate.token_seconds <= last * 1.002, "{gib} GiB");
            last = estimate.token_seconds;
            let fast = Rates { drive_gbps: 8.0, ..RATES };
            assert!(model.at(gib * GIB, &fast).1.token_seconds <= estimate.token_seconds);
        }
    }
}

#[test]
fn two_rows_need_less_than_twice_the_experts_of_one() {
    let touched = k3(SpineFormat::Int8).touched;
    let one = union(&touched, 1);
    assert!((union(&touched, 2) / one - 1.7).abs() < 0.1);
    assert!((union(&touched, 8) / one - 4.3).abs() < 0.3);
    assert!((0.7..1.0).contains(&union(&touched, 512)));
}

#[test]
fn a_model_without_experts_reads_none() {
    let mut spec = ModelSpec::k3();
    spec.layers.iter_mut().for_each(|layer| layer.ffn = FfnKind::Dense);
    let usage = Usage { context: 100, chunk: 8, threads: 1 };
    let demand = Demand::of_spec(&spec, SpineFormat::Bf16, usage);
    let plan = Plan::make(&demand, 64 * GIB).unwrap();
    let touched = Touched::of(&spec, SpineFormat::Bf16, 0);
    let hits = hit_rate(&demand, plan.kept(&demand));
    let estimate = Estimate::of(&plan, &touched, &RATES, hits, GUESSED);
    assert_eq!((plan.expert_slabs, estimate.expert_read_bytes), (0, 0));
    assert!(estimate.token_seconds.is_finite() && estimate.prompt_seconds.is_finite());
}

#[test]
fn without_guesses_no_expert_is_read_early() {
    let k3 = k3(SpineFormat::Int8);
    let plan = Plan::make(&k3.demand, 80 * GIB).unwrap();
    let token = |guessed| Estimate::of(&plan, &k3.touched, &RATES, 0.5, guessed).token_seconds;
    assert!(token(0.0) > token(GUESSED));
}
