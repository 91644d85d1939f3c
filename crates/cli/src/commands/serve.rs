//! `serve`: the engine behind a socket.

mod conversations;
mod systemd;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use deltafin_engine::Writes;
use deltafin_server::{Backend as _, EngineBackend, Entry, Server};
use deltafin_store::heap;
use deltafin_text::Tokenizer;
use deltafin_text::chat::Turns;

use crate::args::{EngineArgs, Given, Serve, SnapshotDisk, key};
use crate::awake::Wakefulness;
use crate::failure::Failure;
use crate::input::{Bound, Source};
use crate::interrupt::{self, Interrupts};
use crate::load::{self, Loaded};
use crate::model_choice::{self, Model};
use crate::stats::bytes;
use crate::terminal;

/// How soon a signal is noticed.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// Some thousands of keys.
const KEY_FILE_BYTES: u64 = 1 << 20;

/// Does it.
pub(crate) fn serve(serve: Serve, given: Given) -> Result<(), Failure> {
    let Serve { address, mut settings, api_key_file, log_json, may_sleep, snapshots, engine } =
        serve;
    // What one request leaves behind would else be missing for the next, on another thread.
    heap::keep_little();
    settings.freed = heap::give_back;
    if log_json {
        terminal::say_in_json();
    }
    if let Some(file) = &api_key_file {
        settings.api_keys.extend(keys_in(file)?);
    }
    let interrupts = Interrupts::install_for_a_server()?;
    // First of all: a port that is taken should not cost the minutes that weights take.
    let listener = bind(address)?;
    let address = listener.local_addr().map_err(|e| about(&e))?;
    if !address.ip().is_loopback() && settings.api_keys.is_empty() {
        terminal::say(&format!(
            "warning: whoever reaches {} may use this server: give --api-key",
            address.ip()
        ));
    }
    let model = model_choice::choose(engine.model.clone(), given)?;
    let (name, other_names) = names(&model);
    settings.model = name.to_owned();
    settings.aliases.extend(other_names.iter().map(|name| (*name).to_owned()));
    let (served, asked) = (settings.model.clone(), settings.clone());
    terminal::never_wait()?;
    let log = |entry: &Entry| terminal::say_parts(entry.event, &entry.words, &entry.members);
    let server = Server::start(listener, settings, log).map_err(|e| about(&e))?;

    let busy = Arc::new(AtomicBool::new(false));
    let (backend, tokenizer, writes) = load(model, &engine, &snapshots, busy.clone())?;
    let largest = asked.largest_body(backend.facts());
    server.ready(tokenizer, backend);
    let ending = interrupts.begin();
    terminal::say(&format!("serving {served} on http://{}/v1", server.address()));
    terminal::say(&format!("to chat in a browser, open http://{}/", server.address()));
    say_if_bodies_are_small(asked.max_body_bytes, largest);
    systemd::notify("READY=1");
    let wakefulness = Wakefulness::new(may_sleep, terminal::say);
    let mut awake = None;
    while !ending.load(Ordering::SeqCst) {
        awake = match (busy.load(Ordering::SeqCst), awake) {
            (false, _) => None,
            (true, awake) => awake.or_else(|| wakefulness.begin()),
        };
        sleep(WATCH_INTERVAL);
    }
    systemd::notify("STOPPING=1");
    terminal::say("ending; a second signal ends at once");
    server.shut_down();
    drop(awake);
    conversations::finish(writes.as_ref());
    Ok(())
}

/// Memory must not decide in silence what is refused.
fn say_if_bodies_are_small(usual: usize, largest: usize) {
    if largest < usual {
        terminal::say(&format!(
            "requests: {} at most instead of {}, for memory is short; give --max-body for others, or more --memory",
            bytes(largest as u64),
            bytes(usual as u64)
        ));
    }
}

/// The keys of a file. One without any would let everybody in.
fn keys_in(file: &Path) -> Result<Vec<String>, Failure> {
    let told = |reason: &str| Failure::new(format!("--api-key-file {}: {reason}", file.display()));
    let bound = Bound { bytes: KEY_FILE_BYTES, remedy: ": is it the file of keys?".to_owned() };
    let text = Source::file(file)?.text(&bound)?;
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    let keys: Result<Vec<_>, _> = lines
        .map(|(at, line)| key(line).map_err(|reason| told(&format!("line {}: {reason}", at + 1))))
        .collect();
    keys.and_then(|keys| match keys.is_empty() {
        true => Err(told("it has no key: write one on a line")),
        false => Ok(keys),
    })
}

fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    if let Some(listener) = systemd::listener().map_err(|e| about(&e))? {
        return Ok(listener);
    }
    TcpListener::bind(address).map_err(|error| {
        let remedy = "choose another --port or --host, or end the program that has this one";
        Failure::new(format!("cannot listen on {address}: {error}: {remedy}"))
    })
}

/// What clients call it, and what else they may. Any directory is taken for what it should be: the
/// released model. The second name is the one in published examples.
fn names(model: &Model) -> (&'static str, &'static [&'static str]) {
    match model {
        Model::Demo => ("deltafin-demo", &[]),
        Model::Directory(_) => ("kimi-k3", &["deltafin-kimi-k3"]),
    }
}

fn load(
    model: Model,
    engine: &EngineArgs,
    snapshots: &SnapshotDisk,
    busy: Arc<AtomicBool>,
) -> Result<(EngineBackend, Tokenizer, Option<Writes>), Failure> {
    let checkpoint = load::checkpoint(&model, &engine.network())?;
    let identity = checkpoint.identity()?;
    let weights_in = checkpoint.folder().map(Path::to_owned);
    let (engine, tokenizer, stop_ids) = Loaded::of(model, checkpoint, engine)?.into_parts()?;
    let fingerprint = fingerprint(&identity.to_bytes(), engine.recipe().name());
    conversations::keep(&engine, snapshots, weights_in.as_deref())?;
    let (writes, turns) = (engine.snapshot_writes(), Turns::of(&tokenizer));
    // What the network's wait looks at, too: nobody waits for a reply that nobody wants.
    let backend =
        EngineBackend::start(engine, stop_ids, turns, fingerprint, interrupt::flag(), busy);
    Ok((backend.map_err(|e| about(&e))?, tokenizer, writes))
}

/// Eight digits that change with the weights, the arithmetic and the program.
fn fingerprint(weights: &[u8], recipe: &str) -> String {
    let parts = [weights, recipe.as_bytes(), env!("CARGO_PKG_VERSION").as_bytes()];
    // 32-bit FNV-1a: the same on every machine.
    let hash = parts
        .concat()
        .iter()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    format!("fp_{hash:08x}")
}

fn about(error: &std::io::Error) -> Failure {
    Failure::about("cannot serve", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_answers_to_the_name_in_published_examples() {
        assert_eq!(names(&Model::Directory("x".into())), ("kimi-k3", &["deltafin-kimi-k3"][..]));
        assert_eq!(names(&Model::Demo).0, "deltafin-demo");
    }
}
