//! Where the time of a session's passes goes.
//!
//! **Promise.** Every moment of a pass belongs to one [`Part`] of one [`Section`], so the cells of a
//! table add up to the time of its passes. The clock is read where parts change and nowhere else, and
//! nothing is allocated from one decoded id to the next.

use super::critical::{Critical, Step};
use super::report::{DriveUse, PhaseReport, ProfileReport, READING, Section, Times};
use crate::weights::phase_of;
use deltafin_model::{Observer, Part, PassPlan};
use deltafin_spec::{FfnKind, LayerId, LayerKind, LayerSpec, ModelSpec};
use deltafin_store::drive::{Class, DriveReport};
use deltafin_stream::{Counters, Phase, Stream, Use};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Layers whose costs are kept one by one for [`Critical`]: 350 tokens of the released model.
const MOST_STEPS: usize = 1 << 15;

/// Watches a session and adds up.
pub struct Profile<'e> {
    layers: Box<[LayerSpec]>,
    stream: Option<&'e Stream>,
    part: Part,
    /// Up to here all time is accounted for.
    clock: Instant,
    /// When the running pass began.
    began: Instant,
    layer: Option<usize>,
    /// Whether the layer's attention has begun: what is waited for after that is its other half.
    attended: bool,
    phase: Option<Phase>,
    tallies: [Tally; 2],
    /// The counts at the beginning.
    start: Counters,
    /// The drives at the beginning of the running phase, and when that was.
    drives: Vec<DriveReport>,
    phase_began: Instant,
}

/// What is added up of a phase.
struct Tally {
    passes: u64,
    rows: u64,
    elapsed: Duration,
    wall: Duration,
    times: Times,
    drives: Vec<DriveUse>,
    steps: Vec<Step>,
    step: Step,
    /// The missed bytes of all steps before this one.
    missed_bytes: u64,
}

impl Tally {
    fn new() -> Tally {
        Tally {
            passes: 0,
            rows: 0,
            elapsed: Duration::ZERO,
            wall: Duration::ZERO,
            times: Times::default(),
            drives: Vec::new(),
            steps: Vec::with_capacity(MOST_STEPS),
            step: Step::default(),
            missed_bytes: 0,
        }
    }

    /// A layer, or one of the ends, is over.
    fn end_step(&mut self, missed_bytes: u64) {
        let step = Step { missed_bytes: missed_bytes - self.missed_bytes, ..self.step };
        self.missed_bytes = missed_bytes;
        self.step = Step::default();
        if self.steps.len() < self.steps.capacity() && step != Step::default() {
            self.steps.push(step);
        }
    }
}

