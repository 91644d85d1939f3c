//! Help as it is printed. `UPDATE_SNAPSHOTS=1` rewrites the files; read the difference.

use std::path::PathBuf;

use crate::program::{command, deltafin, ran};

/// The commands with a help page.
const PAGES: [&[&str]; 26] = [
    &[],
    &["run"],
    &["chat"],
    &["serve"],
    &["setup"],
    &["verify"],
    &["warm"],
    &["doctor"],
    &["gc"],
    &["inspect"],
    &["tokenize"],
    &["convert"],
    &["eval"],
    &["eval", "logits"],
    &["eval", "ppl"],
    &["eval", "compare"],
    &["plan"],
    &["bench"],
    &["bench", "kernels"],
    &["bench", "decode"],
    &["bench", "prefill"],
    &["bench", "routes"],
    &["bench", "token"],
    &["synth"],
    &["completions"],
    &["man"],
];

#[test]
fn help_is_as_committed() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let update = std::env::var_os("UPDATE_SNAPSHOTS").is_some();
    let mut stale = Vec::new();
    for page in PAGES {
        let name = ["deltafin"].iter().chain(page).copied().collect::<Vec<_>>().join("-");
        let path = folder.join(name).with_extension("txt");
        let printed = deltafin(&[page, &["--help"]].concat()).ok();
        // Blanks at line ends are not worth committing.
        let printed: String =
            printed.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        if update {
            std::fs::write(&path, &printed).expect("written");
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != printed {
            stale.push(path);
        }
    }
    assert!(stale.is_empty(), "UPDATE_SNAPSHOTS=1 rewrites {stale:?}");
}

#[test]
fn version_is_the_package_s() {
    assert_eq!(
        deltafin(&["--version"]).ok(),
        concat!("deltafin ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

/// The environment of whoever looks for help is nobody's business.
#[test]
fn help_does_not_show_values_of_the_environment() {
    let output = command().args(["run", "--help"]).env("DELTAFIN_MODEL", "/secret/place").output();
    assert!(!ran(output.expect("runs")).ok().contains("secret"));
}

#[test]
fn the_manual_has_every_command() {
    let manual = deltafin(&["man"]).ok();
    for command in [
        "run",
        "chat",
        "serve",
        "inspect",
        "tokenize",
        "eval",
        "eval\\-logits",
        "bench\\-kernels",
        "plan",
    ] {
        assert!(manual.contains(&format!("deltafin\\-{command}")), "{command}");
    }
    assert!(manual.contains("DELTAFIN_THREADS"));
}

#[test]
fn completions_exist_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(deltafin(&["completions", shell]).ok().contains("ignore-eos"), "{shell}");
    }
}
