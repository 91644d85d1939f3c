//! The one weight format for experts that is understood: MXFP4 with a scale per 32 weights.

use deltafin_spec::MXFP4_GROUP;
use serde_json::Value;

use super::{ConfigError, Fields};

const FORMAT: &str = "mxfp4-pack-quantized";

/// Refuses any other way of storing experts. The `ignore` list is not read: dtypes and
/// names of the tensors decide, and are checked one by one.
pub(super) fn check(quantization: &Fields<'_>) -> Result<(), ConfigError> {
    quantization.expect("quant_method", "compressed-tensors")?;
    quantization.expect("format", FORMAT)?;
    quantization.expect_if_present("quantization_status", "compressed")?;
    let groups = quantization.object("config_groups")?;
    let mut any = false;
    for name in groups.names() {
        check_group(&groups.object(name)?)?;
        any = true;
    }
    if any { Ok(()) } else { groups.get("group_0").map(drop) }
}

fn check_group(group: &Fields<'_>) -> Result<(), ConfigError> {
    group.expect_if_present("format", FORMAT)?;
    group.expect_if_present("input_activations", Value::Null)?;
    group.expect_if_present("output_activations", Value::Null)?;
    let weights = group.object("weights")?;
    weights.dim("group_size")?;
    weights.dim("num_bits")?;
    weights.expect("group_size", MXFP4_GROUP)?;
    weights.expect("num_bits", 4)?;
    weights.expect("type", "float")?;
    weights.expect_if_present("strategy", "group")?;
    weights.expect_if_present("symmetric", true)?;
    weights.expect_if_present("dynamic", false)?;
    weights.expect_if_present("actorder", Value::Null)
}
