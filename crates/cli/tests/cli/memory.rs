//! Memory flags: they alter time, never the text.

use crate::program::{command, fixture, ran};

fn ids(state: &std::path::Path, more: &[&str]) -> crate::program::Ran {
    let model = fixture("k3-micro");
    let mut run = command();
    run.args(["run", "--prompt-ids", "1,2,3,4,5", "--ids", "--max-new", "8", "--ignore-eos"]);
    run.arg("--model").arg(model).args(more).env("XDG_STATE_HOME", state);
    ran(run.output().expect("runs"))
}

#[test]
fn what_one_run_learns_the_next_one_uses_and_the_ids_stay() {
    let state = tempfile::tempdir().expect("a folder");
    let wanted = ids(state.path(), &[]).ok();
    let heat = state.path().join("deltafin/heat");
    assert!(!heat.exists(), "with everything in memory there is nothing to learn");
    let pinned = ["--slabs", "12", "--pin", "64K"];
    let first = ids(state.path(), &pinned);
    assert!(first.err.contains("--pin keeps nothing"), "{first:?}");
    assert_eq!(first.ok(), wanted);
    let second = ids(state.path(), &pinned);
    assert!(!second.err.contains("--pin"), "{second:?}");
    assert_eq!(second.ok(), wanted);
    let file = std::fs::read_dir(&heat).expect("is there").next().expect("one file").expect("read");
    std::fs::write(file.path(), b"not what it was").expect("written");
    let damaged = ids(state.path(), &pinned);
    let name = file.path().display().to_string();
    let lost = damaged.err.lines().filter(|line| line.contains(&name) && line.contains("damaged"));
    assert_eq!(lost.count(), 1, "{damaged:?}");
    assert!(damaged.err.contains("--pin keeps nothing"), "{damaged:?}");
    assert_eq!(damaged.ok(), wanted);
    let mended = ids(state.path(), &pinned);
    assert!(!mended.err.contains("damaged") && !mended.err.contains("--pin"), "{mended:?}");
}

#[test]
fn every_way_to_move_bytes_gives_the_same_ids() {
    let state = tempfile::tempdir().expect("a folder");
    let wanted = ids(state.path(), &[]).ok();
    for more in [
        ["--slabs", "2", "--expert-cache", "off"],
        ["--slabs", "9", "--io", "buffered"],
        ["--io", "direct", "--prefetch", "prev"],
        ["--slabs", "16", "--prefetch", "lookahead"],
    ] {
        assert_eq!(ids(state.path(), &more).ok(), wanted, "{more:?}");
    }
}

#[test]
fn stats_tell_what_was_read_by_phase() {
    let state = tempfile::tempdir().expect("a folder");
    let few = ["--json", "--slabs", "2", "--expert-cache", "off", "--io", "buffered"];
    let stats = &ids(state.path(), &few).json()["stats"];
    let (plan, drive) = (&stats["plan"], &stats["drives"][0]);
    assert_eq!(plan["expert_slots"], 2, "{stats}");
    assert!(plan["budget_bytes"].as_u64() > plan["spine_resident_bytes"].as_u64(), "{stats}");
    assert!(drive["mode"].as_str().is_some_and(|mode| mode.contains("buffered")), "{stats}");
    for phase in ["prefill", "decode"] {
        let reads = &stats["reads"][phase];
        let count = |name: &str| reads[name].as_u64().expect("a count");
        assert!(count("misses") > 0 && count("missed_bytes") > count("misses"), "{phase}: {stats}");
        assert_eq!(count("hits"), 0, "nothing stays: {stats}");
    }
    assert_eq!(stats["reads"]["prefill"]["passes"], 1);
    assert_eq!(stats["reads"]["decode"]["passes"], 7);
    let one_by_one = &ids(state.path(), &["--json", "--chunk", "1"]).json()["stats"];
    assert_eq!(one_by_one["reads"]["prefill"]["passes"], 5, "a prompt all the same");
    assert_eq!(one_by_one["reads"]["decode"]["passes"], 7);

    let warm = &ids(state.path(), &["--json"]).json()["stats"];
    assert!(warm["reads"]["decode"]["hits"].as_u64() > Some(0), "{warm}");
    let said = ids(state.path(), &["--stats", "--slabs", "2"]).err;
    for label in ["plan  ", "drive  ", "prompt used", "decode used"] {
        assert!(said.contains(label), "{label}: {said}");
    }
}

