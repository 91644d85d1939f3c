//! One module per command: a meaning in, output and an exit code out.

mod bench;
mod chat;
mod convert;
mod doctor;
mod eval;
mod gc;
mod generate;
mod inspect;
mod measuring;
mod plan;
mod report;
mod run;
mod serve;
mod setup;
mod synth;
mod tokenize;
mod transfer;
mod verify;
mod warm;

use crate::args::{self, Command, Given};
use crate::awake;
use crate::failure::Failure;
use crate::terminal;

/// Does what the command line asks for.
pub(crate) fn run(command: Command, given: Given) -> Result<(), Failure> {
    match command {
        Command::Run(run) => run::run(run, given),
        Command::Chat(chat) => chat::chat(chat, given),
        Command::Serve(serve) => serve::serve(*serve, given),
        Command::Verify(asked) => verify::verify(&asked),
        Command::Warm(asked) => warm::warm(&asked),
        Command::Doctor(asked) => doctor::doctor(&asked),
        Command::Gc(asked) => gc::gc(&asked),
        Command::Setup(asked) => setup::setup(&asked),
        Command::Inspect { model, json } => inspect::inspect(model, json),
        Command::Tokenize(tokenize) => tokenize::tokenize(tokenize, given),
        Command::Convert(convert) => convert::convert(&convert, given),
        Command::Eval(eval) => eval::eval(eval, given),
        Command::Plan(asked) => plan::plan(&asked, given),
        Command::BenchArms(arms) => bench::arms(arms, given),
        Command::BenchRoutes(asked) => bench::routes(&asked, given),
        Command::BenchToken(asked) => bench::token(&asked, given),
        Command::BenchOnce(once) => bench::once(&once, given),
        Command::BenchKernels(engine) => bench::kernels(&engine),
        Command::Long { command, may_sleep } => {
            let _awake = awake::keep(may_sleep);
            run(*command, given)
        }
        Command::Synth(synth) => synth::synth(&synth),
        Command::Man => manual_page(),
        Command::Completions(shell) => completions(shell),
    }
}

/// The manual page of the program, then of each command.
fn manual_page() -> Result<(), Failure> {
    let mut table = args::table();
    // Gives the inner commands their full names.
    table.build();
    let mut page = Vec::new();
    render_page(&table, &mut page)?;
    terminal::print(&String::from_utf8_lossy(&page))
}

fn render_page(command: &clap::Command, page: &mut Vec<u8>) -> Result<(), std::io::Error> {
    clap_mangen::Man::new(command.clone()).render(page)?;
    let is_shown = |inner: &&clap::Command| !inner.is_hide_set() && inner.get_name() != "help";
    command.get_subcommands().filter(is_shown).try_for_each(|inner| render_page(inner, page))
}

fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::table(), "deltafin", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))
}
