//! What a budget buys: the residency plan.
//!
//! **Promise.** A plan never needs more than its budget, and leaves less of it idle than one more row or
//! record would take, unless everything has its place; more memory never buys shorter passes, and no token
//! is expected to read more with it; whether a budget is enough is known before any weight is read, and a
//! refusal names the least that is.
//!
//! Memory is spent in this order, each step whole before the next begins:
//!
//! ```text
//! floor     fixed needs, state, snapshots, requests, what the command itself takes, a pass of one row, two
//!           expert slabs, the largest spine unit
//! chunk     rows of a pass, up to one block
//! slabs     two tokens' worth of one layer, so that a layer is read while another is computed
//! chunk     rows of a pass, up to those asked for
//! spine     the units with which a token reads least, beside the room in which the others stream, two at a time
//! cache     what is left, in expert records, whether or not a unit of the spine found room
//! ```
//!
//! Where the whole spine fits once the slabs are fewer, it goes before them if a token then reads less.
//!
//! A gigabyte of spine saves a gigabyte of reading on every token, one of expert cache about a third
//! of that: so the spine comes first, but for what its room to stream in would take from the cache. Its layers are spread through the depth, for their reads are
//! known in advance and fill the time in which the drive has nothing else to do.

use crate::hits::hit_rate;
use crate::{Demand, Part, PlanError};
use serde::Serialize;
use std::cmp::Reverse;

/// Expert slabs without which nothing moves: one is computed while the other is read.
const LEAST_SLABS: usize = 2;
/// Layers' worth of expert slabs that keep a drive busy.
const SLAB_LAYERS: usize = 2;
/// Rows that every plan tries to have: the model works through longer passes in blocks of these.
const BLOCK_ROWS: usize = 128;
/// Streamed units that have room at a time: one in use, one arriving.
const READ_AHEAD: usize = 2;

/// How a budget is spent. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The promise: no more than this is ever resident.
    pub budget: u64,
    /// Program, threads, catalog, tokenizer, allocator.
    pub fixed: u64,
    /// The state of one sequence.
    pub state: u64,
    /// States of earlier sequences, to go on from.
    pub snapshots: u64,
    /// Requests to a server.
    pub requests: u64,
    /// What the command takes for itself besides the engine.
    pub besides: u64,
    /// The buffers of a pass of [`Plan::chunk_rows`] rows.
    pub workspace: u64,
    /// Prompt rows of one pass.
    pub chunk_rows: usize,
    /// Room of one expert record: what a slab takes.
    pub expert_room: u64,
    /// Expert slabs in all.
    pub expert_slabs: usize,
    /// Slabs that are left to experts already used, once a layer's reads have theirs.
    pub cache: usize,
    /// Those of them that are for experts that never make room.
    pub pinned: usize,
    /// Experts of all layers together.
    pub experts: usize,
    /// Which units of the spine stay: the layers in order, then the output head.
    pub spine_resident: Vec<bool>,
    /// Bytes of those that stay.
    pub spine_resident_bytes: u64,
    /// Bytes of the area in which the others stream; 0 when all stay.
    pub spine_stream_bytes: u64,
}

impl Plan {
    /// Spends `budget` bytes on `demand`.
    ///
    /// # Errors
    /// When the smallest plan takes more.
    pub fn make(demand: &Demand, budget: u64) -> Result<Plan, PlanError> {
        let smallest = Plan::smallest(demand);
        if budget < smallest {
            return Err(PlanError::TooSmall { budget, smallest, part: Part::largest(demand) });
        }
        let mut plan = Plan::floor(demand, budget);
        let moves = plan.grow_chunk(demand, BLOCK_ROWS)
            && plan.grow_slabs(demand)
            && plan.grow_chunk(demand, usize::MAX);
        let whole = (plan.chunk_rows == demand.chunk).then(|| Plan::whole_spine(demand, budget));
        let others = if moves { plan.with_spines(demand) } else { Vec::new() };
        if moves {
            plan.grow_cache(demand);
        }
        // Each of these takes no more memory with a larger budget, and leaves the rest to the experts: so
        // the best of them never reads more.
        let all = whole.flatten().into_iter().chain(others);
        Ok(all.fold(
            plan,
            |best, other| if other.costs(demand) < best.costs(demand) { other } else { best },
        ))
    }

