//! The model that would run: which one it is, whether it is whole, with which spine it runs.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use deltafin_checkpoint::Recipe;
use deltafin_fetch::{self as fetch, Event, FetchError, Source, Standing};
use deltafin_store::{Checkpoint, OpenError, SpineChoice, pack_dir};

use super::finding::{Code, Finding, Level};
use super::notes;
use crate::args::{Given, Looked, Network};
use crate::damage;
use crate::drafter;
use crate::failure::{Failure, chain};
use crate::gathered::Gathered;
use crate::load;
use crate::logins;
use crate::model_choice::{self, Model};
use crate::spine;
use crate::stats::bytes;
use crate::streamed;

/// What the other checks are about.
#[derive(Debug)]
pub(super) struct Subject {
    /// The folder, unless there is none or it is the built-in model.
    pub(super) dir: Option<PathBuf>,
    /// Where the files come from; nothing where setup did not bring them.
    pub(super) source: Option<Source>,
    /// Bytes that are still to come, as far as that is known.
    pub(super) missing: Option<u64>,
    checkpoint: Option<Checkpoint>,
    /// How many experts are here, where they come when they are needed.
    gathered: Option<Gathered>,
}

impl Subject {
    /// No model is here; the released one is what there could be.
    pub(super) fn none() -> Subject {
        let source = Some(Source::released());
        Subject { dir: None, source, missing: None, checkpoint: None, gathered: None }
    }

    /// The checkpoint, if it opens.
    pub(super) fn checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }

    /// Whether something is still to be fetched before a model runs.
    pub(super) fn wants_files(&self) -> bool {
        self.checkpoint.is_none()
    }

    /// Whether experts are to come while the model runs.
    pub(super) fn wants_experts(&self) -> bool {
        self.gathered.as_ref().is_some_and(|gathered| !gathered.has_all())
    }

    /// Finds it, and says how it is.
    pub(super) fn find(looked: &Looked) -> (Subject, Vec<Finding>) {
        let Looked { model: typed, given } = looked.clone();
        if typed.is_none() && given == Given::Nowhere {
            match model_choice::remembered() {
                Ok(Some(dir)) => return Subject::at(dir),
                Ok(None) => return (Subject::none(), vec![not_installed()]),
                Err(failure) => return (Subject::none(), vec![gone(&failure)]),
            }
        }
        match model_choice::choose(typed, given) {
            Ok(Model::Directory(dir)) => match absence(&dir) {
                Some(why) => (Subject::none(), vec![gone(&Failure::new(why))]),
                None => Subject::at(dir),
            },
            Ok(Model::Demo) => match load::checkpoint(&Model::Demo, &Network::unused()) {
                Ok(demo) => {
                    let found = vec![Finding::ok("model", "the built-in demo")];
                    let checkpoint = Some(demo);
                    (Subject { source: None, checkpoint, ..Subject::none() }, found)
                }
                Err(failure) => (Subject::none(), vec![gone(&failure)]),
            },
            Err(failure) => (Subject::none(), vec![gone(&failure)]),
        }
    }

    fn at(dir: PathBuf) -> (Subject, Vec<Finding>) {
        let source = fetch::installed_from(&dir).map(logins::with_login);
        let mut subject = Subject { dir: Some(dir.clone()), source, ..Subject::none() };
        if let Err(error) = fetch::check_seen(&dir) {
            return (subject, closed(&dir, &error));
        }
        let damaged = notes::look(&dir);
        if !damaged.is_empty() {
            return (subject, damaged);
        }
        if fetch::is_installed(&dir) && !fetch::is_finished(&dir) {
            let standing = fetch::standing(&dir);
            subject.missing = standing.map(|standing| standing.missing);
            return (subject, vec![unfinished(&dir, standing)]);
        }
        let inspection = match streamed::inspect_dir(&dir) {
            Ok(inspection) => inspection,
            Err(error) => return (subject, closed(&dir, &error)),
        };
        let Some(checkpoint) = inspection.checkpoint else {
            return (subject, vec![broken(&dir, &inspection.problems)]);
        };
        subject.gathered = Gathered::of(&checkpoint);
        let gathered = subject.gathered.as_ref();
        let mut findings = vec![Finding::ok("model", whole(&dir, &checkpoint, gathered))];
        findings.push(tokenizer(&checkpoint));
        let (checkpoint, recipe) = with_spine(checkpoint);
        findings.push(recipe);
        findings.extend(unused(&dir, &checkpoint));
        findings.extend(drafter_of(&dir));
        subject.checkpoint = Some(checkpoint);
        (subject, findings)
    }
}

