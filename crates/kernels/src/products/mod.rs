//! Matrix products: rows of weights times positions of activations.
//!
//! All jobs of a call are one parallel region. Activations are packed once in the lane order of the
//! format ([`pack`]); rows are cut into tasks which threads claim; a task takes the way for [`few`] or
//! for [`many`] positions.
#![allow(unsafe_code)]

mod claim;
mod few;
mod format;
mod latent;
mod many;
mod pack;
mod work;

#[cfg(test)]
mod tests;

use crate::lanes::instantiate;
use crate::matrix::f16_to_f32;
use crate::{Isa, IsaKind, Kernels, Matrix, Parallel, Weights};
use claim::claim_all;
use format::{Bf16, F32, Int8, Mxfp4, Row};
use pack::{Line, Order, lines_per_position, pack_tile, positions_per_tile};
use work::{Work, rows};

/// One matrix product `y = x wᵀ`.
#[derive(Debug)]
pub struct Product<'a> {
    /// The weights.
    pub w: Matrix<'a>,
    /// Activations `[T, w.cols()]`.
    pub x: &'a [f32],
    /// Results `[T, w.rows()]`.
    pub y: &'a mut [f32],
}

/// Memory that products reuse. It grows to the largest call and is not allocated again after that.
#[derive(Debug, Default)]
pub struct Scratch {
    packed: Vec<Line>,
    plan: Vec<Planned>,
    outputs: Vec<Output>,
}

/// Where results go.
#[derive(Clone, Copy, Debug)]
struct Output(*mut f32);

// SAFETY: a pointer alone does nothing; tasks write through it to elements that are theirs alone.
unsafe impl Send for Output {}
// SAFETY: as above.
unsafe impl Sync for Output {}

/// Where packed activations go.
#[derive(Clone, Copy)]
struct Lines(*mut Line);

// SAFETY: as for `Output`.
unsafe impl Send for Lines {}
// SAFETY: as for `Output`.
unsafe impl Sync for Lines {}

/// A product whose results may be strided.
#[derive(Clone, Copy)]
struct Job<'a> {
    w: Matrix<'a>,
    x: &'a [f32],
    positions: usize,
    y: Output,
    y_stride: usize,
}

/// Where a job's activations are packed and which tasks are its rows.
#[derive(Clone, Copy, Debug)]
struct Planned {
    first_line: usize,
    packs: bool,
    first_task: usize,
    rows_per_task: usize,
}

