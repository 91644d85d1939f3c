//! The one flag table: parsing, help, manual page and completions all come from these types.
//!
//! Two steps. The types that derive `Args` hold what was typed; each has a `meaning` that says
//! what the command is to do. Commands see meanings only.

mod bench;
mod chat;
mod convert;
mod doctor;
mod engine;
mod eval;
mod gc;
mod id_list;
mod ids;
mod layers;
mod model;
mod network;
mod origin;
mod plan;
mod refusal;
mod replies;
mod run;
mod serve;
mod setup;
mod size;
mod sleep;
mod snapshots;
mod synth;
mod tokenize;
mod truth;
mod twins;
mod verify;
mod warm;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub(crate) use bench::{
    Arm, BenchArms, BenchKernels, BenchOnce, BenchRoutes, BenchToken, ONCE, Phase,
};
pub(crate) use chat::{Chat, Style};
pub(crate) use convert::Convert;
pub(crate) use doctor::Doctor;
pub(crate) use engine::{EngineArgs, ModelArg};
pub(crate) use eval::{Compare, Compared, Eval, Logits, Passage, Ppl};
pub(crate) use gc::Gc;
pub(crate) use ids::{IdsSource, check as check_ids, parse_list};
pub(crate) use model::Looked;
pub(crate) use network::{CacheLimit, Network, default_cache_limit};
pub(crate) use plan::{Drive, Plan, Subject};
pub(crate) use run::{Prompt, Run, Watched};
pub(crate) use serve::{Serve, key};
pub(crate) use setup::{DrafterChoice, Setup};
pub(crate) use snapshots::SnapshotDisk;
pub(crate) use synth::Synth;
pub(crate) use tokenize::{Channel, Input, Tokenize, Vocabulary, What};
pub(crate) use verify::Verify;
pub(crate) use warm::{Sign, Warm};

const EXIT_CODES: &str = "\
Exit codes: 0 done, or the reader closed the pipe; 1 a fault, named in one line on standard error; \
2 misuse; 130 interrupted, with what was said so far printed.";

/// Run Kimi K3 whole on one ordinary machine, by streaming its weights
#[derive(Debug, Parser)]
#[command(name = "deltafin", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Typed,
}

/// What was typed.
#[derive(Debug, Subcommand)]
enum Typed {
    Run(run::RunArgs),
    Chat(chat::ChatArgs),
    Serve(serve::ServeArgs),
    Setup(setup::SetupArgs),
    Verify(verify::VerifyArgs),
    Warm(warm::WarmArgs),
    Doctor(doctor::DoctorArgs),
    Gc(gc::GcArgs),
    Inspect(InspectArgs),
    Tokenize(tokenize::TokenizeArgs),
    Convert(convert::ConvertArgs),
    Eval(eval::EvalArgs),
    Plan(plan::PlanArgs),
    Bench(bench::BenchArgs),
    Synth(synth::SynthArgs),
    /// Print the manual page
    #[command(hide = true)]
    Man,
    /// Print a completion script for a shell
    Completions {
        /// The shell it is for
        shell: clap_complete::Shell,
    },
}

