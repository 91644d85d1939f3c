//! With more memory a token never reads more, whatever the model's shape.
#![allow(clippy::unwrap_used)]

use deltafin_budget::{Demand, Learned, Plan, SpineFormat, Touched, Usage, expected_hits};
use deltafin_spec::{KdaSpec, LayerSpec, MlaSpec, ModelSpec, MoeSpec};

/// Layers of K3's widths, few of them, with few experts.
fn slice(layers: usize, experts: usize) -> ModelSpec {
    let k3 = ModelSpec::k3();
    ModelSpec {
        vocab: 4096,
        layers: k3.layers[..layers].to_vec(),
        dense_width: 8192,
        moe: MoeSpec { experts, ..k3.moe },
        ..k3
    }
}

/// So narrow that alignment is most of a record.
fn micro() -> ModelSpec {
    let k3 = ModelSpec::k3();
    let layers: Vec<LayerSpec> = k3.layers[..6].to_vec();
    ModelSpec {
        hidden: 128,
        vocab: 512,
        attn_res_block: 2,
        max_positions: 1 << 16,
        layers,
        kda: KdaSpec { heads: 4, head_dim: 32, ..k3.kda },
        mla: MlaSpec { heads: 4, qk_nope: 32, qk_rope: 16, v_head: 32, q_lora: 48, kv_lora: 32 },
        dense_width: 256,
        moe: MoeSpec { experts: 16, top_k: 4, latent: 64, width: 64, ..k3.moe },
        ..k3
    }
}

/// Every plan of a demand that differs from the one before, over many budgets up to all there is use for.
fn plans(demand: &Demand) -> impl Iterator<Item = Plan> {
    let (least, most) = (Plan::smallest(demand), Plan::largest(demand));
    let steps = 150;
    let even = (0..=steps).map(move |step| least + (most - least) / steps * step);
    // Where one unit more of the spine fits, or the room to read it ahead in.
    let spine: u64 = demand.spine.iter().sum();
    let at_units = (1..=24).flat_map(move |step| {
        let near = least + spine / 24 * step;
        [near - demand.expert, near, near + demand.expert]
    });
    let mut budgets: Vec<u64> = even.chain(at_units).chain([most]).collect();
    budgets.retain(|budget| (least..=most).contains(budget));
    budgets.sort_unstable();
    budgets.into_iter().map(|budget| Plan::make(demand, budget).unwrap())
}

#[test]
fn a_token_never_reads_more_with_more_memory() {
    let shapes = [
        ("K3", ModelSpec::k3()),
        ("a slice", slice(4, 48)),
        ("a deeper slice", slice(9, 24)),
        ("a narrow one", micro()),
    ];
    for (shape, spec) in shapes {
        for format in [SpineFormat::Bf16, SpineFormat::Int8] {
            for chunk in [1, 512] {
                let usage = Usage { context: 4096, chunk, threads: 2 };
                let demand = Demand::of_spec(&spec, format, usage);
                never_reads_more(&format!("{shape} as {}, chunk {chunk}", format.name()), &demand);
                let few = Demand { slabs: 24, ..demand.clone() };
                never_reads_more(&format!("{shape} with few slabs"), &few);
                never_reads_more(
                    &format!("{shape} without a cache"),
                    &Demand { cache: false, ..demand },
                );
            }
        }
    }
}

#[track_caller]
fn never_reads_more(what: &str, demand: &Demand) {
    let mut before: Option<(u64, Plan)> = None;
    for plan in plans(demand) {
        let bytes = plan.token_bytes(demand);
        if let Some((least, with)) = &before {
            assert!(
                bytes <= *least,
                "{what}: {bytes} instead of {least} with {plan}\nafter {with}"
            );
        }
        before = Some((bytes, plan));
    }
    assert_eq!(
        before.map(|(bytes, _)| bytes == 0),
        Some(demand.cache && demand.slabs > 24),
        "{what}"
    );
}

/// What is predicted is that without the alignment of reads.
#[test]
fn nor_is_it_predicted_to() {
    for spec in [ModelSpec::k3(), slice(4, 48)] {
        for format in [SpineFormat::Bf16, SpineFormat::Int8] {
            let usage = Usage { context: 4096, chunk: 512, threads: 2 };
            let demand = Demand::of_spec(&spec, format, usage);
            let touched = Touched::of(&spec, format, 0);
            let mut least = u64::MAX;
            for plan in plans(&demand) {
                let hits = expected_hits(&demand, plan.kept(&demand), &Learned::default());
                let units = touched.spine.iter().zip(&plan.spine_resident);
                let streamed: u64 =
                    units.filter(|(_, stays)| !**stays).map(|(bytes, _)| bytes).sum();
                let bytes =
                    streamed + (touched.token_experts() as f64 * (1.0 - hits)).round() as u64;
                assert!(bytes <= least, "{bytes} instead of {least}: {plan}");
                least = bytes;
            }
        }
    }
}
