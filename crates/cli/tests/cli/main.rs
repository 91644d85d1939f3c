//! The program as a user meets it: arguments in, streams and exit codes out.

#[cfg(target_os = "linux")]
mod awake;
mod bench;
mod chat;
mod convert;
mod doctor;
mod drafter;
mod eval;
mod events;
mod flipped;
mod full_drive;
mod gc;
mod help;
mod inspect;
mod interrupt;
mod killed;
mod limits;
mod memory;
mod model;
mod packed;
mod plan;
mod program;
mod read_only;
mod refusal;
mod remembered;
mod run;
mod serve;
mod setup;
mod stop;
mod streamed;
mod stuck;
mod synth;
mod terminal;
mod tokenize;
mod warm;
mod watch;
