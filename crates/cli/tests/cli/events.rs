//! Events of `--json`, held against the table in the documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use deltafin_testkit::hub::{Hub, Misstep, Missteps};
use serde_json::Value;

use crate::program::{Ran, fixture};
use crate::setup::{Place, text};

/// What the documentation has for a command: fields by event.
fn documented(command: &str) -> BTreeMap<String, BTreeSet<String>> {
    let page = include_str!("../../../../docs/EVENTS.md");
    let words = |cell: &str| -> BTreeSet<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let rows = page.lines().filter(|line| line.starts_with(&format!("| `{command}` |")));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        (words(cells[2]).pop_first().expect("a name"), words(cells[3]))
    })
    .collect()
}

/// Every event that a command printed is documented, and has the fields of its row; gives the names.
#[track_caller]
fn names(commands: &[&str], ran: Ran) -> BTreeSet<String> {
    let rows: Vec<_> = commands.iter().map(|command| documented(command)).collect();
    let lines = ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let events = lines.map(|event: Value| {
        let name = event["event"].as_str().expect("a name").to_owned();
        let keys: BTreeSet<String> =
            event.as_object().expect("an object").keys().cloned().collect();
        let fits =
            |fields: &BTreeSet<String>| fields.is_subset(&keys) && keys.len() <= fields.len() + 1;
        let is_documented = rows.iter().filter_map(|rows| rows.get(&name)).any(fits);
        assert!(is_documented, "docs/EVENTS.md has another row of {event}");
        name
    });
    events.collect()
}

#[test]
fn every_event_is_documented_with_its_fields() {
    let missteps = Missteps::of(&[Misstep::Unavailable], 1);
    let place = Place::of(Hub::serve_with_drafter(Path::new(&fixture("k3-micro")), missteps));
    let (dir, part) = (place.at("here"), place.at("part"));
    let (dir, part) = (text(&dir), text(&part));
    let drafter = format!("hf:{}", deltafin_testkit::hub::DRAFTER);
    let mut seen = names(&["setup"], place.setup(&["--json", "--dry-run", "--drafter", &drafter]));
    seen.extend(names(&["setup"], place.setup(&["--json", "--layers", "1-1", "--model", part])));
    seen.extend(names(&["setup"], place.setup(&["--json", "--stream", "--model", dir])));
    let layers = ["--json", "--layers", "2-2", "--model", dir];
    seen.extend(names(&["setup", "warm"], place.setup(&layers)));
    // Comes by the clock, if it takes so long.
    seen.remove("progress");
    assert_eq!(
        seen.iter().collect::<Vec<_>>(),
        ["done", "file", "outlook", "partial", "plan", "waiting"]
    );
    let warm = ["warm", "--json", "--layers", "2-3", "--model", dir];
    let seen = names(&["warm"], place.run(&warm));
    assert!(seen.contains("plan") && seen.contains("done"), "{seen:?}");
    place.hub.misstep(Missteps::of(&[Misstep::Unavailable], u64::MAX));
    let failing = ["warm", "--json", "--patience", "0", "--layers", "4-4", "--model", dir];
    let seen = names(&["warm"], place.run(&failing));
    assert!(seen.contains("waiting") && seen.contains("failed"), "{seen:?}");
}
