//! The two lists that say which layer attends how, and where the experts begin.

use deltafin_spec::{FfnKind, LayerKind, LayerSpec, check_layer_count};

use super::{ConfigError, Fields};

pub(super) fn read(text: &Fields<'_>, linear: &Fields<'_>) -> Result<Vec<LayerSpec>, ConfigError> {
    let count = text.dim("num_hidden_layers")?;
    // Before a list is allocated.
    check_layer_count(count)?;
    let mut kinds = vec![None; count];
    assign(&mut kinds, LayerKind::Kda, &linear.counts("kda_layers")?)?;
    assign(&mut kinds, LayerKind::Mla, &linear.counts("full_attn_layers")?)?;
    let dense = text.count("first_k_dense_replace")?;
    let every = text.dim("moe_layer_freq")? as u64;
    let layer = |(index, kind): (u64, Option<LayerKind>)| {
        let missing = ConfigError::LayerLists {
            layer: index + 1,
            what: "in neither kda_layers nor full_attn_layers",
        };
        let moe = index >= dense && index.is_multiple_of(every);
        let ffn = if moe { FfnKind::Moe } else { FfnKind::Dense };
        Ok(LayerSpec { attention: kind.ok_or(missing)?, ffn })
    };
    (0..).zip(kinds).map(layer).collect()
}

/// The lists count layers from 1.
fn assign(
    kinds: &mut [Option<LayerKind>],
    kind: LayerKind,
    list: &[u64],
) -> Result<(), ConfigError> {
    for &layer in list {
        let slot = usize::try_from(layer).ok().and_then(|l| l.checked_sub(1));
        let Some(slot) = slot.and_then(|index| kinds.get_mut(index)) else {
            let what = "in kda_layers or full_attn_layers, but the model has no such layer";
            return Err(ConfigError::LayerLists { layer, what });
        };
        if slot.replace(kind).is_some() {
            let what = "twice in kda_layers and full_attn_layers";
            return Err(ConfigError::LayerLists { layer, what });
        }
    }
    Ok(())
}
