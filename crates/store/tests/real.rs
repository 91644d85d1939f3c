//! Opt-in: opens the checkpoint that `DELTAFIN_TEST_CHECKPOINT` names and reads a little of
//! every part. Without the variable it passes at once.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use deltafin_spec::{ExpertId, LayerId};
use deltafin_store::{open_dir, read_record, read_row};

#[test]
fn a_checkpoint_by_path_opens_and_reads() {
    let Some(path) = std::env::var_os("DELTAFIN_TEST_CHECKPOINT") else {
        return;
    };
    let start = Instant::now();
    let checkpoint = open_dir(path).unwrap();
    let catalog = &checkpoint.catalog;
    println!("{}: opened in {:?}", checkpoint.source, start.elapsed());
    println!("{} shards, {} bytes", catalog.shards().len(), catalog.file_bytes());
    println!("ignored {:?}, stop ids {:?}", catalog.ignored(), checkpoint.stop_ids());
    println!("identity {}", checkpoint.identity().unwrap());
    let spec = checkpoint.spec();
    for layer in [0, spec.layers.len() as u32 - 1].map(LayerId::new) {
        let record = catalog.spine(layer).record();
        let mut buf = vec![0; record.len() as usize];
        read_record(&*checkpoint.store, record, &mut buf).unwrap();
        println!("spine {layer}: {} piece(s), {} bytes", record.pieces().len(), record.len());
    }
    for layer in spec.moe_layers() {
        let expert = catalog.expert(layer, ExpertId::new(spec.moe.experts as u32 - 1));
        let mut buf = vec![0; expert.record.len() as usize];
        read_record(&*checkpoint.store, expert.record, &mut buf).unwrap();
        assert_eq!(expert.record.len(), spec.expert_bytes());
    }
    let embed = &catalog.globals().embed;
    let mut row = vec![0; embed.row_bytes() as usize];
    read_row(&*checkpoint.store, embed, embed.rows() - 1, &mut row).unwrap();
}