impl Kernels {
    /// Computes all `jobs` in one parallel region. (Large activations are packed in one before.)
    ///
    /// Each result is bit-equal however many positions, jobs and threads there are. Jobs that share
    /// `x` and the lane order of their format, and are near each other, share the packed activations.
    /// Nothing is allocated once `scratch` has seen the sizes.
    ///
    /// # Panics
    ///
    /// If a slice does not fit its matrix.
    pub fn products(&self, scratch: &mut Scratch, jobs: &mut [Product<'_>]) {
        let mut outputs = std::mem::take(&mut scratch.outputs);
        outputs.clear();
        outputs.extend(jobs.iter_mut().map(|job| Output(job.y.as_mut_ptr())));
        let jobs: &[Product<'_>] = jobs;
        for job in jobs {
            let positions = positions(job);
            assert_eq!(job.x.len(), positions * job.w.cols(), "activations do not fit the matrix");
            assert_eq!(job.y.len(), positions * job.w.rows(), "results do not fit the matrix");
        }
        let job = |i: usize| {
            let Product { w, x, .. } = &jobs[i];
            let positions = positions(&jobs[i]);
            Job { w: *w, x, positions, y: outputs[i], y_stride: w.rows() }
        };
        // SAFETY: each job's results are a slice of its own, as long as asserted.
        unsafe { self.run_jobs(scratch, jobs.len(), &job) };
        scratch.outputs = outputs;
    }

    /// Plans, packs and computes `count` jobs.
    ///
    /// # Safety
    ///
    /// `x` is `[positions, cols]`; every `y[t * y_stride + r]` may be written and belongs to one job.
    unsafe fn run_jobs<'a>(
        &self,
        scratch: &mut Scratch,
        count: usize,
        job: &(dyn Fn(usize) -> Job<'a> + Sync),
    ) {
        let tile = positions_per_tile(matches!(self.isa().kind(), IsaKind::Avx512 | IsaKind::Neon));
        let (lines, tasks) = plan(&mut scratch.plan, count, job, self.pool().width());
        if scratch.packed.len() < lines {
            scratch.packed.resize(lines, Line::ZERO);
        }
        for i in 0..count {
            let Planned { first_line, packs: true, .. } = scratch.plan[i] else { continue };
            let job = job(i);
            pack(self.pool(), &job, tile, &mut scratch.packed[first_line..]);
        }
        let (plan, packed) = (&scratch.plan[..], &scratch.packed[..]);
        claim_all(self.pool(), tasks, &|task| {
            let i = plan.partition_point(|p| p.first_task <= task) - 1;
            let first_row = (task - plan[i].first_task) * plan[i].rows_per_task;
            // SAFETY: a task is claimed once, so its rows are written by one thread.
            unsafe { run_task(self.isa(), job(i), plan[i], packed, first_row) };
        });
    }
}

/// Positions of a product. An empty matrix says nothing about them on one side.
fn positions(job: &Product<'_>) -> usize {
    match (job.w.cols(), job.w.rows()) {
        (0, 0) => 0,
        (0, rows) => job.y.len() / rows,
        (cols, _) => job.x.len() / cols,
    }
}

/// Jobs that share activations are close to each other; comparing all with all would take longer than
/// packing twice.
const LOOK_BACK: usize = 8;

/// Lays out the packed activations and cuts rows into tasks; returns how many lines and tasks.
fn plan<'a>(
    plan: &mut Vec<Planned>,
    count: usize,
    job: &dyn Fn(usize) -> Job<'a>,
    threads: usize,
) -> (usize, usize) {
    plan.clear();
    let (mut lines, mut tasks) = (0, 0);
    for i in 0..count {
        let this = job(i);
        let shared = (i.saturating_sub(LOOK_BACK)..i).rev().find(|&j| packs_alike(&this, &job(j)));
        let first_line = shared.map_or(lines, |j| plan[j].first_line);
        let rows_per_task = rows_per_task(&this, threads);
        plan.push(Planned {
            first_line,
            packs: shared.is_none(),
            first_task: tasks,
            rows_per_task,
        });
        if shared.is_none() {
            lines += this.positions * lines_per_position(this.w.cols());
        }
        if this.positions > 0 {
            tasks += this.w.rows().div_ceil(rows_per_task);
        }
    }
    (lines, tasks)
}

fn packs_alike(a: &Job<'_>, b: &Job<'_>) -> bool {
    std::ptr::eq(a.x, b.x) && a.w.cols() == b.w.cols() && order(a.w) == order(b.w)
}

fn order(w: Matrix<'_>) -> Order {
    match w.weights() {
        Weights::Mxfp4 { .. } => Order::Nibbles,
        _ => Order::Natural,
    }
}

/// Rows of a task: a multiple of every strip's height, and some ten microseconds of work.
fn rows_per_task(job: &Job<'_>, threads: usize) -> usize {
    const STRIP: usize = 24;
    /// Steps of sixteen lanes.
    const COST: usize = 1 << 15;
    let row = job.w.cols().div_ceil(16).max(1) * (2 + job.positions);
    let fair = job.w.rows().div_ceil(8 * threads);
    (COST / row).min(fair).max(1).next_multiple_of(STRIP)
}

/// Packs a job's activations; large ones in a parallel region of their own.
fn pack(pool: &dyn Parallel, job: &Job<'_>, tile: usize, out: &mut [Line]) {
    /// Lines of a task: 64 KiB, some ten microseconds.
    const LINES: usize = 1024;
    let (cols, lines) = (job.w.cols(), lines_per_position(job.w.cols()));
    if cols == 0 || job.positions == 0 {
        return;
    }
    let tiles_per_task = LINES.div_ceil(tile * lines);
    let positions_per_task = tile * tiles_per_task;
    let out = &mut out[..job.positions * lines];
    let start = Lines(out.as_mut_ptr());
    claim_all(pool, job.positions.div_ceil(positions_per_task), &|task| {
        let start: Lines = start;
        let first = task * positions_per_task;
        let count = positions_per_task.min(job.positions - first);
        // SAFETY: within `out`, and tasks, each claimed once, have positions of their own.
        let out =
            unsafe { std::slice::from_raw_parts_mut(start.0.add(first * lines), count * lines) };
        let x = &job.x[first * cols..(first + count) * cols];
        for (x, out) in x.chunks(tile * cols).zip(out.chunks_mut(tile * lines)) {
            pack_tile(x, cols, order(job.w), out);
        }
    });
}

/// The rows of one task times all positions of its job.
///
/// # Safety
///
/// As for `run_jobs`; nobody else computes these rows of the job.
unsafe fn run_task(isa: Isa, job: Job<'_>, plan: Planned, packed: &[Line], first_row: usize) {
    let rows = plan.rows_per_task.min(job.w.rows() - first_row);
    let w = job.w.row_range(first_row..first_row + rows);
    let (main, scales) = w.weights().parts();
    let work = Work {
        row: Row { main: main.as_ptr(), scales: scales.as_ptr() },
        stride: w.row_stride(),
        rows,
        cols: w.cols(),
        x: packed[plan.first_line..].as_ptr(),
        positions: job.positions,
        y: job.y.0.wrapping_add(first_row),
        y_stride: job.y_stride,
    };
    match w.weights() {
        Weights::F32(_) => rows_f32(isa, work),
        Weights::Bf16(_) => rows_bf16(isa, work),
        Weights::Mxfp4 { .. } => rows_mxfp4(isa, work),
        Weights::Int8 { .. } => {
            rows_int8(isa, work);
            // SAFETY: these rows' results, which this task alone writes.
            unsafe { scale_rows(scales, work) };
        }
    }
}

/// Multiplies each row's results by the row's scale.
unsafe fn scale_rows(scales: &[u8], work: Work) {
    for (r, scale) in scales.as_chunks::<2>().0.iter().enumerate() {
        let scale = f16_to_f32(u16::from_le_bytes(*scale));
        for t in 0..work.positions {
            // SAFETY: a result of this work, by the caller's word.
            unsafe { *work.y.add(t * work.y_stride + r) *= scale };
        }
    }
}

#[inline(always)]
unsafe fn f32_lanes<L: crate::lanes::Lanes>(work: Work) {
    // SAFETY: the caller's work is of this format.
    unsafe { rows::<L, F32>(work) }
}
#[inline(always)]
unsafe fn bf16_lanes<L: crate::lanes::Lanes>(work: Work) {
    // SAFETY: the caller's work is of this format.
    unsafe { rows::<L, Bf16>(work) }
}
#[inline(always)]
unsafe fn int8_lanes<L: crate::lanes::Lanes>(work: Work) {
    // SAFETY: the caller's work is of this format.
    unsafe { rows::<L, Int8>(work) }
}
#[inline(always)]
unsafe fn mxfp4_lanes<L: crate::lanes::Lanes>(work: Work) {
    // SAFETY: the caller's work is of this format.
    unsafe { rows::<L, Mxfp4>(work) }
}

instantiate! { fn rows_f32(work: Work) = f32_lanes; }
instantiate! { fn rows_bf16(work: Work) = bf16_lanes; }
instantiate! { fn rows_int8(work: Work) = int8_lanes; }
instantiate! { fn rows_mxfp4(work: Work) = mxfp4_lanes; }
