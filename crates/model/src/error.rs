//! Why a pass stopped.

use deltafin_spec::{ExpertId, LayerId};
use std::fmt;

/// Where in a layer a value that is not finite was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Inside the attention.
    Attention,
    /// In the router's logits.
    Router,
    /// In the dense or shared feed-forward.
    Ffn,
    /// In a routed expert.
    Expert(ExpertId),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Attention => f.write_str("attention"),
            Place::Router => f.write_str("router"),
            Place::Ffn => f.write_str("feed-forward"),
            Place::Expert(e) => write!(f, "expert {e}"),
        }
    }
}

/// Why a pass over the layers stopped. The state it worked on must be discarded.
#[derive(Debug, thiserror::Error)]
pub enum StepError<E: std::error::Error + 'static> {
    /// A value that is not finite: damaged weights, never a token.
    #[error(
        "layer {layer}, {place}: a value is not finite; the checkpoint is damaged there: fetch its files again"
    )]
    NotFinite {
        /// The layer.
        layer: LayerId,
        /// Where in it.
        place: Place,
    },
    /// A row of the embedding table that is not finite.
    #[error(
        "the embedding of token {id}: a value is not finite; the checkpoint is damaged there: \
         fetch its files again"
    )]
    EmbeddingNotFinite {
        /// The token.
        id: u32,
    },
    /// The final hidden row or the logits are not finite.
    #[error(
        "the output head: a value is not finite; the checkpoint is damaged there: fetch its files again"
    )]
    HeadNotFinite,
    /// An id that the embedding table has no row for.
    #[error(
        "token id {id} is outside the vocabulary of {vocab}; check that the ids come from this model"
    )]
    UnknownToken {
        /// The id.
        id: u32,
        /// The rows of the embedding table.
        vocab: usize,
    },
    /// The state has no room for the rows.
    #[error(
        "{wanted} positions do not fit into a context of {capacity}: raise --context or shorten the prompt"
    )]
    ContextFull {
        /// Positions after the pass.
        wanted: usize,
        /// Positions the state was made for.
        capacity: usize,
    },
    /// The observer asked to stop.
    #[error("stopped on request")]
    Interrupted,
    /// The weights could not be had.
    #[error(transparent)]
    Weights(E),
}

impl<E: std::error::Error + 'static> StepError<E> {
    /// The same, with another error in place of the weights' own.
    pub fn map_weights<F: std::error::Error + 'static>(
        self,
        f: impl FnOnce(E) -> F,
    ) -> StepError<F> {
        match self {
            StepError::Weights(e) => StepError::Weights(f(e)),
            StepError::NotFinite { layer, place } => StepError::NotFinite { layer, place },
            StepError::EmbeddingNotFinite { id } => StepError::EmbeddingNotFinite { id },
            StepError::HeadNotFinite => StepError::HeadNotFinite,
            StepError::UnknownToken { id, vocab } => StepError::UnknownToken { id, vocab },
            StepError::ContextFull { wanted, capacity } => {
                StepError::ContextFull { wanted, capacity }
            }
            StepError::Interrupted => StepError::Interrupted,
        }
    }
}
