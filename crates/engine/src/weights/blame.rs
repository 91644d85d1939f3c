//! Which files a fault in the arithmetic points at.

use super::StreamedWeights;
use crate::EngineError;
use deltafin_checkpoint::Span;
use deltafin_model::{Place, StepError};

impl StreamedWeights {
    /// The names of the files in which an error saw a value that is not finite; none for an error of
    /// another kind.
    pub fn files_behind(&self, error: &EngineError) -> Vec<&str> {
        let EngineError::Step(error) = error else { return Vec::new() };
        let catalog = &self.checkpoint.catalog;
        let globals = catalog.globals();
        let whole = |tensors: &[Span]| tensors.to_vec();
        let spans = match error {
            StepError::NotFinite { layer, place: Place::Expert(expert) } => {
                whole(catalog.expert(*layer, *expert).record.pieces())
            }
            StepError::NotFinite { layer, .. } => whole(catalog.spine(*layer).record().pieces()),
            StepError::EmbeddingNotFinite { .. } => whole(&[globals.embed.tensor().span]),
            StepError::HeadNotFinite => {
                let tail = [&globals.norm, &globals.output_res_norm, &globals.output_res_proj];
                let tail = tail.map(|tensor| tensor.span);
                tail.into_iter().chain([globals.head.tensor().span]).collect()
            }
            _ => Vec::new(),
        };
        let mut shards: Vec<_> = spans.into_iter().map(Span::shard).collect();
        shards.sort_unstable();
        shards.dedup();
        shards.into_iter().map(|shard| catalog.shard(shard).name.as_str()).collect()
    }
}
