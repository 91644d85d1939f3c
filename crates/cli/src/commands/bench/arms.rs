//! Arms in turns, each run in a process of its own.

use std::env;
use std::process::{Command, Stdio};

use super::measured::Measured;
use super::oracle::{self, Run};
use super::report::Report;
use crate::args::{Arm, BenchArms, Given, ONCE};
use crate::failure::Failure;
use crate::model_choice::{self, Model};
use crate::terminal::{self, ProgressLine, Terminal};

/// Does it.
pub(crate) fn arms(asked: BenchArms, given: Given) -> Result<(), Failure> {
    let model = model_choice::choose(asked.model.clone(), given)?;
    let mut runs = Vec::new();
    for round in 0..asked.rounds {
        // Whoever comes first finds the machine as the others did not: everybody does once.
        for turn in 0..asked.arms.len() {
            let arm = &asked.arms[(round + turn) % asked.arms.len()];
            let words = format!("round {} of {}: {}", round + 1, asked.rounds, arm.name);
            let line = ProgressLine::standing(Terminal::detect(), &words);
            let measured = run(&asked, &model, arm)?;
            drop(line);
            runs.push(Run { arm: arm.name.clone(), round: round + 1, measured });
        }
        // No need to wait for the rest.
        if let Some(words) = oracle::disagreement(&runs) {
            return Err(Failure::new(words));
        }
    }
    let report = Report::new(&asked, &model.to_string(), &runs);
    if asked.json {
        return terminal::print_line(&serde_json::to_string(&report)?);
    }
    terminal::print_line(&report.words())
}

/// A run of an arm, from start to end of its process.
fn run(asked: &BenchArms, model: &Model, arm: &Arm) -> Result<Measured, Failure> {
    let about =
        |error: &dyn std::error::Error| Failure::about(format_args!("arm '{}'", arm.name), error);
    let program = env::current_exe().map_err(|e| about(&e))?;
    let mut command = Command::new(program);
    command.args(ONCE).arg("--model");
    match model {
        Model::Demo => command.arg("demo"),
        Model::Directory(dir) => command.arg(dir),
    };
    let numbers = [
        ("--prompt", asked.prompt as u64),
        ("--tokens", asked.tokens as u64),
        ("--seed", asked.seed),
    ];
    for (flag, number) in numbers {
        command.arg(flag).arg(number.to_string());
    }
    let command = command.args(&arm.flags).stdin(Stdio::null());
    let output = command.output().map_err(|e| about(&e))?;
    if output.status.success() {
        return serde_json::from_slice(&output.stdout).map_err(|e| about(&e));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    let why = last.strip_prefix("deltafin: ").unwrap_or(last);
    Err(Failure::new(format!("arm '{}': {}: {why}", arm.name, output.status)))
}
