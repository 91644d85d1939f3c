//! `inspect`: what a checkpoint is, and everything that is wrong with it.

mod report;

use deltafin_store::{Checkpoint, Inspection};

use self::report::Report;
use crate::args::{Given, ModelArg};
use crate::failure::{Failure, chain};
use crate::load;
use crate::model_choice::{self, Model};
use crate::terminal::{self, one_line};

/// Does it.
pub(crate) fn inspect(typed: Option<ModelArg>, given: Given, json: bool) -> Result<(), Failure> {
    let model = model_choice::choose(typed, given)?;
    let (checkpoint, mut problems) = look(&model)?;
    let report = checkpoint.as_ref().map(|checkpoint| {
        let tokenizer = load::tokenizer_of(checkpoint);
        problems.extend(tokenizer.as_ref().err().map(|failure| match failure {
            Failure::Fault(message) => message.clone(),
            other => format!("{other:?}"),
        }));
        let tokenizer = tokenizer.ok().flatten();
        problems
            .extend(tokenizer.as_ref().and_then(|t| load::misfit(&load::declared(checkpoint), t)));
        Report::new(checkpoint, tokenizer.as_ref())
    });
    if json {
        let whole = serde_json::json!({
            "model": model.to_string(),
            "checkpoint": report,
            "problems": problems,
        });
        terminal::print_line(&whole.to_string())?;
    } else {
        terminal::print_line(&words(&model, report.as_ref(), &problems))?;
    }
    if problems.is_empty() { Ok(()) } else { Err(Failure::Reported) }
}

/// The checkpoint if it is whole, and why not if it is not.
fn look(model: &Model) -> Result<(Option<Checkpoint>, Vec<String>), Failure> {
    match model {
        Model::Demo => Ok((Some(load::checkpoint(model)?), Vec::new())),
        Model::Directory(path) => {
            let Inspection { problems, checkpoint } = deltafin_store::inspect_dir(path);
            Ok((checkpoint, problems.iter().map(|problem| chain(problem)).collect()))
        }
    }
}

fn words(model: &Model, report: Option<&Report>, problems: &[String]) -> String {
    let mut text = format!("model         {}\n", one_line(&model.to_string()));
    if let Some(report) = report {
        text += &report.words();
    }
    match problems.len() {
        0 => text += "problems      none\n",
        count => text += &format!("problems      {count}\n"),
    }
    for problem in problems {
        text += &format!("  {}\n", one_line(problem));
    }
    text
}
