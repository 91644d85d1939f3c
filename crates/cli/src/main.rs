//! The `deltafin` command.
//!
//! Reads the command line, hands it to the command it names, and turns whatever went wrong into one
//! line and an exit code. Everything else is in the libraries below: this crate owns arguments,
//! the terminal, and the words people read.
#![forbid(unsafe_code)]

mod args;
mod awake;
mod built_in;
mod column;
mod commands;
mod damage;
mod drafter;
mod failure;
mod gathered;
mod input;
mod interrupt;
mod learned;
mod load;
mod log;
mod logins;
mod model_choice;
mod moved;
mod new_file;
mod probe;
mod profile;
mod prompt;
mod recorded;
mod reply;
mod safetensors;
mod spine;
mod stats;
mod status;
mod streamed;
mod target;
mod terminal;
mod user_folder;
mod watchers;

use std::process::ExitCode;

use deltafin_store::heap;

fn main() -> ExitCode {
    heap::spare_addresses();
    interrupt::outlive_limits_of_files();
    let (command, given) = args::parse();
    let code = match commands::run(command, given) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(line) = failure.line() {
                terminal::note(&line);
            }
            ExitCode::from(failure.exit_code())
        }
    };
    terminal::finish();
    code
}
