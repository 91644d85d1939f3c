//! Token ids in, token ids out.
//!
//! An [`Engine`] is a loaded model with its instruction set and threads. A [`Session`] is one
//! sequence on it. [`generate`] is the decode loop. Nothing here knows text. A token is the
//! model's most likely one, unless the [`Listener`] that hears of it chooses another from its logits.
#![forbid(unsafe_code)]

mod division;
mod engine;
mod error;
mod generate;
mod observe;
mod options;
mod residency;
mod resume;
mod room;
mod session;
mod weights;

pub use deltafin_budget::{Plan, peak_resident_bytes};
pub use deltafin_checkpoint::Recipe;
pub use deltafin_kernels::IsaKind;
pub use deltafin_model::{Ids, Observer, Part, PassPlan, Silent, Tap};
pub use deltafin_snapshot::{FolderOptions, Mark, Writes};
pub use deltafin_spec::{LayerId, ModelSpec};
pub use deltafin_store::drive::{DriveReport, IoMode};
pub use deltafin_stream::{Counters, Layout, Phase, Prefetch, Stream, StreamError, Use};
pub use division::Division;
pub use engine::Engine;
pub use error::{EngineError, WeightsError};
pub use generate::{Finish, Limits, Listener, Outcome, Stats, generate, most_likely};
pub use observe::{
    Critical, DriveUse, PhaseReport, Profile, ProfileReport, RouteLines, Section, Several, Times,
    Trace,
};
pub use options::{
    DEFAULT_CHUNK, DEFAULT_CONTEXT, EngineOptions, MOST_THREADS, RequestMemory, SnapshotMemory,
};
pub use residency::rooms;
pub use session::{Flow, Progress, Session};
pub use weights::{Learned, StreamedWeights, learned_in};
