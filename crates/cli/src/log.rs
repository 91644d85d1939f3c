//! Lines for standard error from work that must not wait for whoever reads them.
//!
//! Promises: adding a line never waits; lines come in order, each whole; what has no room is left out, and a line
//! in its place says how many were; the end waits for a stated time at most.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes of lines that wait to be taken.
const WAITING_MAX: usize = 256 << 10;

/// A log with a thread of its own.
#[derive(Clone, Debug)]
pub(crate) struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// What is said of so many lines that were left out.
    lost: fn(u64) -> String,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<String>,
    bytes: usize,
    lost: u64,
    /// A line is being written.
    is_writing: bool,
}

impl Log {
    /// One that writes to standard error; `lost` words that so many lines were left out.
    ///
    /// # Errors
    /// When the system has no descriptor or no thread left.
    pub(crate) fn to_stderr(lost: fn(u64) -> String) -> io::Result<Log> {
        // Not the stream that others lock: a write that nobody takes would hold them up, too.
        let file = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Log::to(file, lost)
    }

    fn to(out: impl Write + Send + 'static, lost: fn(u64) -> String) -> io::Result<Log> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let log = Log(Arc::new(Shared { state, changed, lost }));
        let writer = log.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || writer.write(out))?;
        Ok(log)
    }

    /// Adds a line, with its end.
    pub(crate) fn add(&self, line: String) {
        let mut state = self.lock();
        if state.bytes + line.len() > WAITING_MAX {
            state.lost += 1;
            return;
        }
        state.tell_lost(self.0.lost);
        state.push(line);
        self.0.changed.notify_all();
    }

    /// Waits until all is written, but no longer than this.
    pub(crate) fn finish_within(&self, time: Duration) {
        let is_busy = |state: &mut State| state.is_writing || !state.waiting.is_empty();
        let waited = self.0.changed.wait_timeout_while(self.lock(), time, is_busy);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn write(&self, mut out: impl Write) {
        loop {
            let line = self.next();
            // A log that cannot be written is no reason to stop.
            let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
            let mut state = self.lock();
            state.is_writing = false;
            if state.waiting.is_empty() {
                state.tell_lost(self.0.lost);
            }
            drop(state);
            self.0.changed.notify_all();
        }
    }

    /// The next line, once there is one.
    fn next(&self) -> String {
        let mut state = self.lock();
        loop {
            if let Some(line) = state.waiting.pop_front() {
                state.bytes -= line.len();
                state.is_writing = true;
                return line;
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, line: String) {
        self.bytes += line.len();
        self.waiting.push_back(line);
    }

    /// Puts a line where lines are missing.
    fn tell_lost(&mut self, lost: fn(u64) -> String) {
        if self.lost > 0 {
            let line = lost(std::mem::take(&mut self.lost));
            self.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::time::Instant;

    use super::*;

    /// A place where a write waits until it is taken.
    struct Pipe(SyncSender<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Longer than anything here takes; nobody waits for it in vain but in a fault.
    const GIVE_UP: Duration = Duration::from_secs(60);

    /// What is taken next.
    fn next(taken: &Receiver<Vec<u8>>) -> Vec<u8> {
        taken.recv_timeout(GIVE_UP).unwrap()
    }

    fn log() -> (Log, Receiver<Vec<u8>>) {
        let (sender, taken) = sync_channel(0);
        (Log::to(Pipe(sender), |lost| format!("{lost} lost\n")).unwrap(), taken)
    }

    #[test]
    fn nobody_waits_for_who_takes_nothing_and_the_missing_are_counted() {
        let (log, taken) = log();
        let line = format!("{}\n", "x".repeat(1023));
        log.add(line.clone());
        let began = Instant::now();
        while !log.lock().is_writing {
            assert!(began.elapsed() < GIVE_UP, "nothing is written");
            thread::yield_now();
        }
        for _ in 0..2000 {
            log.add(line.clone());
        }
        // Nor does the end.
        log.finish_within(Duration::from_millis(1));
        for _ in 0..1 + 256 {
            assert_eq!(next(&taken), line.as_bytes());
        }
        assert_eq!(next(&taken), b"1744 lost\n");
        log.add("on\n".to_owned());
        assert_eq!(next(&taken), b"on\n");
        log.finish_within(GIVE_UP);
        assert!(taken.try_recv().is_err());
    }

    #[test]
    fn a_reader_that_has_left_holds_nothing_up() {
        let (log, taken) = log();
        drop(taken);
        log.add("one\n".to_owned());
        log.finish_within(GIVE_UP);
        let state = log.lock();
        assert!(state.waiting.is_empty() && !state.is_writing, "{state:?}");
    }
}
