//! Interrupts from the keyboard: the first asks the work to stop, the second ends the process.
//!
//! One flag does both. While it is up, an interrupt ends the process at once; otherwise an
//! interrupt raises it, and the engine, which watches the same flag, stops after the current token.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;

/// What shells expect of a process ended by an interrupt.
const INTERRUPTED: i32 = 130;
/// The same for a request to terminate.
const TERMINATED: i32 = 143;

/// The interrupts of this process.
#[derive(Debug)]
pub(crate) struct Interrupts {
    raised: Arc<AtomicBool>,
}

impl Interrupts {
    /// Takes over interrupts. Until work begins there is nothing to finish, and one is enough.
    pub(crate) fn install() -> Result<Interrupts, Failure> {
        let raised = Arc::new(AtomicBool::new(true));
        watch(SIGINT, INTERRUPTED, &raised)?;
        Ok(Interrupts { raised })
    }

    /// As [`Interrupts::install`], for work that has something lying about: whatever ends the
    /// process, a request to terminate included, is preceded by `tidy`.
    pub(crate) fn install_tidying(tidy: impl Fn() + Send + 'static) -> Result<Interrupts, Failure> {
        let about = |e: std::io::Error| Failure::about("cannot watch for interrupts", &e);
        let raised = Arc::new(AtomicBool::new(true));
        let interrupts = Interrupts { raised: raised.clone() };
        let signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]);
        let mut signals = signals.map_err(about)?;
        // A handler may not touch files; a thread may.
        let watcher = std::thread::Builder::new().spawn(move || {
            for signal in signals.forever() {
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
        Ok(self)
    }

    /// Work begins that is worth ending well. The flag it must watch.
    pub(crate) fn begin(&self) -> &AtomicBool {
        self.raised.store(false, Ordering::SeqCst);
        &self.raised
    }

    /// The work is over; says whether it was interrupted.
    pub(crate) fn end(&self) -> bool {
        self.raised.swap(true, Ordering::SeqCst)
    }
}

fn watch(signal: i32, exit_code: i32, raised: &Arc<AtomicBool>) -> Result<(), Failure> {
    let about = |e| Failure::about("cannot watch for interrupts", &e);
    // In this order: the second handler raises the flag that the first one looks at.
    signal_hook::flag::register_conditional_shutdown(signal, exit_code, raised.clone())
        .map_err(about)?;
    signal_hook::flag::register(signal, raised.clone()).map_err(about)?;
    Ok(())
}