fn not_installed() -> Finding {
    let found = "none is installed; the built-in demo is what runs";
    let fix = "'deltafin setup' gets Kimi K3, 'deltafin setup --source DIR' takes one that is here";
    Finding::trouble(Level::Note, Code::NoModel, "model", found, fix)
}

fn gone(failure: &Failure) -> Finding {
    let fix = "'deltafin setup' remembers another, --model DIR names one";
    Finding::trouble(Level::Fault, Code::GoneModel, "model", words(failure), fix)
}

/// What a failure says, without the name of this program.
fn words(failure: &Failure) -> String {
    failure.line().unwrap_or_default().trim_start_matches("deltafin: ").to_owned()
}

/// Why no folder is at a place, if none is. What cannot be looked at may be one.
fn absence(dir: &Path) -> Option<String> {
    let why = match fs::metadata(dir) {
        Ok(found) if found.is_dir() => return None,
        Ok(_) => "is not a folder",
        Err(error) if error.kind() == ErrorKind::NotFound => "is not there",
        Err(error) if error.kind() == ErrorKind::NotADirectory => "is not there",
        Err(_) => return None,
    };
    Some(format!("{} {why}", dir.display()))
}

fn unfinished(dir: &Path, standing: Option<Standing>) -> Finding {
    let words = standing.map_or_else(String::new, |standing| {
        let Standing { here, missing, is_streamed, layers } = standing;
        let what = match layers {
            Some((first, last)) => format!(" for --layers {first}-{last}"),
            None if is_streamed => " that streaming needs".to_owned(),
            None => String::new(),
        };
        format!(", {} of {}{what} are here", bytes(here), bytes(here + missing))
    });
    let found = format!("{}: setup is not finished{words}", dir.display());
    // A part never runs, however far it is.
    let is_part = standing.is_some_and(|standing| standing.layers.is_some());
    let all = if is_part { " --full" } else { "" };
    let fix = format!("deltafin setup{all} --model '{}'", dir.display());
    Finding::trouble(Level::Fault, Code::UnfinishedModel, "model", found, fix)
}

/// Nothing is wrong with the weights, as far as was seen.
fn closed(dir: &Path, error: &FetchError) -> Vec<Finding> {
    let fix = match error {
        FetchError::ReadOnly { .. } => "let this user write to the folder and what is in it",
        FetchError::Forbidden { .. } => "let this user use the folder and what is in it",
        FetchError::LayerCut { .. } => return cut(dir, error),
        _ => "wait for the program that has it, or run 'deltafin setup' again",
    };
    vec![Finding::trouble(Level::Fault, Code::BrokenModel, "model", chain(error), fix)]
}

