//! The same tensors come out wherever a writer put them.
#![allow(clippy::unwrap_used)]

mod support;

use deltafin_checkpoint::write::{self, PlannedShard, PlannedTensor};
use deltafin_spec::{Dtype, ExpertTensor, GlobalTensor, ModelSpec, Shape, TensorId};
use deltafin_store::{Checkpoint, from_memory, inspect_dir, open_dir, read_record, read_row};
use support::{CONFIG, Files, INDEX, Random, files, files_of, leak, plan, spec, tensor_bytes};

/// Every tensor of the checkpoint against the bytes that follow from its name.
fn check_all_tensors(checkpoint: &Checkpoint) {
    let (catalog, spec) = (&checkpoint.catalog, checkpoint.spec());
    let wanted = |id: TensorId| tensor_bytes(&PlannedTensor::of(id, spec));
    for layer in spec.layer_ids() {
        let spine = catalog.spine(layer);
        let mut buf = vec![0; spine.record().len() as usize];
        read_record(&*checkpoint.store, spine.record(), &mut buf).unwrap();
        assert!(spine.tensors().iter().map(|t| t.role).eq(spec.spine(layer)));
        for tensor in spine.tensors() {
            let id = TensorId::Spine(layer, tensor.role);
            assert_eq!(buf[tensor.place.range()], wanted(id), "{id}");
            assert_eq!(tensor.place.offset % tensor.dtype.size_bytes(), 0, "{id} is aligned");
            assert_eq!(tensor.shape, id.shape(spec));
            let alone = spine.record().locate(tensor.place).unwrap();
            let mut buf = vec![0; alone.len() as usize];
            checkpoint.store.read_exact(alone, &mut buf).unwrap();
            assert_eq!(buf, wanted(id), "{id} alone");
        }
    }
    for layer in spec.moe_layers() {
        for expert in spec.moe.expert_ids() {
            let found = catalog.expert(layer, expert);
            let mut buf = vec![0; found.record.len() as usize];
            read_record(&*checkpoint.store, found.record, &mut buf).unwrap();
            for &role in ExpertTensor::ALL {
                let id = TensorId::Expert(layer, expert, role);
                assert_eq!(buf[found.layout.range(role)], wanted(id), "{id}");
            }
        }
    }
    check_globals(checkpoint);
}

fn check_globals(checkpoint: &Checkpoint) {
    let (globals, spec) = (checkpoint.catalog.globals(), checkpoint.spec());
    let wanted = |role| tensor_bytes(&PlannedTensor::of(TensorId::Global(role), spec));
    for tensor in [globals.norm, globals.output_res_norm, globals.output_res_proj] {
        let mut buf = vec![0; tensor.record().len() as usize];
        read_record(&*checkpoint.store, tensor.record(), &mut buf).unwrap();
        assert_eq!(buf, wanted(tensor.role));
    }
    for (table, role) in
        [(&globals.embed, GlobalTensor::Embed), (&globals.head, GlobalTensor::Head)]
    {
        let bytes = wanted(role);
        let row_bytes = table.row_bytes() as usize;
        assert_eq!((table.rows(), row_bytes), (spec.vocab as u64, spec.hidden * 2));
        for row in 0..spec.vocab {
            let mut buf = vec![0; row_bytes];
            read_row(&*checkpoint.store, table, row as u64, &mut buf).unwrap();
            assert_eq!(buf, bytes[row * row_bytes..(row + 1) * row_bytes]);
        }
        assert_eq!(table.row(spec.vocab as u64), None);
        assert_eq!(table.row(u64::MAX), None);
        assert_eq!(table.row_range(3..spec.vocab as u64 + 1), None);
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = table.row_range(3..2);
        assert_eq!(reversed, None);
        assert_eq!(table.row_range(3..5).unwrap().len(), row_bytes as u64 * 2);
    }
}

/// Deals all tensors to `shards` files, in any order.
fn shuffled(seed: u64, shards: usize) -> Vec<PlannedShard> {
    let mut random = Random(seed);
    let mut dealt: Vec<PlannedShard> = (0..shards)
        .map(|n| PlannedShard { name: write::shard_name(n, shards), tensors: Vec::new() })
        .collect();
    for shard in plan() {
        for tensor in shard.tensors {
            dealt[random.below(shards)].tensors.push(tensor);
        }
    }
    for shard in &mut dealt {
        for at in (1..shard.tensors.len()).rev() {
            shard.tensors.swap(at, random.below(at + 1));
        }
    }
    dealt
}

#[test]
fn the_released_layout_is_one_piece_per_record() {
    let checkpoint = from_memory(&leak(&files())).unwrap();
    check_all_tensors(&checkpoint);
    let (catalog, spec) = (&checkpoint.catalog, checkpoint.spec());
    for layer in spec.layer_ids() {
        assert_eq!(catalog.spine(layer).record().pieces().len(), 1);
    }
    for layer in spec.moe_layers() {
        for expert in spec.moe.expert_ids() {
            let found = catalog.expert(layer, expert);
            assert_eq!(found.record.pieces().len(), 1);
            assert_eq!(found.layout.place(ExpertTensor::W1Packed).offset, 0);
        }
    }
    assert_eq!(catalog.ignored().tensors, 2);
    assert_eq!(catalog.ignored().bytes, 60);
    assert_eq!(checkpoint.stop_ids(), [7, 9]);
    assert_eq!(checkpoint.generation.max_length, Some(64));
    assert_eq!(&*checkpoint.tokenizer.unwrap().ranks, b"IQ== 0\n");
}

