//! `inspect`: what a checkpoint is, and everything that is wrong with it.

mod packs;
mod report;

use std::mem::{Discriminant, discriminant};

use deltafin_store::{Checkpoint, Inspection, OpenError, Problem};

use self::report::Report;
use crate::args::{Looked, Network};
use crate::failure::{Failure, chain};
use crate::load;
use crate::model_choice::{self, Model};
use crate::streamed;
use crate::terminal::{self, one_line};

/// Does it.
pub(crate) fn inspect(looked: Looked, json: bool) -> Result<(), Failure> {
    let model = model_choice::choose(looked.model, looked.given)?;
    let (checkpoint, mut problems) = look(&model)?;
    let mut note = |line: String| problems.push(Found { line, like: None });
    let report = checkpoint.as_ref().map(|checkpoint| {
        let tokenizer = load::tokenizer_of(checkpoint);
        if let Err(failure) = &tokenizer {
            note(match failure {
                Failure::Fault(message) => message.clone(),
                other => format!("{other:?}"),
            });
        }
        let tokenizer = tokenizer.ok().flatten();
        let misfit = tokenizer.as_ref().and_then(|t| load::misfit(&load::declared(checkpoint), t));
        misfit.into_iter().for_each(&mut note);
        let report = Report::new(checkpoint, tokenizer.as_ref());
        report.problems().cloned().for_each(&mut note);
        report
    });
    if json {
        let whole = serde_json::json!({
            "model": model.to_string(),
            "checkpoint": report,
            "problems": problems.iter().map(|found| &found.line).collect::<Vec<_>>(),
        });
        terminal::print_line(&whole.to_string())?;
    } else {
        terminal::print_line(&words(&model, report.as_ref(), &problems))?;
    }
    if problems.is_empty() { Ok(()) } else { Err(Failure::Reported) }
}

/// A problem in words.
struct Found {
    line: String,
    /// Which problems it is like, where many tensors may have the same one.
    like: Option<Discriminant<Problem>>,
}

impl Found {
    fn new(error: &OpenError) -> Found {
        let like = match error {
            OpenError::Checkpoint { problem, .. } if problem.is_of_a_tensor() => {
                Some(discriminant(&**problem))
            }
            _ => None,
        };
        Found { line: chain(error), like }
    }
}

/// The checkpoint if it is whole, and why not if it is not.
fn look(model: &Model) -> Result<(Option<Checkpoint>, Vec<Found>), Failure> {
    match model {
        Model::Demo => Ok((Some(load::checkpoint(model, &Network::unused())?), Vec::new())),
        Model::Directory(path) => {
            let Inspection { problems, checkpoint } = streamed::inspect_dir(path)?;
            Ok((checkpoint, problems.iter().map(Found::new).collect()))
        }
    }
}

fn words(model: &Model, report: Option<&Report>, problems: &[Found]) -> String {
    let mut text = format!("model         {}\n", one_line(&model.to_string()));
    if let Some(report) = report {
        text += &report.words();
    }
    match problems.len() {
        0 => text += "problems      none\n",
        count => text += &format!("problems      {count}\n"),
    }
    for line in summed_up(problems) {
        text += &format!("  {}\n", one_line(&line));
    }
    text
}

/// Of problems that are like each other as many are shown one by one; the others are counted.
const SHOWN: usize = 5;

/// The problems, each kind where its first one stands: one wrong number in a configuration makes a
/// line for every tensor.
fn summed_up(problems: &[Found]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut seen = Vec::new();
    for found in problems {
        let Some(like) = found.like else {
            lines.push(found.line.clone());
            continue;
        };
        if seen.contains(&like) {
            continue;
        }
        seen.push(like);
        let alike = || problems.iter().filter(|other| other.like == Some(like));
        lines.extend(alike().take(SHOWN).map(|found| found.line.clone()));
        let more = alike().skip(SHOWN).count();
        if more > 0 {
            lines.push(format!("… and {more} more like these; --json lists them all"));
        }
    }
    lines
}
