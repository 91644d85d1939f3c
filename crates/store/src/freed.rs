//! Whether the released spine is in the shards of a folder that has no note of what became of it.
//!
//! Setup takes a packed spine out of the shards: what is left are holes, and these read as zeros. Its note says so, but
//! a copy of a folder may come without it. No norm of a model is all zeros, for nothing would come out of its layer: one
//! that is tells that the bytes are gone. The embedding and the front of the head always stay. Where these are zeros,
//! too, all of the checkpoint is holes and was meant to be, as `deltafin synth --sparse` makes it.

use deltafin_checkpoint::Span;
use deltafin_spec::{GlobalTensor, SpineTensor, TensorId};

use crate::{Checkpoint, OpenError, StoreError};

/// Bytes that are looked at first. Nearly always they are enough.
const FRONT_BYTES: u64 = 4096;

/// Refuses shards whose spine was taken out of them. Reads some 8 KB per layer.
pub(crate) fn check_spine(checkpoint: &Checkpoint) -> Result<(), OpenError> {
    if checkpoint.freed.is_some() || !has_embedding(checkpoint)? {
        return Ok(());
    }
    for (id, span) in norms(checkpoint) {
        if is_zero(checkpoint, front(span))? && is_zero(checkpoint, span)? {
            let file = checkpoint.store.shards()[span.shard().index()].name.clone();
            let model = checkpoint.folder.clone().unwrap_or_default();
            return Err(OpenError::SpineGone { model, file, tensor: id.name() });
        }
    }
    Ok(())
}

/// Whether something is where setup never takes anything away.
fn has_embedding(checkpoint: &Checkpoint) -> Result<bool, StoreError> {
    let globals = checkpoint.catalog.globals();
    let kept = [globals.embed.tensor().span, globals.head.tensor().span];
    Ok(!(is_zero(checkpoint, front(kept[0]))? && is_zero(checkpoint, front(kept[1]))?))
}

/// Norms that every layer has, and the last one.
fn norms(checkpoint: &Checkpoint) -> impl Iterator<Item = (TensorId, Span)> + '_ {
    let last = (TensorId::Global(GlobalTensor::Norm), checkpoint.catalog.globals().norm.span);
    let of_layers = checkpoint.spec().layer_ids().flat_map(|layer| {
        let spine = checkpoint.catalog.spine(layer);
        let roles = [SpineTensor::InputNorm, SpineTensor::PostAttentionNorm].into_iter();
        roles.filter_map(move |role| {
            let span = spine.record().locate(spine.tensor(role)?.place)?;
            Some((TensorId::Spine(layer, role), span))
        })
    });
    of_layers.chain([last])
}

fn front(span: Span) -> Span {
    span.part(0, span.len().min(FRONT_BYTES)).unwrap_or(span)
}

fn is_zero(checkpoint: &Checkpoint, span: Span) -> Result<bool, StoreError> {
    let mut buf = vec![0; span.len() as usize];
    checkpoint.store.read_exact(span, &mut buf)?;
    Ok(buf.iter().all(|byte| *byte == 0))
}
