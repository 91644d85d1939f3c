//! A hub on loopback with the files of a folder, until standard input ends: to try `deltafin setup` on.
//!
//! `cargo run -p deltafin-testkit --example hub -- DIR` prints what to type.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::io::Read as _;
use std::path::Path;

use deltafin_testkit::hub::{Hub, Missteps, REPOSITORY};

fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let hub = Hub::serve_dir(Path::new(&dir), Missteps::none());
    println!("HF_ENDPOINT={} deltafin setup --source hf:{REPOSITORY}", hub.endpoint());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    println!("{} bytes served of {}", hub.served().bytes(), hub.bytes());
}
