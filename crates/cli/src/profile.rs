//! What `--profile` prints: where the time of a token goes.

use std::fmt::Write as _;
use std::time::Duration;

use deltafin_engine::{Critical, DriveUse, Part, Phase, PhaseReport, ProfileReport, Section};
use serde_json::{Value, json};

use crate::stats::bytes;
use crate::terminal::one_line;

/// The table's columns, and what each is the sum of.
const COLUMNS: [(&str, &[Part]); 7] = [
    ("spine wait", &[Part::SpineWait]),
    ("expert wait", &[Part::ExpertWait]),
    ("spine", &[Part::AttentionSpine, Part::FfnSpine, Part::Shared]),
    ("attention", &[Part::Attention]),
    ("experts", &[Part::Experts]),
    ("head", &[Part::Head]),
    ("other", &[Part::Embedding, Part::Router]),
];

fn title(section: Section) -> &'static str {
    match section {
        Section::Kda => "KDA",
        Section::Mla => "MLA",
        Section::Dense => "dense",
        Section::Moe => "MoE",
        Section::Ends => "ends",
    }
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Prefill => "prefill",
        Phase::Decode => "decode",
    }
}

/// Of the experts that had to come from a drive, the share that a guess had begun to read.
fn recall(phase: &PhaseReport) -> Option<f64> {
    share(phase.used.guesses_used, phase.used.guesses_used + phase.used.misses)
}

fn hit_share(phase: &PhaseReport) -> Option<f64> {
    share(phase.used.hits, phase.used.experts())
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn cell(phase: &PhaseReport, section: Section, parts: &[Part]) -> Duration {
    parts.iter().map(|part| phase.times.at(section, *part)).sum()
}

/// The profile in words: a table for each phase.
pub(crate) fn words(report: &ProfileReport) -> String {
    let mut words: String = report.phases.iter().map(of_phase).collect();
    let _ = write!(words, "{} of guesses forgotten unused", bytes(report.wasted_bytes));
    words
}

fn of_phase(phase: &PhaseReport) -> String {
    let rows = phase.rows as f64;
    let ms = |time: Duration| time.as_secs_f64() * 1e3 / rows;
    let mut words = format!(
        "{}: {} tokens in {} passes, {:.3} ms a token, of it\nms a token",
        name(phase.phase),
        phase.rows,
        phase.passes,
        ms(phase.wall)
    );
    for (column, _) in COLUMNS {
        let _ = write!(words, "{column:>13}");
    }
    let _ = writeln!(words, "{:>13}", "all");
    let mut line = |title: &str, sections: &[Section]| {
        let _ = write!(words, "{title:<10}");
        let mut all = Duration::ZERO;
        for (_, parts) in COLUMNS {
            let time = sections.iter().map(|section| cell(phase, *section, parts)).sum();
            all += time;
            let _ = write!(words, "{:>13.3}", ms(time));
        }
        let _ = writeln!(words, "{:>13.3}", ms(all));
    };
    Section::ALL.iter().for_each(|section| line(title(*section), &[*section]));
    line("all", &Section::ALL);
    words + &read_words(phase) + &critical_words(phase)
}

fn read_words(phase: &PhaseReport) -> String {
    let used = &phase.used;
    let a_token = |amount: u64| bytes(amount / phase.rows.max(1));
    let percent = |share: Option<f64>| {
        share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
    };
    let mut words = format!(
        "read a token: spine {}, experts {}, experts guessed {}\n\
         experts in memory {}, of the others guessed {}\n",
        a_token(used.spine_bytes),
        a_token(used.missed_bytes),
        a_token(used.guessed_bytes),
        percent(hit_share(phase)),
        percent(recall(phase)),
    );
    for drive in &phase.drives {
        let rate = drive.rate().map_or_else(|| "-".to_owned(), |rate| bytes(rate as u64));
        let _ = writeln!(
            words,
            "drive busy {}, {rate}/s meanwhile: {}",
            percent(busy(drive, phase)),
            one_line(&drive.file),
        );
    }
    words
}

/// The share of a phase in which a drive had something to do.
fn busy(drive: &DriveUse, phase: &PhaseReport) -> Option<f64> {
    let elapsed = phase.elapsed.as_secs_f64();
    (elapsed > 0.0).then(|| drive.busy.as_secs_f64() / elapsed)
}

fn critical_words(phase: &PhaseReport) -> String {
    let Critical { spine_streamed, drive, compute, path, reads } = phase.critical;
    let ms = |time: Duration| time.as_secs_f64() * 1e3 / phase.rows as f64;
    let (kind, sign) = match spine_streamed {
        true => ("the larger of all reads", "and all arithmetic"),
        false => ("reads that wait for the route", "plus arithmetic outside of them"),
    };
    let mut words = format!(
        "critical path {:.3} ms a token: {kind} {:.3} {sign} {:.3}; taken {:.2} of it\n",
        ms(path),
        ms(drive),
        ms(compute),
        phase.wall.as_secs_f64() / path.as_secs_f64(),
    );
    if reads > path {
        let taken = phase.wall.as_secs_f64() / reads.as_secs_f64();
        let _ = writeln!(
            words,
            "the drives were busy with guesses too: all reads {:.3}; taken {taken:.2} of them",
            ms(reads)
        );
    }
    words
}

/// The profile as numbers: seconds and bytes of all passes together.
pub(crate) fn json(report: &ProfileReport) -> Value {
    let phases: serde_json::Map<String, Value> = report
        .phases
        .iter()
        .map(|phase| (name(phase.phase).to_owned(), phase_json(phase)))
        .collect();
    json!({ "phases": phases, "wasted_bytes": report.wasted_bytes })
}

fn phase_json(phase: &PhaseReport) -> Value {
    let seconds = |section: Section| {
        let cells = COLUMNS.map(|(column, parts)| {
            (column.replace(' ', "_"), json!(cell(phase, section, parts).as_secs_f64()))
        });
        (title(section).to_owned(), Value::Object(cells.into_iter().collect()))
    };
    let drives = phase.drives.iter().map(|drive| {
        json!({ "file": drive.file, "mode": drive.how, "bytes": drive.bytes,
            "busy_seconds": drive.busy.as_secs_f64(), "busy": busy(drive, phase) })
    });
    json!({
        "tokens": phase.rows,
        "passes": phase.passes,
        "wall_seconds": phase.wall.as_secs_f64(),
        "elapsed_seconds": phase.elapsed.as_secs_f64(),
        "seconds": Value::Object(Section::ALL.into_iter().map(seconds).collect()),
        "spine_bytes": phase.used.spine_bytes,
        "missed_bytes": phase.used.missed_bytes,
        "guessed_bytes": phase.used.guessed_bytes,
        "hits": hit_share(phase),
        "recall": recall(phase),
        "drives": drives.collect::<Vec<Value>>(),
        "critical": {
            "spine_streamed": phase.critical.spine_streamed,
            "drive_seconds": phase.critical.drive.as_secs_f64(),
            "compute_seconds": phase.critical.compute.as_secs_f64(),
            "path_seconds": phase.critical.path.as_secs_f64(),
            "reads_seconds": phase.critical.reads.as_secs_f64(),
        },
    })
}
