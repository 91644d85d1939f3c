//! What this machine gives: measured, or assumed where the flags say so.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deltafin_budget::{Limits, Rates, SpineFormat};
use deltafin_checkpoint::Span;
use deltafin_engine::ModelSpec;
use deltafin_measure::{DriveError, DriveSpeed, Effort, KernelReport, Options, Room};
use deltafin_store::Checkpoint;
use serde::Serialize;

use super::Target;
use crate::args::{Drive, Plan};
use crate::commands::measuring;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::probe;
use crate::terminal::{ProgressLine, Terminal};

/// Seconds for memory and kernels.
const KERNEL_SECONDS: f64 = 3.0;
/// Time for reads from the drive.
const DRIVE_TIME: Duration = Duration::from_millis(1500);
/// Rows that an expert has in a prompt of some hundred, and that the spine is worked through in.
const EXPERT_ROWS: usize = 8;
const SPINE_ROWS: usize = 64;

/// What this machine gives. Rates in 10^9 per second.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    pub(super) isa: &'static str,
    pub(super) threads: usize,
    pub(super) memory_gbps: f64,
    /// Weights of one row, by format.
    pub(super) mxfp4_gbps: f64,
    pub(super) int8_gbps: f64,
    pub(super) bf16_gbps: f64,
    /// Multiply-adds of many rows, by format.
    pub(super) mxfp4_gmacs: f64,
    pub(super) int8_gmacs: f64,
    pub(super) bf16_gmacs: f64,
    pub(super) drive_gbps: f64,
    /// What was measured of the drive; nothing where its speed was given.
    pub(super) drive: Option<DriveSpeed>,
}

impl Machine {
    /// Measures it. What is planned for may be another machine, but this one must not run short.
    pub(super) fn measure(
        target: &Target,
        asked: &Plan,
        threads: usize,
    ) -> Result<Machine, Failure> {
        let limits = Limits::read();
        let options = kernels(asked, threads, measuring::room(&limits));
        // Before the drive is read, which takes longer.
        options.memory().map_err(|refused| measuring::too_little(&limits, refused))?;
        let mut progress = ProgressLine::new(Terminal::detect());
        progress.update(|| "measuring the drive".to_owned());
        let drive = drive(target, &asked.drive, &limits)?;
        progress.update(|| "measuring memory and processor".to_owned());
        let report = deltafin_measure::kernels(&options, &mut |_| {})?;
        let gbps = |name, rows| rate(&report, name, rows);
        // A byte of bf16 is half a multiply-add, one of int8 a whole one; 17 bytes of MXFP4 are 32.
        let assumed = match asked.drive {
            Drive::Assume(gbps) => Some(gbps),
            _ => drive.as_ref().map(|drive| drive.gbps),
        };
        Ok(Machine {
            isa: report.kernels.first().map_or("none", |line| line.isa),
            threads,
            memory_gbps: report.read_gbps,
            mxfp4_gbps: gbps("mxfp4", 1),
            int8_gbps: gbps("int8", 1),
            bf16_gbps: gbps("bf16", 1),
            mxfp4_gmacs: gbps("mxfp4", EXPERT_ROWS) * EXPERT_ROWS as f64 * 32.0 / 17.0,
            int8_gmacs: gbps("int8", SPINE_ROWS) * SPINE_ROWS as f64,
            bf16_gmacs: gbps("bf16", SPINE_ROWS) * SPINE_ROWS as f64 / 2.0,
            drive_gbps: assumed.unwrap_or(report.read_gbps),
            drive,
        })
    }

    /// Weights of one row and multiply-adds of many, in this format.
    pub(super) fn spine_rates(&self, format: SpineFormat) -> (f64, f64) {
        match format {
            SpineFormat::Bf16 => (self.bf16_gbps, self.bf16_gmacs),
            SpineFormat::Int8 => (self.int8_gbps, self.int8_gmacs),
        }
    }

