//! `bench decode`, `bench prefill` and `bench routes`, on the small models.

use crate::program::{deltafin, fixture};

#[test]
fn arms_are_measured_in_turns_and_agree() {
    let model = fixture("k3-micro");
    let few = "few: --threads 1 --isa scalar";
    let args = ["bench", "decode", "--model", &model, "--arm", few, "--arm", "all:", "--json"];
    let sizes = ["--rounds", "2", "--prompt", "5", "--tokens", "4"];
    let report = deltafin(&[&args[..], &sizes].concat()).json();
    assert_eq!(report["measured"], "decode");
    let arms = report["arms"].as_array().expect("arms");
    assert_eq!(arms.len(), 2);
    assert_eq!(arms[0]["name"], "few");
    assert_eq!(arms[0]["flags"], "--threads 1 --isa scalar");
    assert_eq!(arms[0]["cold"]["of_first_arm"]["median"], 1.0);
    for arm in arms {
        assert!(arm["peak_memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{arm}");
        for state in ["cold", "warm"] {
            let counted = arm[state]["storage_bytes_per_token"]["median"].as_f64();
            assert!(
                counted.is_some_and(|bytes| bytes >= 0.0) || !cfg!(target_os = "linux"),
                "{arm}"
            );
            let seconds = &arm[state]["seconds_per_token"];
            let number = |name: &str| seconds[name].as_f64().expect("a number");
            assert!(0.0 < number("min") && number("min") <= number("median"), "{arm}");
            assert!(number("median") <= number("max"), "{arm}");
        }
    }
}

#[test]
fn a_table_is_printed_for_people() {
    let args = ["bench", "prefill", "--model", "demo", "--rounds", "1", "--prompt", "9"];
    let table = deltafin(&args).ok();
    for word in ["prefill", "prompt 9", "default  cold", "warm", "the same ids"] {
        assert!(table.contains(word), "{word} in {table}");
    }
}

#[test]
fn misuse_is_refused_before_any_run() {
    for (flags, named) in [
        (&["--arm", "no colon"][..], "colon"),
        (&["--arm", "a: --frobnicate"], "arm 'a'"),
        (&["--arm", "a: --model demo"], "--model"),
        (&["--arm", "a:", "--arm", "a: --threads 1"], "two arms"),
        (&["--arm", "a: --pin 1G"], "--pin"),
        (&["--arm", "a: --json"], "--json"),
        (&["--every", "--pin=1G"], "--pin"),
        (&["--every", "--threads 0"], "--threads"),
        (&["--tokens", "1"], "--tokens"),
        (&["--rounds", "0"], "--rounds"),
    ] {
        let said = deltafin(&[&["bench", "decode", "--model", "demo"], flags].concat()).usage();
        assert!(said.contains(named), "{flags:?}: {said}");
    }
}

#[test]
fn a_run_that_fails_is_named() {
    let tight = ["bench", "decode", "--model", "demo", "--arm", "tight: --context 4"];
    let line = deltafin(&tight).refusal();
    assert!(line.contains("arm 'tight'") && line.contains("context"), "{line}");
}

#[test]
fn routes_are_counted() {
    let model = fixture("k3-micro");
    let args = ["bench", "routes", "--model", &model, "--prompt", "32", "--json"];
    let report = deltafin(&args).json();
    let [experts, top_k] =
        ["experts", "top_k"].map(|name| report[name].as_f64().expect("a number"));
    let number = |name: &str| report[name].as_f64().expect("a number");
    assert!((0.0..1.0).contains(&number("repeated_in_next_token")), "{report}");
    assert!((1.0..2.0).contains(&number("experts_of_2_tokens")), "{report}");
    assert!((1.0..=experts / top_k).contains(&number("experts_of_8_tokens")), "{report}");
    assert!((0.3..=1.0).contains(&number("routes_to_hottest_30_percent")), "{report}");
    assert_eq!(report, deltafin(&args).json(), "the same texts have the same routes");
    let short = ["bench", "routes", "--model", &model, "--prompt", "1"];
    assert!(deltafin(&short).ok().contains("two tokens"), "a text that is too short to tell");
}

#[test]
fn a_token_is_held_against_memory_and_kernels() {
    let model = fixture("k3-micro");
    let args = ["bench", "token", "--model", &model, "--rounds", "2", "--json"];
    let report = deltafin(&args).json();
    assert_eq!((&report["tokens"], &report["recipe"]), (&8.into(), &"bf16".into()));
    assert!(report["bytes_touched_per_token"].as_u64().is_some_and(|bytes| bytes > 0));
    for name in ["seconds_per_token", "ratio_to_memory", "ratio_to_kernels"] {
        assert!(report[name]["median"].as_f64().is_some_and(|number| number > 0.0), "{report}");
    }
    let table = deltafin(&["bench", "token", "--model", "demo", "--rounds", "1"]).ok();
    assert!(table.contains("of what the kernels give"), "{table}");
}

#[test]
fn a_token_that_must_be_read_is_not_held_against_memory() {
    let model = fixture("k3-micro");
    let line = deltafin(&["bench", "token", "--model", &model, "--expert-cache", "off"]).refusal();
    assert!(line.contains("--expert-cache") && line.contains("bench decode"), "{line}");
}

/// The budget that a refusal names keeps everything in memory, however few tokens choose experts before one counts;
/// a smaller one does not.
#[test]
fn a_token_is_measured_with_the_memory_that_is_named() {
    let few =
        ["--context", "16", "--rounds", "1", "--tokens", "1", "--chunk", "32", "--threads", "8"];
    let on = |memory: &str| {
        let args = ["bench", "token", "--model", "demo", "--memory", memory];
        deltafin(&[&args[..], &few].concat())
    };
    let named = |line: String| -> u64 {
        let named = line.split("give --memory ").nth(1).and_then(|rest| rest.split('M').next());
        named.and_then(|mib| mib.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    let mib = named(on("1M").refusal());
    let less = on(&format!("{}", (mib << 20) - 1)).refusal();
    assert!(less.contains(&format!("in {} B", (mib << 20) - 1)), "{less}");
    assert_eq!(named(less), mib);
    on(&format!("{mib}M")).ok();
}

#[test]
fn tokens_that_have_no_room_behind_the_prompt_are_refused_at_once() {
    let line = deltafin(&["bench", "token", "--model", "demo", "--context", "16"]).refusal();
    assert!(line.contains("36 tokens behind a prompt of 8"), "{line}");
    assert!(line.contains("--rounds") && line.contains("raise --context"), "{line}");
}
