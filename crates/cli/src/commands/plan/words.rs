//! The plan as a person reads it.

use deltafin_budget::{Estimate, Limit, PROMPT_ROWS, Size, SpineFormat};

use super::machine::Machine;
use super::{Memory, Report};
use crate::terminal::one_line;

/// Several lines, the last one with its end.
pub(super) fn words(report: &Report) -> String {
    let Report { model, installed, spine, memory, machine, outlook, .. } = report;
    let where_ = if *installed { "" } else { " (reckoned without its weights)" };
    let mut text = format!(
        "model           {}{where_}, spine {}, context {}\n",
        one_line(model),
        spine.name(),
        context_words(report)
    );
    text += &machine_words(machine, *spine);
    text += &memory_words(memory);
    text += &format!("\n{}\n\n", outlook.plan);
    if outlook.plan.pinned > 0 && !report.routes_learned {
        text +=
            "note: nothing is kept for good before a run has shown which experts are used most\n";
    }
    text += &estimate_words(&outlook.estimate, report.routes_learned);
    text += &change("with 1 GiB more memory", outlook.more_memory.as_ref(), &outlook.estimate);
    if reads(&outlook.estimate) > 0 {
        let second = Some(&outlook.second_drive);
        text += &change("with a second drive like this", second, &outlook.estimate);
    }
    text += &change("with the spine as int8", outlook.int8_spine.as_ref(), &outlook.estimate);
    text.trim_end().to_owned() + "\n"
}

fn context_words(report: &Report) -> String {
    match report.context_short_of {
        None => report.context.to_string(),
        Some(usual) => format!("{} instead of {usual}, for memory is short", report.context),
    }
}

fn machine_words(machine: &Machine, spine: SpineFormat) -> String {
    let Machine { isa, threads, memory_gbps, mxfp4_gbps, drive_gbps, drive, .. } = machine;
    let ((spine_gbps, _), spine) = (machine.spine_rates(spine), spine.name());
    let mut text = format!(
        "processor       {threads} threads, {isa}: {mxfp4_gbps:.1} GB/s of experts, {spine_gbps:.1} GB/s of {spine} spine\n\
         memory          {memory_gbps:.1} GB/s\n"
    );
    let Some(drive) = drive else {
        return text + &format!("drive           {drive_gbps:.2} GB/s, not measured\n");
    };
    text += &format!(
        "drive           {drive_gbps:.2} GB/s: {} reads, {}, {}\n",
        drive.reads,
        Size(drive.bytes),
        one_line(&drive.how)
    );
    let remarks = drive.notice.iter().cloned().chain(drive.doubts.iter().map(ToString::to_string));
    remarks.for_each(|remark| text += &format!("                note: {}\n", one_line(&remark)));
    text
}

fn memory_words(memory: &Memory) -> String {
    let Memory { auto, usable, bound, reserve, ceiling, beyond } = memory;
    let mut text = format!("usable          {}, {}", Size(*usable), one_line(bound));
    if *auto {
        text += &format!("; {} are left to others", Size(*reserve));
    }
    if *beyond {
        text += &format!("\n                note: this machine gives at most {}", Size(*ceiling));
    }
    text + "\n"
}

fn estimate_words(estimate: &Estimate, routes_learned: bool) -> String {
    let Estimate { spine_read_bytes, expert_read_bytes, hit_rate, .. } = *estimate;
    let like = if routes_learned { ", going by earlier runs" } else { "" };
    let mut text = format!(
        "read per token  {} ({} of spine, {} of experts; memory is expected to have {:.0} % of them{like})\n",
        gb(spine_read_bytes + expert_read_bytes),
        gb(spine_read_bytes),
        gb(expert_read_bytes),
        100.0 * hit_rate
    );
    text += &format!(
        "one token       {}, limited by {} (reading {}, computing {})\n",
        seconds(estimate.token_seconds),
        limit(estimate.limit, estimate),
        seconds(estimate.read_seconds),
        seconds(estimate.compute_seconds)
    );
    text + &format!(
        "prompt of {PROMPT_ROWS}   {}, limited by {} (reading {})\n",
        seconds(estimate.prompt_seconds),
        estimate.prompt_limit,
        gb(estimate.prompt_read_bytes)
    )
}

fn limit(limit: Limit, estimate: &Estimate) -> String {
    let near = estimate.read_seconds.min(estimate.compute_seconds) > 0.5 * estimate.token_seconds;
    let also = if near && estimate.read_seconds > 0.0 { ", nearly balanced" } else { "" };
    format!("{limit}{also}")
}

fn change(what: &str, then: Option<&Estimate>, now: &Estimate) -> String {
    let Some(then) = then else { return String::new() };
    format!(
        "{what:<30}{} a token ({:.2} x as fast), {} a prompt\n",
        seconds(then.token_seconds),
        now.token_seconds / then.token_seconds,
        seconds(then.prompt_seconds)
    )
}

fn reads(estimate: &Estimate) -> u64 {
    estimate.spine_read_bytes + estimate.expert_read_bytes
}

/// Bytes as drives are sold: in powers of 1000.
fn gb(bytes: u64) -> String {
    match bytes {
        0 => "nothing".to_owned(),
        1..1_000_000_000 => format!("{:.2} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

fn seconds(seconds: f64) -> String {
    match seconds {
        ..1e-3 => format!("{:.0} us", seconds * 1e6),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        ..120.0 => format!("{seconds:.2} s"),
        _ => format!("{:.1} min", seconds / 60.0),
    }
}
