//! What memory and the kernels of decoding give at one moment, to hold a token against.

use std::sync::Arc;

use deltafin_kernels::{Isa, Kernels, Parallel, Scratch};
use deltafin_pool::Pool;

use crate::machine::Reader;
use crate::options::PER_THREAD;
use crate::rounds::median;
use crate::{Case, Format, Memory};

/// Speeds at one moment, in 10^9 bytes of weights per second, each used for one position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Memory read by all cores.
    pub read_gbps: f64,
    /// Products with the rows of a spine.
    pub spine_gbps: f64,
    /// Whole experts.
    pub expert_gbps: f64,
}

impl Moment {
    /// The better of each.
    pub fn better(self, other: Moment) -> Moment {
        Moment {
            read_gbps: self.read_gbps.max(other.read_gbps),
            spine_gbps: self.spine_gbps.max(other.spine_gbps),
            expert_gbps: self.expert_gbps.max(other.expert_gbps),
        }
    }
}

/// Passes of which the middle one counts: threads that have just been woken may share a core for the
/// first. An odd number.
const PASSES: usize = 3;

/// Takes [`Moment`]s, some tens of milliseconds each.
pub struct Moments<'m> {
    memory: &'m Memory,
    reader: Reader<'m>,
    kernels: Kernels,
    scratch: Scratch,
    spine: Format,
    taken: usize,
}

impl<'m> Moments<'m> {
    /// Bytes that it takes with everything it is given: [`Memory`], a pool of `every_core` threads and one of
    /// `threads`.
    pub fn bytes(every_core: usize, threads: usize) -> u64 {
        let threads = every_core.saturating_add(threads) as u64;
        threads.saturating_mul(PER_THREAD).saturating_add(Memory::BYTES)
    }

    /// All threads of `every_core` read `memory`; the kernels compute with `isa` on `threads` threads.
    /// `spine` is the format of a spine's rows.
    pub fn new(
        memory: &'m Memory,
        every_core: &'m Arc<Pool>,
        (isa, threads): (Isa, usize),
        spine: Format,
    ) -> Moments<'m> {
        let reader = Reader::new(memory, Isa::best(), &**every_core);
        let pool = match threads == every_core.width() {
            true => Arc::clone(every_core),
            false => Arc::new(Pool::new(threads)),
        };
        let kernels = Kernels::new(isa, pool);
        Moments { memory, reader, kernels, scratch: Scratch::default(), spine, taken: 0 }
    }

    /// What the machine gives now.
    pub fn take(&mut self) -> Moment {
        let first = self.taken;
        self.taken += PASSES;
        let mut gbps = |format| {
            let case = Case { format, rows: 1 };
            let pass = |i| case.run(&self.kernels, &mut self.scratch, self.memory, first + i);
            median((0..PASSES).map(pass).collect())
        };
        Moment {
            spine_gbps: gbps(self.spine),
            expert_gbps: gbps(Format::Mxfp4),
            read_gbps: median((0..PASSES).map(|_| self.reader.gbps()).collect()),
        }
    }
}
