//! The released checkpoint at its full size: 96 shards, 497,220 tensors, 1.56 TB. The files
//! are sparse, with real headers and no data, so that opening costs what it will cost a
//! user and the disk holds some 140 MB for the length of the test.
//!
//! The opening runs in a child process of its own, whose peak memory is asserted. Time is
//! printed, and asserted only where `DELTAFIN_TEST_OPEN_SECONDS` gives a bound, as
//! `scripts/check-open` does.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use deltafin_checkpoint::Span;
use deltafin_spec::{ExpertId, ExpertTensor, LayerId, ModelSpec, SpineTensor};
use deltafin_store::{open_dir, read_record, read_row};
use deltafin_synth::{Content, Dimensions, Ended, Plan, Preset, Routing};

const CHILD: &str = "DELTAFIN_TEST_OPEN_CHILD";
const PEAK_LIMIT_KB: u64 = 300 * 1024;

fn write_k3(dir: &Path) {
    let plan = Plan::new(&Dimensions::of(Preset::K3), Routing::EVEN, 1).unwrap();
    let shards = plan.shards();
    assert_eq!(shards.len(), 96);
    assert_eq!(shards.iter().map(|shard| shard.tensors.len()).sum::<usize>(), 497_220);
    assert_eq!(shards[1].header().len(), 8 + 818_696, "the released header of shard 2");
    assert_eq!(shards[1].name, "model-00002-of-000096.safetensors");
    assert_eq!(plan.bytes(), 1_560_936_091_448, "the released shards' files");
    let ended = plan.write(dir, Content::Holes, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(ended, Ended::Complete);
    let index = fs::metadata(dir.join("model.safetensors.index.json")).unwrap();
    assert_eq!(index.len(), 59_764_096, "the released index");
}

/// Runs the child with a descriptor limit, hard and soft.
fn open_with(dir: &Path, descriptors: u32) {
    let this = std::env::current_exe().unwrap();
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -n {descriptors} && exec \"$0\" child_opens --exact --nocapture"))
        .arg(this)
        .env(CHILD, dir)
        .status()
        .unwrap();
    assert!(status.success(), "opening with {descriptors} descriptors: {status}");
}

#[test]
fn the_full_size_opens_fast_and_small_with_many_or_few_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    write_k3(dir.path());
    for descriptors in [1024, 64, 24] {
        open_with(dir.path(), descriptors);
    }
}

/// Does nothing unless it is the child of the test above.
#[test]
fn child_opens() {
    let Some(dir) = std::env::var_os(CHILD) else {
        return;
    };
    let start = Instant::now();
    let checkpoint = open_dir(dir).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let peak = peak_kb();
    println!("opened in {seconds:.2} s, peak {} MB", peak.unwrap_or(0) / 1024);
    let catalog = &checkpoint.catalog;
    assert_eq!(*checkpoint.spec(), ModelSpec::k3());
    assert_eq!(catalog.ignored().tensors, 168);
    assert_eq!(catalog.ignored().bytes, 92_289_024 + 802_428_928);
    check_records(catalog);
    check_reads(&checkpoint);
    assert!(peak.unwrap_or(0) <= PEAK_LIMIT_KB, "peak {peak:?} KB");
    if let Ok(bound) = std::env::var("DELTAFIN_TEST_OPEN_SECONDS") {
        assert!(seconds <= bound.parse().unwrap(), "opened in {seconds} s, wanted {bound}");
    }
}

fn check_records(catalog: &deltafin_checkpoint::Catalog) {
    let spec = catalog.spec();
    let first = catalog.expert(LayerId::new(1), ExpertId::new(0));
    assert_eq!(first.record.pieces()[0].offset(), 1_268_562_960);
    assert_eq!(first.layout.place(ExpertTensor::W3Scale).offset, 17_203_200);
    // In name order, expert 10 follows expert 1.
    let at = |e| catalog.expert(LayerId::new(1), ExpertId::new(e)).record.pieces()[0];
    assert_eq!(at(10).offset(), at(1).end());
    for layer in spec.layer_ids() {
        assert_eq!(catalog.spine(layer).record().pieces().len(), 1);
        assert_eq!(catalog.spine(layer).record().len(), spec.spine_bytes(layer));
    }
    for layer in spec.moe_layers() {
        for expert in spec.moe.expert_ids() {
            let record = catalog.expert(layer, expert).record;
            assert_eq!((record.pieces().len(), record.len()), (1, 17_547_264));
            let first = catalog.expert(layer, ExpertId::new(0)).record.pieces()[0];
            let misaligned = |span: Span| span.offset() % 4096;
            assert_eq!(misaligned(record.pieces()[0]), misaligned(first));
        }
    }
    let a_log = catalog.spine(LayerId::new(0)).tensor(SpineTensor::KdaALog).unwrap();
    assert_eq!(a_log.shape.dims(), [128]);
}

fn check_reads(checkpoint: &deltafin_store::Checkpoint) {
    let store = &*checkpoint.store;
    let last = checkpoint.catalog.expert(LayerId::new(92), ExpertId::new(895));
    let mut buf = vec![1; last.record.len() as usize];
    read_record(store, last.record, &mut buf).unwrap();
    assert!(buf.iter().all(|&byte| byte == 0), "a hole reads as zeros");
    let embed = &checkpoint.catalog.globals().embed;
    let mut row = vec![1; embed.row_bytes() as usize];
    read_row(store, embed, 163_839, &mut row).unwrap();
    // Every shard once more, which makes a small pool open and close files.
    for layer in checkpoint.spec().layer_ids() {
        let span = checkpoint.catalog.spine(layer).record().pieces()[0];
        let mut front = [1; 16];
        store.read_exact(span.part(0, 16).unwrap(), &mut front).unwrap();
    }
    assert_eq!(checkpoint.identity().unwrap(), checkpoint.identity().unwrap());
}

/// Peak resident memory of this process, where the system tells.
fn peak_kb() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