    /// What is least for the best plan. Of equals, most is read once; then there is most room to read ahead.
    fn costs(&self, demand: &Demand) -> (u64, Reverse<u64>, Reverse<u64>) {
        let (held, ahead) = (self.spine_resident_bytes, self.spine_stream_bytes);
        (self.token_bytes(demand), Reverse(held), Reverse(ahead))
    }

    /// Bytes that a token is expected to read once everything that stays is there: of the spine's other
    /// units, and of the experts that a cache of this size is published to lack. Alignment included.
    pub fn token_bytes(&self, demand: &Demand) -> u64 {
        let spine = demand.spine.iter().zip(&self.spine_resident);
        let streamed = spine.filter(|(_, stays)| !**stays).map(|(room, _)| *room);
        let needed = demand.expert.saturating_mul(demand.working_set() as u64) as f64;
        let missed = needed * (1.0 - hit_rate(demand, self.kept(demand)));
        streamed.fold(missed.round() as u64, u64::saturating_add)
    }

    /// The whole spine, with as few slabs as that leaves: then there is no streaming area, and a token
    /// reads nothing but experts. Nothing where even that does not fit.
    fn whole_spine(demand: &Demand, budget: u64) -> Option<Plan> {
        let mut plan = Plan::floor(demand, budget);
        plan.spine_resident.fill(true);
        plan.spine_stream_bytes = 0;
        plan.spine_resident_bytes = resident_bytes(&demand.spine, &plan.spine_resident);
        plan.chunk_rows = demand.chunk;
        plan.workspace = demand.workspace.bytes(demand.chunk);
        if plan.bytes() > budget {
            return None;
        }
        if plan.grow_slabs(demand) {
            plan.grow_cache(demand);
        }
        Some(plan)
    }

    /// The smallest budget that is enough.
    pub fn smallest(demand: &Demand) -> u64 {
        Plan::floor(demand, 0).bytes()
    }

    /// The budget beyond which more memory changes nothing.
    pub fn largest(demand: &Demand) -> u64 {
        let spine = demand.spine.iter().fold(0u64, |sum, room| sum.saturating_add(*room));
        let slabs = if demand.cache { demand.most_slabs() } else { working_slabs(demand) };
        let experts = demand.expert.saturating_mul(slabs as u64);
        let workspace = demand.workspace.bytes(demand.chunk);
        [demand.fixed, demand.state, demand.snapshots, demand.requests, demand.besides]
            .into_iter()
            .chain([workspace, spine, experts])
            .fold(0, u64::saturating_add)
    }

    /// What the plan takes; never more than [`Plan::budget`].
    pub fn bytes(&self) -> u64 {
        let slabs = self.expert_room.saturating_mul(self.expert_slabs as u64);
        [self.fixed, self.state, self.snapshots, self.requests, self.besides]
            .into_iter()
            .chain([self.workspace, slabs, self.spine_resident_bytes, self.spine_stream_bytes])
            .fold(0, u64::saturating_add)
    }

    /// Bytes of weights that stay from token to token.
    pub fn resident_bytes(&self) -> u64 {
        self.spine_resident_bytes + self.cache as u64 * self.expert_room
    }

    /// Whether nothing is read once everything has been.
    pub fn is_resident(&self) -> bool {
        self.is_spine_resident() && self.cache == self.experts
    }

    /// Whether the whole spine stays.
    pub fn is_spine_resident(&self) -> bool {
        self.spine_resident.iter().all(|stays| *stays)
    }

    /// Slabs that are kept for reads in progress.
    pub fn working_slabs(&self) -> usize {
        self.expert_slabs - self.cache
    }

    /// Experts that outlast a layer: slabs keep what was read, but for those that the layer's own reads
    /// take.
    pub fn kept(&self, demand: &Demand) -> usize {
        match demand.cache {
            _ if self.cache == self.experts => self.experts,
            true => self.expert_slabs.saturating_sub(demand.top_k),
            false => 0,
        }
    }

    fn floor(demand: &Demand, budget: u64) -> Plan {
        let nothing = vec![false; demand.spine.len()];
        Plan {
            budget,
            fixed: demand.fixed,
            state: demand.state,
            snapshots: demand.snapshots,
            requests: demand.requests,
            besides: demand.besides,
            workspace: demand.workspace.bytes(1),
            chunk_rows: 1,
            expert_room: demand.expert,
            expert_slabs: LEAST_SLABS.min(demand.most_slabs()),
            cache: 0,
            pinned: 0,
            experts: demand.experts,
            spine_stream_bytes: stream_area(&demand.spine, &nothing, 1),
            spine_resident: nothing,
            spine_resident_bytes: 0,
        }
    }

