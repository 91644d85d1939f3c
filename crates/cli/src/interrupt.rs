//! Interrupts from the keyboard: the first asks the work to stop, the second ends the process.
//!
//! One flag does both. While it is up, an interrupt ends the process at once; otherwise an
//! interrupt raises it, and the engine, which watches the same flag, stops after the current token.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};

use crate::failure::Failure;
use crate::terminal::{self, PATIENCE, Terminal};

/// What shells expect of a process ended by an interrupt.
const INTERRUPTED: i32 = 130;
/// The same for a request to terminate.
const TERMINATED: i32 = 143;

/// Lets a write beyond the limit of file sizes fail, as any other that the system refuses, instead of
/// ending the process without a word.
pub(crate) fn outlive_limits_of_files() {
    // Where that cannot be had, the system ends the process as it always did.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// The interrupts of this process.
#[derive(Debug)]
pub(crate) struct Interrupts {
    raised: Arc<AtomicBool>,
    /// While a server has nothing to finish: a request to terminate is done at once, and well.
    loading: Arc<AtomicBool>,
}

impl Interrupts {
    /// Takes over interrupts. Until work begins there is nothing to finish, and one is enough.
    pub(crate) fn install() -> Result<Interrupts, Failure> {
        let raised = Arc::new(AtomicBool::new(true));
        watch(SIGINT, INTERRUPTED, &raised)?;
        end_waits_at(SIGINT)?;
        Ok(Interrupts { raised, loading: Arc::default() })
    }

    /// As [`Interrupts::install`], with requests to terminate, for work that takes its time to end and says itself
    /// when nobody wants any more what is waited for.
    pub(crate) fn install_for_a_server() -> Result<Interrupts, Failure> {
        let (raised, loading) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
        signal_hook::flag::register_conditional_shutdown(SIGTERM, 0, loading.clone())
            .map_err(|e| Failure::about("cannot watch for interrupts", &e))?;
        watch(SIGINT, INTERRUPTED, &raised)?;
        watch(SIGTERM, TERMINATED, &raised)?;
        Ok(Interrupts { raised, loading })
    }

    /// As [`Interrupts::install`], for work that has something lying about: whatever ends the
    /// process, a request to terminate included, is preceded by `tidy`.
    pub(crate) fn install_tidying(tidy: impl Fn() + Send + 'static) -> Result<Interrupts, Failure> {
        let about = |e: std::io::Error| Failure::about("cannot watch for interrupts", &e);
        let raised = Arc::new(AtomicBool::new(true));
        let interrupts = Interrupts { raised: raised.clone(), loading: Arc::default() };
        let signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]);
        let mut signals = signals.map_err(about)?;
        // A handler may not touch files; a thread may.
        let heard = flag();
        let watcher = std::thread::Builder::new().spawn(move || {
            for signal in signals.forever() {
                heard.store(true, Ordering::SeqCst);
                let is_first = signal == SIGINT && !raised.swap(true, Ordering::SeqCst);
                if !is_first {
                    tidy();
                    std::process::exit(if signal == SIGINT { INTERRUPTED } else { TERMINATED });
                }
            }
        });
        watcher.map(|_| interrupts).map_err(about)
    }

    /// Takes requests to terminate as interrupts, too: service managers send those.
    pub(crate) fn and_terminations(self) -> Result<Interrupts, Failure> {
        watch(SIGTERM, TERMINATED, &self.raised)?;
        end_waits_at(SIGTERM)?;
        Ok(self)
    }

    /// Work begins that is worth ending well. The flag it must watch.
    pub(crate) fn begin(&self) -> &AtomicBool {
        flag().store(false, Ordering::SeqCst);
        self.raised.store(false, Ordering::SeqCst);
        self.loading.store(false, Ordering::SeqCst);
        &self.raised
    }

    /// The work is over; says whether it was interrupted.
    pub(crate) fn end(&self) -> bool {
        self.raised.swap(true, Ordering::SeqCst)
    }
}

/// Raised by an interrupt, and by a server when nobody is left to hear a reply, until the next work begins: for those
/// who wait for something that may never come.
pub(crate) fn flag() -> Arc<AtomicBool> {
    static HEARD: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    HEARD.get_or_init(Arc::default).clone()
}

/// Between two looks at the flag.
const INTERVAL: Duration = Duration::from_millis(50);

/// Does `work`, which watches this flag but may take long to come by: a layer of a long prompt takes
/// minutes. Whoever interrupts it is told that it was heard.
pub(crate) fn answering<T>(interrupted: &AtomicBool, work: impl FnOnce() -> T) -> T {
    answering_with(interrupted, work, || {
        terminal::note_over(Terminal::detect().erasing(), &heard("layer"));
    })
}

/// What is said to whoever interrupts work that stops only after its current part.
pub(crate) fn heard(part: &str) -> String {
    format!("deltafin: interrupted: this stops after the current {part}; once more ends it at once")
}

/// As [`answering`], said in another way.
pub(crate) fn answering_with<T>(
    interrupted: &AtomicBool,
    work: impl FnOnce() -> T,
    say: impl FnOnce() + Send,
) -> T {
    let (working, ended) = mpsc::channel();
    thread::scope(|scope| {
        let watch = move || say_when_late(interrupted, &ended, say);
        // Without a thread it stops all the same.
        let _ = thread::Builder::new().spawn_scoped(scope, watch);
        let result = work();
        drop(working);
        result
    })
}

/// Waits for the end of the work. Says it once, if the work goes on long after an interrupt.
fn say_when_late(interrupted: &AtomicBool, ended: &Receiver<()>, say: impl FnOnce()) {
    let goes_on = |wait| ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
    while goes_on(INTERVAL) {
        if interrupted.load(Ordering::SeqCst) {
            if goes_on(PATIENCE) {
                say();
            }
            return;
        }
    }
}

fn watch(signal: i32, exit_code: i32, raised: &Arc<AtomicBool>) -> Result<(), Failure> {
    // In this order: the second handler raises the flag that the first one looks at.
    signal_hook::flag::register_conditional_shutdown(signal, exit_code, raised.clone())
        .and_then(|_| signal_hook::flag::register(signal, raised.clone()))
        .map(drop)
        .map_err(|e| Failure::about("cannot watch for interrupts", &e))
}

fn end_waits_at(signal: i32) -> Result<(), Failure> {
    signal_hook::flag::register(signal, flag())
        .map(drop)
        .map_err(|e| Failure::about("cannot watch for interrupts", &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_goes_on_after_an_interrupt_is_explained_once() {
        let (said, heard) = mpsc::channel();
        let interrupted = AtomicBool::new(true);
        // The work ends when it hears it, and not before.
        let work = || heard.recv_timeout(Duration::from_secs(60));
        let result = answering_with(&interrupted, work, move || {
            let _ = said.send("late");
        });
        assert_eq!(result, Ok("late"));
    }

    #[test]
    fn work_that_ends_is_not() {
        let (said, heard) = mpsc::channel();
        let result = answering_with(
            &AtomicBool::new(false),
            || 7,
            move || {
                let _ = said.send("late");
            },
        );
        assert_eq!((result, heard.try_recv()), (7, Err(mpsc::TryRecvError::Disconnected)));
    }
}