#[test]
fn a_profile_accounts_for_the_passes_and_changes_no_id() {
    let state = tempfile::tempdir().expect("a folder");
    let few = ["--slabs", "2", "--expert-cache", "off"];
    let wanted = ids(state.path(), &few).ok();
    let run = ids(state.path(), &[&few[..], &["--profile"]].concat());
    for words in ["prefill: 5 tokens in 1 pass", "decode: 7 tokens in 7 pass", "expert wait"] {
        assert!(run.err.contains(words), "{words}: {run:?}");
    }
    assert!(run.err.contains("critical path") && !run.err.contains("NaN"), "{run:?}");
    assert_eq!(run.ok(), wanted);
    let json = ids(state.path(), &[&few[..], &["--profile", "--json"]].concat()).json();
    for phase in ["prefill", "decode"] {
        let profile = &json["profile"]["phases"][phase];
        let sections = profile["seconds"].as_object().expect("sections");
        let cells =
            sections.values().flat_map(|section| section.as_object().expect("cells").values());
        let sum: f64 = cells.map(|cell| cell.as_f64().expect("seconds")).sum();
        let wall = profile["wall_seconds"].as_f64().expect("seconds");
        assert!((sum - wall).abs() <= 1e-9 * (1.0 + wall), "{phase}: {sum} of {wall}");
        assert_eq!(profile["missed_bytes"], json["stats"]["reads"][phase]["missed_bytes"]);
    }
}

#[test]
fn a_budget_that_cannot_be_kept_is_refused_with_one_that_can() {
    let state = tempfile::tempdir().expect("a folder");
    let line = ids(state.path(), &["--memory", "1M"]).refusal();
    assert!(line.contains("1.00 MiB is too small") && line.contains("give --memory "), "{line}");
    let named = line.split("--memory ").nth(1).and_then(|rest| rest.split('M').next());
    let mib: u64 = named.and_then(|mib| mib.parse().ok()).expect("a number of MiB");
    ids(state.path(), &["--memory", &format!("{mib}M")]).ok();
    let less = ids(state.path(), &["--memory", &format!("{}M", mib - 1)]).refusal();
    assert!(less.contains(&format!("give --memory {mib}M")), "{less}");
    let line = ids(state.path(), &["--memory", "900000G"]).refusal();
    assert!(line.contains("--memory") && line.contains("at most"), "{line}");
}

/// Where a text ends is not memory's to decide in silence.
#[test]
fn a_context_that_memory_cut_is_said() {
    let state = tempfile::tempdir().expect("a folder");
    let wanted = ids(state.path(), &[]).ok();
    let small = ids(state.path(), &["--memory", "64M"]);
    let line = small.err.lines().find(|line| line.starts_with("deltafin: context: "));
    let line = line.unwrap_or_else(|| panic!("{small:?}"));
    for words in ["instead of 32768", "--context", "--memory"] {
        assert!(line.contains(words), "{words}: {line}");
    }
    assert_eq!(small.ok(), wanted);
    let asked = ids(state.path(), &["--memory", "64M", "--context", "100"]);
    assert!(!asked.err.contains("deltafin: context: "), "{asked:?}");

    let path = state.path().join("long");
    std::fs::write(&path, "1 ".repeat(20_000)).expect("written");
    let mut run = command();
    run.args(["run", "--model", &fixture("k3-micro"), "--ids", "--memory", "64M"]);
    let line = ran(run.arg("--prompt-ids").arg(&path).output().expect("runs")).refusal();
    for words in ["20000", "32768", "--context", "--memory"] {
        assert!(line.contains(words), "{words}: {line}");
    }
}
