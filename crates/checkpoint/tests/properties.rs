//! What holds for any input: written headers read back, and no bytes make a parser panic
//! or believe in ranges that the file does not have.
#![allow(clippy::unwrap_used)]

use deltafin_checkpoint::write::{self, PlannedShard, PlannedTensor};
use deltafin_checkpoint::{Config, Generation, Header, Index};
use deltafin_spec::{Dtype, ModelSpec, Shape};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn dtype() -> impl Strategy<Value = Dtype> {
    let whole_bytes: Vec<Dtype> = Dtype::all().filter(|dtype| dtype.bits() >= 8).collect();
    prop::sample::select(whole_bytes)
}

fn shape() -> impl Strategy<Value = Shape> {
    vec(0u64..50, 0..=6).prop_map(|dims| Shape::new(&dims).unwrap())
}

/// Names with anything in them, also quotes, controls and characters outside the BMP.
fn tensors() -> impl Strategy<Value = Vec<PlannedTensor>> {
    btree_map(any::<String>(), (dtype(), shape()), 0..20).prop_map(|map| {
        let tensor = |(name, (dtype, shape))| PlannedTensor { name, dtype, shape };
        map.into_iter().filter(|(name, _)| name != "__metadata__").map(tensor).collect()
    })
}

proptest! {
    #[test]
    fn a_written_header_reads_back(tensors in tensors()) {
        let bytes = write::header(&tensors);
        let data: u64 = tensors.iter().map(PlannedTensor::bytes).sum();
        let header = Header::parse(&bytes, bytes.len() as u64 + data).unwrap();
        prop_assert_eq!(header.data_bytes(), data);
        prop_assert_eq!(header.data_offset, bytes.len() as u64);
        let mut read: Vec<_> = header
            .tensors
            .iter()
            .map(|t| PlannedTensor { name: t.name.to_string(), dtype: t.dtype, shape: t.shape })
            .collect();
        // Tensors without elements share their offset with a neighbour.
        let mut wanted = tensors;
        read.sort_by(|a, b| a.name.cmp(&b.name));
        wanted.sort_by(|a, b| a.name.cmp(&b.name));
        prop_assert_eq!(read, wanted);
    }

    #[test]
    fn a_written_index_reads_back(names in btree_map(any::<String>(), 0usize..5, 1..30)) {
        let mut shards: Vec<PlannedShard> = (0..5)
            .map(|n| PlannedShard { name: write::shard_name(n, 5), tensors: Vec::new() })
            .collect();
        let shape = Shape::new(&[3]).unwrap();
        for (name, shard) in &names {
            let tensor = PlannedTensor { name: name.clone(), dtype: Dtype::F32, shape };
            shards[*shard].tensors.push(tensor);
        }
        let json = write::index_json(&shards);
        let index = Index::parse(json.as_bytes()).unwrap();
        prop_assert_eq!(index.total_size, Some(names.len() as u64 * 12));
        prop_assert!(index.shards.is_sorted());
        prop_assert_eq!(index.entries.len(), names.len());
        for entry in &index.entries {
            let shard = names[entry.name.as_ref()];
            prop_assert_eq!(&index.shards[entry.shard as usize], &write::shard_name(shard, 5));
        }
    }

    #[test]
    fn a_header_with_changed_bytes_is_refused_or_covers_its_file(
        tensors in tensors(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        file_len in any::<u64>(),
    ) {
        let mut bytes = write::header(&tensors);
        let data: u64 = tensors.iter().map(PlannedTensor::bytes).sum();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for len in [bytes.len() as u64 + data, file_len] {
            if let Ok(header) = Header::parse(&bytes, len) {
                prop_assert_eq!(header.data_offset + header.data_bytes(), len);
                let mut end = header.data_offset;
                for tensor in &header.tensors {
                    prop_assert_eq!(tensor.offset, end);
                    end += tensor.len;
                }
            }
        }
    }

    #[test]
    fn changed_configurations_and_indexes_never_panic(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let config = write::config_json(&ModelSpec::k3(), &[1, 2]).into_bytes();
        let index = br#"{"metadata":{"total_size":4},"weight_map":{"a":"s","b":"t"}}"#.to_vec();
        let generation = br#"{"max_length":10,"eos_token_id":[1,2]}"#.to_vec();
        for mut bytes in [config, index, generation] {
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            if let Ok(config) = Config::parse(&bytes) {
                prop_assert_eq!(config.spec.check(), Ok(()));
            }
            let _ = Index::parse(&bytes);
            let _ = Generation::parse(&bytes, 100);
        }
    }

    #[test]
    fn any_bytes_at_all(bytes in vec(any::<u8>(), 0..200), len in any::<u64>()) {
        let _ = Header::parse(&bytes, len);
        let _ = Header::parse(&bytes, bytes.len() as u64);
        let _ = Index::parse(&bytes);
        let _ = Config::parse(&bytes);
    }
}
