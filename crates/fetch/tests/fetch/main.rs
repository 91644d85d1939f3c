//! Installations from a hub that is as faulty as real ones.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod ahead;
mod faults;
mod full;
mod hopeless;
mod layered;
mod limited;
mod origin;
mod packed;
mod random;
mod replaced;
mod resume;
mod sources;
mod stream;
mod streamed;
mod support;
mod verify;