impl<'e> Profile<'e> {
    /// Begins. `stream` is what brings the weights, where that is known.
    pub fn new(spec: &ModelSpec, stream: Option<&'e Stream>) -> Profile<'e> {
        let now = Instant::now();
        let mut profile = Profile {
            layers: spec.layers.iter().copied().collect(),
            stream,
            part: Part::Outside,
            clock: now,
            began: now,
            layer: None,
            attended: false,
            phase: None,
            tallies: [Tally::new(), Tally::new()],
            start: Counters::default(),
            drives: Vec::new(),
            phase_began: now,
        };
        profile.start_anew();
        profile
    }

    /// What was measured so far; the profile begins anew.
    pub fn report(&mut self) -> ProfileReport {
        self.account();
        self.end_phase();
        let tallies = std::mem::replace(&mut self.tallies, [Tally::new(), Tally::new()]);
        let (start, counters) = (self.start, self.counters());
        let [prefill, decode] = tallies;
        let phases = [
            (Phase::Prefill, prefill, counters.prefill.since(&start.prefill)),
            (Phase::Decode, decode, counters.decode.since(&start.decode)),
        ];
        self.start_anew();
        ProfileReport {
            phases: phases
                .into_iter()
                .filter(|(_, tally, _)| tally.passes > 0)
                .map(|(phase, tally, used)| report(phase, tally, used))
                .collect(),
            wasted_bytes: counters.wasted_bytes - start.wasted_bytes,
        }
    }

    fn start_anew(&mut self) {
        self.start = self.counters();
        self.tallies[Phase::Prefill as usize].missed_bytes = self.start.prefill.missed_bytes;
        self.tallies[Phase::Decode as usize].missed_bytes = self.start.decode.missed_bytes;
    }

    fn counters(&self) -> Counters {
        self.stream.map(Stream::counters).unwrap_or_default()
    }

    /// Adds the time that has passed to the running part.
    fn account(&mut self) {
        let now = Instant::now();
        let spent = now - self.clock;
        self.clock = now;
        let (part, section) = (self.part, self.section());
        let Some(tally) = self.phase.map(|phase| &mut self.tallies[phase as usize]) else { return };
        if part == Part::Outside {
            return;
        }
        tally.times.0[section as usize][part as usize] += spent;
        match part {
            part if READING.contains(&part) => tally.step.waited += spent,
            Part::Shared | Part::Experts => tally.step.hideable += spent,
            _ => tally.step.fixed += spent,
        }
    }

    fn section(&self) -> Section {
        let Some(layer) = self.layer else { return Section::Ends };
        let LayerSpec { attention, ffn } = self.layers[layer];
        match self.part {
            Part::SpineWait if self.attended => ffn_section(ffn),
            Part::SpineWait | Part::AttentionSpine | Part::Attention => match attention {
                LayerKind::Kda => Section::Kda,
                LayerKind::Mla => Section::Mla,
            },
            _ => ffn_section(ffn),
        }
    }

    fn end_step(&mut self) {
        let Some(phase) = self.phase else { return };
        let counters = self.counters();
        let used = match phase {
            Phase::Prefill => counters.prefill,
            Phase::Decode => counters.decode,
        };
        self.tallies[phase as usize].end_step(used.missed_bytes);
    }

    fn begin_phase(&mut self, phase: Phase) {
        if self.phase == Some(phase) {
            return;
        }
        self.end_phase();
        self.phase = Some(phase);
        self.phase_began = self.clock;
        self.drives = self.stream.map(|stream| stream.report().drives).unwrap_or_default();
    }

    fn end_phase(&mut self) {
        let Some(phase) = self.phase.take() else { return };
        let drives = self.stream.map(|stream| stream.report().drives).unwrap_or_default();
        let tally = &mut self.tallies[phase as usize];
        tally.elapsed += self.clock - self.phase_began;
        for (i, (now, then)) in drives.iter().zip(&self.drives).enumerate() {
            let bytes = [Class::Demand, Class::Ahead, Class::Guess]
                .map(|class| now.landed(class).bytes - then.landed(class).bytes);
            if tally.drives.len() == i {
                let (file, how) = (now.file.clone(), now.how.clone());
                tally.drives.push(DriveUse { file, how, bytes: 0, busy: Duration::ZERO });
            }
            tally.drives[i].bytes += bytes.iter().sum::<u64>();
            tally.drives[i].busy += now.busy.saturating_sub(then.busy);
        }
    }
}

fn ffn_section(kind: FfnKind) -> Section {
    match kind {
        FfnKind::Dense => Section::Dense,
        FfnKind::Moe => Section::Moe,
    }
}

fn report(phase: Phase, tally: Tally, used: Use) -> PhaseReport {
    let Tally { passes, rows, elapsed, wall, times, drives, steps, .. } = tally;
    let rate: f64 = drives.iter().filter_map(DriveUse::rate).sum();
    let critical = Critical::of(&steps, wall, times.compute(), &used, rate);
    PhaseReport { phase, passes, rows, elapsed, wall, times, used, drives, critical }
}

impl Observer for Profile<'_> {
    fn pass(&mut self, _position: usize, pass: PassPlan) {
        self.account();
        self.begin_phase(phase_of(pass));
        self.layer = None;
        if let Some(phase) = self.phase {
            self.tallies[phase as usize].passes += 1;
            self.tallies[phase as usize].rows += pass.rows as u64;
        }
    }

    fn part(&mut self, part: Part) {
        self.account();
        if matches!(part, Part::Head | Part::Outside) && self.layer.is_some() {
            self.end_step();
            self.layer = None;
        }
        match (self.part, part) {
            (Part::Outside, Part::Outside) => {}
            (Part::Outside, _) => self.began = self.clock,
            (_, Part::Outside) => {
                self.end_step();
                if let Some(phase) = self.phase {
                    self.tallies[phase as usize].wall += self.clock - self.began;
                }
            }
            _ => {}
        }
        self.attended |= part == Part::AttentionSpine;
        self.part = part;
    }

    fn layer(&mut self, layer: LayerId) -> ControlFlow<()> {
        self.account();
        self.end_step();
        self.layer = Some(layer.index());
        self.attended = false;
        ControlFlow::Continue(())
    }
}