    fn left(&self) -> u64 {
        self.budget.saturating_sub(self.bytes())
    }

    /// The longest pass that fits, up to `rows`; whether that is as long as wanted.
    fn grow_chunk(&mut self, demand: &Demand, rows: usize) -> bool {
        let wanted = rows.min(demand.chunk);
        let room = self.left() + self.workspace;
        // Buffers never shrink with more rows: the first row count that is too many is searched for.
        let (mut fits, mut most) = (self.chunk_rows, wanted.max(self.chunk_rows));
        while fits < most {
            let middle = most - (most - fits) / 2;
            if demand.workspace.bytes(middle) <= room { fits = middle } else { most = middle - 1 }
        }
        self.chunk_rows = fits;
        self.workspace = demand.workspace.bytes(fits);
        fits >= wanted
    }

    /// As many working slabs as fit; whether those are as many as wanted.
    fn grow_slabs(&mut self, demand: &Demand) -> bool {
        let wanted = working_slabs(demand);
        let more = self.left().checked_div(self.expert_room).unwrap_or(0);
        self.expert_slabs = wanted.min(self.expert_slabs.saturating_add(more as usize));
        self.expert_slabs == wanted
    }

    /// This plan with any choice of resident units that fits, and with what it leaves for experts.
    fn with_spines(&self, demand: &Demand) -> Vec<Plan> {
        let room = self.left() + self.spine_stream_bytes;
        let with = |stays: Vec<bool>| {
            let area = stream_area(&demand.spine, &stays, READ_AHEAD);
            let bytes = resident_bytes(&demand.spine, &stays);
            (bytes.saturating_add(area) <= room).then(|| {
                let mut plan = Plan {
                    spine_resident: stays,
                    spine_resident_bytes: bytes,
                    spine_stream_bytes: area,
                    ..self.clone()
                };
                plan.grow_cache(demand);
                plan
            })
        };
        choices(demand.spine.len()).filter_map(with).collect()
    }

    /// All that is left, in records.
    fn grow_cache(&mut self, demand: &Demand) {
        if !demand.cache {
            return;
        }
        let (working, most) = (self.expert_slabs, demand.most_slabs());
        let more = self.left().checked_div(self.expert_room).unwrap_or(0);
        let more = usize::try_from(more).unwrap_or(usize::MAX).min(most - working);
        self.expert_slabs = working + more;
        if self.expert_slabs == self.experts {
            // Nothing is ever read twice, so no slab is kept for reading, and nothing has to make room.
            self.cache = self.experts;
            return;
        }
        self.cache = more;
        let pinned = demand.pin.checked_div(self.expert_room).unwrap_or(0);
        self.pinned = usize::try_from(pinned).unwrap_or(usize::MAX).min(more);
    }
}

/// Slabs that keep a drive busy.
fn working_slabs(demand: &Demand) -> usize {
    (SLAB_LAYERS * demand.top_k).max(LEAST_SLABS).min(demand.most_slabs())
}

/// Sets of resident units worth considering: any number of layers, spread evenly, with or without
/// the head, which comes last and is larger than any layer.
fn choices(units: usize) -> impl Iterator<Item = Vec<bool>> {
    let layers = units.saturating_sub(1);
    (0..=layers).flat_map(move |count| {
        [false, true].into_iter().filter(move |_| units > 0).map(move |head| {
            let stays = |layer: usize| (layer + 1) * count / layers > layer * count / layers;
            (0..layers).map(stays).chain([head]).collect()
        })
    })
}

fn resident_bytes(rooms: &[u64], stays: &[bool]) -> u64 {
    let held = rooms.iter().zip(stays).filter_map(|(room, stays)| stays.then_some(*room));
    held.fold(0, u64::saturating_add)
}

/// The area in which any `ahead` neighbours of the units that do not stay have room together; the
/// first follows the last, as in a loop over tokens.
fn stream_area(rooms: &[u64], stays: &[bool], ahead: usize) -> u64 {
    let moving: Vec<u64> =
        rooms.iter().zip(stays).filter_map(|(room, stays)| (!stays).then_some(*room)).collect();
    let ahead = ahead.min(moving.len());
    let window = |start: usize| {
        let rooms = moving.iter().cycle().skip(start).take(ahead);
        rooms.fold(0u64, |sum, room| sum.saturating_add(*room))
    };
    (0..moving.len()).map(window).max().unwrap_or(0)
}
