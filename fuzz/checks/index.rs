//! Any bytes as an index: refused, or every entry names one of the shards.

use deltafin_checkpoint::Index;

pub(crate) fn check(data: &[u8]) {
    if let Ok(index) = Index::parse(data) {
        assert!(index.shards.is_sorted());
        for entry in &index.entries {
            let shard = &index.shards[entry.shard as usize];
            assert!(!shard.contains(['/', '\\']));
        }
    }
}