#[test]
fn any_order_in_any_number_of_shards_reads_the_same_and_has_the_same_identity() {
    let identity = from_memory(&leak(&files())).unwrap().identity().unwrap();
    for (seed, shards) in [(1, 1), (2, 2), (3, 7), (4, 40), (5, 1), (6, 3)] {
        let checkpoint = from_memory(&leak(&files_of(&shuffled(seed, shards)))).unwrap();
        check_all_tensors(&checkpoint);
        assert_eq!(checkpoint.identity().unwrap(), identity, "seed {seed}");
    }
}

#[test]
fn on_disk_it_is_the_same_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    support::write_to(dir.path(), &files());
    let checkpoint = open_dir(dir.path()).unwrap();
    check_all_tensors(&checkpoint);
    let memory = from_memory(&leak(&files())).unwrap();
    assert_eq!(checkpoint.identity().unwrap(), memory.identity().unwrap());
    assert!(checkpoint.catalog.spans().eq(memory.catalog.spans()));
    let covered: u64 = checkpoint.catalog.spans().map(|span| span.len()).sum();
    assert_eq!(covered, spec().total_bytes());
    assert!(inspect_dir(dir.path()).problems.is_empty());
}

#[test]
fn a_single_file_needs_no_index() {
    let mut one = shuffled(9, 1);
    one[0].name = "model.safetensors".to_owned();
    let mut files = files_of(&one);
    files.remove(INDEX).unwrap();
    check_all_tensors(&from_memory(&leak(&files)).unwrap());
}

#[test]
fn identity_tells_weights_and_dimensions_apart() {
    let identity = |files: &Files| from_memory(&leak(files)).unwrap().identity().unwrap();
    let mut weights = files();
    weights.values_mut().for_each(|bytes| {
        if let Some(start) = bytes.windows(3).position(|w| w == b"]}}") {
            // Every other byte, behind the padding of the header.
            bytes[start + 3..].chunks_mut(2).skip(8).for_each(|pair| pair[0] ^= 1);
        }
    });
    assert_ne!(identity(&files()), identity(&weights));
    let mut deep = files();
    let config = String::from_utf8(deep[CONFIG].clone()).unwrap();
    let config = config.replace(r#""activation_situ_beta": 4.0"#, r#""activation_situ_beta": 5.0"#);
    assert_ne!(config.as_bytes(), deep[CONFIG]);
    deep.insert(CONFIG.to_owned(), config.into_bytes());
    assert_ne!(identity(&files()), identity(&deep));
    let mut eos = files();
    eos.insert(CONFIG.to_owned(), write::config_json(&spec(), &[5]).into_bytes());
    assert_eq!(identity(&files()), identity(&eos), "where a reply ends changes no state");
}

/// The fields that the roster leaves open.
#[test]
fn padding_and_the_sign_of_packed_bytes_are_the_writers_affair() {
    for a_log in [3, 4, 128, 256] {
        let mut shards = plan();
        for tensor in shards.iter_mut().flat_map(|shard| &mut shard.tensors) {
            if tensor.name.ends_with("A_log") {
                tensor.shape = Shape::new(&[a_log]).unwrap();
            } else if tensor.name.ends_with("weight_packed") {
                tensor.dtype = Dtype::I8;
            } else if tensor.name.ends_with("weight_scale") {
                tensor.dtype = Dtype::F8E8M0;
            }
        }
        let checkpoint = from_memory(&leak(&files_of(&shards))).unwrap();
        let spine = checkpoint.catalog.spine(deltafin_spec::LayerId::new(0));
        let tensor = spine.tensor(deltafin_spec::SpineTensor::KdaALog).unwrap();
        assert_eq!(tensor.shape.dims(), [a_log]);
        assert_eq!(tensor.place.len, a_log * 4);
    }
}

#[test]
fn layers_for_multi_token_prediction_are_left_out() {
    let mut shards = plan();
    let shape = Shape::new(&[24]).unwrap();
    let name = "language_model.model.layers.3.input_layernorm.weight".to_owned();
    shards[3].tensors.push(PlannedTensor { name, dtype: Dtype::Bf16, shape });
    let mut files = files_of(&shards);
    let error = from_memory(&leak(&files)).unwrap_err().to_string();
    assert!(
        error.contains("layers.3.input_layernorm") && error.contains("architecture"),
        "{error}"
    );
    let config = String::from_utf8(files[CONFIG].clone()).unwrap();
    let config =
        config.replace(r#""num_nextn_predict_layers": 0"#, r#""num_nextn_predict_layers": 1"#);
    files.insert(CONFIG.to_owned(), config.into_bytes());
    check_all_tensors(&from_memory(&leak(&files)).unwrap());
}

#[test]
fn without_the_latent_norm_the_roster_is_shorter() {
    let mut spec: ModelSpec = spec();
    spec.moe.latent_norm = false;
    let shards = write::layout(&spec, &[]);
    let mut files = files_of(&shards);
    let error = from_memory(&leak(&files)).unwrap_err().to_string();
    assert!(error.contains("routed_expert_norm.weight is in no shard"), "{error}");
    files.insert(CONFIG.to_owned(), write::config_json(&spec, &[7]).into_bytes());
    check_all_tensors(&from_memory(&leak(&files)).unwrap());
}
