//! What a plan says: a table for people, an object for programs.

use deltafin_fetch::{Amount, Plan, Share};
use serde_json::{Value, json};

use crate::stats::bytes;

/// More rows would not be read.
const ROWS_MOST: usize = 10;

/// What a plan means for layers that follow each other.
struct Row {
    first: u32,
    last: u32,
    share: Share,
}

/// The layers in which something is likely, in few rows of like length.
fn rows(plan: &Plan) -> Vec<Row> {
    let likely = plan.shares().iter().filter(|(_, share)| share.likely.records > 0);
    let likely: Vec<_> = likely.collect();
    let row = |layers: &[&(_, Share)]| {
        let mut share = Share::default();
        layers.iter().for_each(|(_, more)| share += *more);
        share
    };
    let mut all = Vec::new();
    for layers in likely.chunks(likely.len().div_ceil(ROWS_MOST).max(1)) {
        let (first, last) = (layers[0].0.number(), layers[layers.len() - 1].0.number());
        all.push(Row { first, last, share: row(layers) });
    }
    all
}

/// The plan as people read it.
pub(super) fn table(plan: &Plan) -> String {
    let (rows, total) = (rows(plan), plan.total());
    let knows_choices = total.chosen > 0.0;
    let mut lines = vec![line(
        ["layers", "likely", "here", "to fetch", "size"],
        knows_choices.then_some(["found", "then"]),
    )];
    for Row { first, last, share } in &rows {
        let layers = if first == last { first.to_string() } else { format!("{first}-{last}") };
        lines.push(share_line(&layers, share, knows_choices));
    }
    if rows.len() > 1 {
        lines.push(share_line("all", &total, knows_choices));
    }
    let Amount { records, bytes: size } = plan.left_out();
    if records > 0 {
        let size = bytes(size);
        lines.push(format!("{records} more, {size}, stay away: there is no room for them"));
    }
    if knows_choices {
        lines.push(
            "found: of all choices, those whose expert is here; then: once these have come"
                .to_owned(),
        );
    }
    lines.join("\n")
}

fn share_line(layers: &str, share: &Share, knows_choices: bool) -> String {
    let Share { likely, here, coming, .. } = share;
    let percent = |part: f64| match share.chosen > 0.0 {
        true => format!("{:.1} %", 100.0 * part / share.chosen),
        false => "-".to_owned(),
    };
    let (found, then) = (percent(share.found), percent(share.found_then));
    let counts = [likely.records, here.records, coming.records].map(|count| count.to_string());
    let [likely, here, coming_records] = &counts;
    let choices = knows_choices.then_some([&*found, &*then]);
    line([layers, likely, here, coming_records, &bytes(coming.bytes)], choices)
}

fn line(columns: [&str; 5], choices: Option<[&str; 2]>) -> String {
    let [layers, likely, here, coming, size] = columns;
    let line = format!("{layers:<8}{likely:>8}{here:>8}{coming:>10}{size:>13}");
    match choices {
        Some([found, then]) => format!("{line}{found:>10}{then:>10}"),
        None => line,
    }
}

/// The plan for programs, without the name of its event.
pub(super) fn object(plan: &Plan) -> Value {
    let rows = rows(plan);
    let layers = rows.iter().map(|row| {
        let mut object = share(&row.share);
        (object["first"], object["last"]) = (row.first.into(), row.last.into());
        object
    });
    let mut object = share(&plan.total());
    object["layers"] = layers.collect();
    object["left_out"] = amount(plan.left_out());
    object
}

fn share(share: &Share) -> Value {
    let part = |part: f64| (share.chosen > 0.0).then(|| part / share.chosen);
    json!({
        "likely": amount(share.likely), "here": amount(share.here), "coming": amount(share.coming),
        "found": part(share.found), "found_then": part(share.found_then),
    })
}

fn amount(amount: Amount) -> Value {
    json!({"records": amount.records, "bytes": amount.bytes})
}
