//! The server over real sockets, with a scripted engine behind it: slow, failing, never ending.

mod demo;
mod leaving;
mod queue;
mod refusal;
mod reply;
mod script;
mod shutdown;
mod stream;
mod transport;
mod wire;
