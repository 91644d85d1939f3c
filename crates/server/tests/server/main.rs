//! The server over real sockets, with a scripted engine behind it: slow, failing, never ending.

mod again;
mod beside;
mod choice;
mod crowd;
mod demo;
mod guided;
mod leaving;
mod line;
mod members;
mod messages;
mod page;
mod policy;
mod queue;
mod refusal;
mod reply;
mod responses;
mod rows;
mod rules;
mod schemas;
mod script;
mod sharing;
mod shutdown;
mod stream;
mod transport;
mod wire;
