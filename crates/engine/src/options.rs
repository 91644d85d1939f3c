//! What can be set on an engine. None of it changes a token.

use deltafin_kernels::IsaKind;
use std::num::NonZeroUsize;

/// Prompt rows of one pass: long enough that an expert read serves many rows.
pub const DEFAULT_CHUNK: usize = 512;

/// The most threads that can be asked for. Beyond some thousands a process cannot have more, and finds
/// out in ways that cannot be caught.
pub const MOST_THREADS: usize = 1024;

/// Positions a session has room for, unless the checkpoint allows fewer.
pub const DEFAULT_CONTEXT: usize = 32 * 1024;

/// Settings; `None` means "choose for this machine".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// The instruction set; the fastest there is by default.
    pub isa: Option<IsaKind>,
    /// Threads that compute; by default the CPUs this process may use.
    pub threads: Option<NonZeroUsize>,
    /// Prompt rows of one pass; [`DEFAULT_CHUNK`] by default.
    pub chunk: Option<NonZeroUsize>,
    /// Positions of a session; by default [`DEFAULT_CONTEXT`] or what the checkpoint allows.
    pub context: Option<NonZeroUsize>,
}