/// Each layer's file that lost experts.
fn cut(dir: &Path, error: &FetchError) -> Vec<Finding> {
    let fix = format!("deltafin verify --repair '{}'", dir.display());
    let found = fetch::verify(dir, false, &|_: Event<'_>| {}, &AtomicBool::new(false));
    let mut lines = found.map_or_else(|_| Vec::new(), |found| damage::cut(&found.damage));
    if lines.is_empty() {
        lines.push(chain(error));
    }
    let finding = |line| Finding::trouble(Level::Fault, Code::BrokenModel, "model", line, &*fix);
    lines.into_iter().map(finding).collect()
}

fn broken(dir: &Path, problems: &[deltafin_store::OpenError]) -> Finding {
    let first = problems.first().map_or_else(|| "it does not open".to_owned(), |p| chain(p));
    let more = match problems.len() {
        0 | 1 => String::new(),
        n => format!(", and {} more", n - 1),
    };
    let fix = match fetch::is_installed(dir) {
        _ if matches!(problems.first(), Some(OpenError::SpineGone { .. })) => {
            format!("deltafin setup --spine bf16 --model '{}'", dir.display())
        }
        true => format!("deltafin verify --repair '{}'", dir.display()),
        false => format!("'deltafin inspect \"{}\"' lists everything", dir.display()),
    };
    Finding::trouble(Level::Fault, Code::BrokenModel, "model", format!("{first}{more}"), fix)
}

fn whole(dir: &Path, checkpoint: &Checkpoint, gathered: Option<&Gathered>) -> String {
    let (spec, shards) = (checkpoint.spec(), checkpoint.store.shards());
    let size: u64 = shards.iter().map(|shard| shard.len).sum();
    let (layers, path) = (spec.layers.len(), dir.display());
    let later = gathered.map_or_else(String::new, |gathered| {
        let others = if gathered.has_all() { "" } else { ", the others come when they are needed" };
        format!("; {}{others}", gathered.words())
    });
    let freed = match checkpoint.freed() {
        Some(recipe) => format!("; of the spine only the {recipe} pack is here"),
        None => String::new(),
    };
    format!("{path}: {layers} layers, {} in {} shards{later}{freed}", bytes(size), shards.len())
}

fn tokenizer(checkpoint: &Checkpoint) -> Finding {
    let found = match load::tokenizer_of(checkpoint) {
        Ok(Some(tokenizer)) => match load::misfit(&load::declared(checkpoint), &tokenizer) {
            None => return Finding::ok("tokenizer", "it is the model's own"),
            Some(misfit) => misfit,
        },
        Ok(None) => "there is none; only ids go in and out".to_owned(),
        Err(failure) => words(&failure),
    };
    let fix = "put tiktoken.model and tokenizer_config.json of this model into its folder";
    Finding::trouble(Level::Warning, Code::NoTokenizer, "tokenizer", found, fix)
}

/// A pack that does not run, for setup was told otherwise after it was made.
fn unused(dir: &Path, checkpoint: &Checkpoint) -> Option<Finding> {
    let pack = pack_dir(dir, Recipe::Int8);
    let is_unused = checkpoint.chosen() == Some(Recipe::Bf16) && pack.is_dir();
    is_unused.then(|| {
        let found = format!("{}: setup was told --spine bf16 since it was made", pack.display());
        let fix = "'deltafin gc --yes' removes it, 'deltafin setup --spine int8' has it run again";
        Finding::trouble(Level::Note, Code::UnusedPack, "spine", found, fix)
    })
}

/// The drafter beside a model, if there is one.
fn drafter_of(dir: &Path) -> Option<Finding> {
    let beside = dir.join(drafter::FOLDER);
    beside.symlink_metadata().ok()?;
    let trouble = |found: String, fix: &str| {
        Finding::trouble(Level::Warning, Code::BadDrafter, "drafter", found, fix)
    };
    if fetch::is_installed(&beside) && !fetch::is_finished(&beside) {
        let fix = format!("deltafin setup --model '{}'", dir.display());
        return Some(trouble(format!("{}: setup is not finished", beside.display()), &fix));
    }
    Some(match drafter::check(&beside) {
        Ok(()) => Finding::ok("drafter", beside.display().to_string()),
        Err(why) if fetch::is_installed(&beside) => {
            let fix = "'deltafin verify --repair', or remove its folder and name another for 'deltafin setup --drafter'";
            trouble(why, fix)
        }
        Err(why) => trouble(why, "remove it; 'deltafin setup --drafter SOURCE' brings one"),
    })
}

/// The checkpoint as it would run.
fn with_spine(checkpoint: Checkpoint) -> (Checkpoint, Finding) {
    match checkpoint.clone().with_spine(&SpineChoice::Auto) {
        Ok(checkpoint) => {
            let words = spine::words(&checkpoint);
            let found = match (checkpoint.lost_pack(), checkpoint.folder()) {
                (Some(pack), Some(dir)) => {
                    let found = format!("{words}; {}", spine::lost_words(&pack));
                    let (level, code) = (Level::Warning, Code::LostPack);
                    Finding::trouble(level, code, "spine", found, spine::lost_fix(dir))
                }
                _ => Finding::ok("spine", words),
            };
            (checkpoint, found)
        }
        Err(error) => {
            let code = Code::UnusablePack;
            let folder = checkpoint.folder().filter(|_| checkpoint.freed().is_some());
            let fix = match folder {
                Some(dir) => format!("deltafin verify --repair '{}'", dir.display()),
                None => "make it again with 'deltafin convert', remove its folder, or run with --spine bf16".to_owned(),
            };
            (checkpoint, Finding::trouble(Level::Fault, code, "spine", chain(&error), fix))
        }
    }
}
