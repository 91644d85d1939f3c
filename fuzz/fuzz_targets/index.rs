//! Any bytes as an index: refused, or every entry names one of the shards.
#![no_main]

use deltafin_checkpoint::Index;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(index) = Index::parse(data) {
        assert!(index.shards.is_sorted());
        for entry in &index.entries {
            let shard = &index.shards[entry.shard as usize];
            assert!(!shard.contains(['/', '\\']));
        }
    }
});
