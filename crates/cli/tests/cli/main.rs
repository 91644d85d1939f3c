//! The program as a user meets it: arguments in, streams and exit codes out.

mod bench;
mod chat;
mod convert;
mod doctor;
mod eval;
mod gc;
mod help;
mod inspect;
mod interrupt;
mod limits;
mod memory;
mod model;
mod plan;
mod program;
mod refusal;
mod run;
mod serve;
mod setup;
mod stop;
mod streamed;
mod stuck;
mod synth;
mod terminal;
mod tokenize;
mod watch;