    /// The rates for a model of these dimensions with its spine in this format.
    pub(super) fn rates(&self, spec: &ModelSpec, format: SpineFormat) -> Rates {
        let (spine_gbps, spine_gmacs) = self.spine_rates(format);
        let spine = spec.all_spines_bytes() as f64 / 2.0;
        let experts = spec.token_expert_bytes() as f64 * 32.0 / 17.0;
        Rates {
            memory_gbps: self.memory_gbps,
            drive_gbps: self.drive_gbps,
            spine_gbps,
            expert_gbps: self.mxfp4_gbps,
            prompt_gmacs: (spine + experts) / (spine / spine_gmacs + experts / self.mxfp4_gmacs),
        }
    }
}

/// What is measured of the kernels.
fn kernels(asked: &Plan, threads: usize, room: Room) -> Options {
    Options {
        isas: vec![asked.engine.isa().unwrap_or_else(|| deltafin_kernels::Isa::best().kind())],
        threads: vec![threads],
        names: ["mxfp4", "int8", "bf16"].map(str::to_owned).to_vec(),
        rows: vec![1, EXPERT_ROWS, SPINE_ROWS],
        seconds: KERNEL_SECONDS,
        room,
    }
}

fn rate(report: &KernelReport, name: &str, rows: usize) -> f64 {
    let line = report.kernels.iter().find(|line| line.name == name && line.rows == rows);
    line.map_or(report.read_gbps, |line| line.gbps)
}

fn drive(target: &Target, known: &Drive, limits: &Limits) -> Result<Option<DriveSpeed>, Failure> {
    let effort = Effort { time: DRIVE_TIME, room: measuring::room(limits) };
    let failed = |error| measuring::drive_failed(limits, error);
    let at = |dir: &Path, spec: &ModelSpec| -> Result<DriveSpeed, Failure> {
        probe::sweep(dir);
        let file = dir.join(format!(".deltafin-plan-{}", std::process::id()));
        let left = file.clone();
        let _interrupts = Interrupts::install_tidying(move || {
            // There may be none yet.
            let _ = std::fs::remove_file(&left);
        })?;
        deltafin_measure::drive_speed_at(&file, spec.expert_bytes(), effort).map_err(failed)
    };
    Ok(match (known, target) {
        (Drive::Assume(_), _) => None,
        (Drive::MeasureAt(dir), target) => Some(at(dir, target.spec())?),
        (Drive::Measure, Target::Released(spec, _)) => Some(at(&PathBuf::from("."), spec)?),
        (Drive::Measure, Target::Opened { checkpoint, .. }) => {
            speed_of(checkpoint, effort).map_err(failed)?
        }
    })
}

/// Reads experts at random. What is in memory is on no drive.
pub(in crate::commands) fn speed_of(
    checkpoint: &Checkpoint,
    effort: Effort,
) -> Result<Option<DriveSpeed>, DriveError> {
    let catalog = &checkpoint.catalog;
    let spec = catalog.spec();
    let of_layer = |layer| {
        let record = move |id| catalog.expert(layer, id).record.pieces().to_vec();
        spec.moe.expert_ids().map(record)
    };
    let mut records: Vec<Vec<Span>> = spec.moe_layers().flat_map(of_layer).collect();
    if records.is_empty() {
        let spine = |layer| catalog.spine(layer).record().pieces().to_vec();
        records = spec.layer_ids().map(spine).collect();
    }
    let distant = checkpoint.store.distant();
    let on_drive = |record: &Vec<Span>| {
        let is_here = distant.as_ref().is_none_or(|distant| distant.is_here(record));
        is_here && record.iter().all(|s| checkpoint.store.file(s.shard()).is_some())
    };
    records.retain(on_drive);
    if records.is_empty() {
        return Ok(None);
    }
    deltafin_measure::drive_speed(Arc::clone(&checkpoint.store), &records, effort).map(Some)
}