/// Say what a checkpoint is and whether anything is wrong with it
///
/// Reads the configuration, the index and the header of every shard, no weights. Exits with 1
/// when there are problems, after all of them are listed.
#[derive(Debug, clap::Args)]
struct InspectArgs {
    #[command(flatten)]
    model: model::ModelArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Command {
    /// Continue a prompt.
    Run(Run),
    /// Converse.
    Chat(Chat),
    /// Answer over HTTP.
    Serve(Box<Serve>),
    /// Get a checkpoint.
    Setup(Box<Setup>),
    /// Look for damage.
    Verify(Verify),
    /// Get experts ahead of time.
    Warm(Box<Warm>),
    /// Say what is wrong with a machine.
    Doctor(Doctor),
    /// Free what nobody needs.
    Gc(Gc),
    /// Describe a checkpoint.
    Inspect {
        /// Which one.
        model: Looked,
        /// Whether for machines.
        json: bool,
    },
    /// Text to ids and back.
    Tokenize(Tokenize),
    /// The spine in files of its own.
    Convert(Convert),
    /// Numbers behind the tokens.
    Eval(Eval),
    /// What memory buys.
    Plan(Box<Plan>),
    /// Speed of the kernels.
    BenchKernels(BenchKernels),
    /// Speed of generating, arm against arm.
    BenchArms(BenchArms),
    /// How a router chooses.
    BenchRoutes(Box<BenchRoutes>),
    /// A token beside what the machine gives.
    BenchToken(Box<BenchToken>),
    /// One run of one arm.
    BenchOnce(Box<BenchOnce>),
    /// A synthetic checkpoint.
    Synth(Synth),
    /// Another one, all of which takes long.
    Long {
        /// Which one.
        command: Box<Command>,
        /// Whether the machine may go to sleep meanwhile.
        may_sleep: bool,
    },
    /// The manual page.
    Man,
    /// A completion script.
    Completions(clap_complete::Shell),
}

/// A refused combination of arguments, reported as the parser's own refusals are.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

/// Where a value of `--model` came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// On the command line.
    Typed,
    /// In the environment.
    Environment,
    /// Nowhere.
    Nowhere,
}

/// The table itself, for the manual page and the completions.
pub(crate) fn table() -> clap::Command {
    Cli::command()
}

/// Reads the command line of this process. Help, version and usage errors end it here, the last
/// with exit code 2.
pub(crate) fn parse() -> (Command, Given) {
    let as_set = twins::as_set(table());
    let matches = as_set.clone().try_get_matches();
    let matches = matches.unwrap_or_else(|e| refusal::exit(&twins::named(e, &as_set)));
    let given = model_given(&matches);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| refusal::exit(&e));
    match cli.command.meaning(given) {
        Ok(command) => {
            twins::say_unknown(&table());
            (command, given)
        }
        Err(Usage(message)) => refusal::exit_over(&message),
    }
}

fn model_given(matches: &ArgMatches) -> Given {
    if let Some((_, inner)) = matches.subcommand() {
        return model_given(inner);
    }
    if !matches!(matches.try_contains_id("model"), Ok(true)) {
        return Given::Nowhere;
    }
    match matches.value_source("model") {
        Some(ValueSource::CommandLine) => Given::Typed,
        Some(ValueSource::EnvVariable) => Given::Environment,
        _ => Given::Nowhere,
    }
}

impl Typed {
    fn meaning(self, given: Given) -> Result<Command, Usage> {
        Ok(match self {
            Typed::Run(args) => Command::Run(args.meaning()?),
            Typed::Chat(args) => Command::Chat(args.meaning()),
            Typed::Serve(args) => Command::Serve(Box::new(args.meaning()?)),
            Typed::Verify(args) => {
                let sleep = args.sleep;
                Command::Verify(args.meaning(given)?).long(sleep)
            }
            Typed::Warm(args) => Command::Warm(Box::new(args.meaning(given)?)),
            Typed::Doctor(args) => Command::Doctor(args.meaning(given)?),
            Typed::Gc(args) => Command::Gc(args.meaning(given)?),
            Typed::Setup(args) => Command::Setup(Box::new(args.meaning(given)?)),
            Typed::Inspect(InspectArgs { model, json }) => {
                Command::Inspect { model: model.meaning(given)?, json }
            }
            Typed::Tokenize(args) => Command::Tokenize(args.meaning(given)?),
            Typed::Convert(args) => {
                let sleep = args.sleep;
                Command::Convert(args.meaning()).long(sleep)
            }
            Typed::Eval(args) => {
                let sleep = args.sleep;
                Command::Eval(args.meaning(given)?).long(sleep)
            }
            Typed::Plan(args) => Command::Plan(Box::new(args.meaning(given)?)),
            Typed::Bench(args) => args.meaning()?,
            Typed::Synth(args) => Command::Synth(args.meaning()),
            Typed::Man => Command::Man,
            Typed::Completions { shell } => Command::Completions(shell),
        })
    }
}

impl Command {
    fn long(self, sleep: sleep::SleepArgs) -> Command {
        Command::Long { command: Box::new(self), may_sleep: sleep.allow_sleep }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_is_sound() {
        super::table().debug_assert();
    }
}
