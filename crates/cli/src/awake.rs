//! The machine stays awake while there is work.
//!
//! Promises: work is never held up and never fails for this; work of less than a moment starts nothing; what keeps
//! the machine awake ends with the work, and with this process however it ends.
//!
//! A program of the system does it: on Linux `systemd-inhibit`, which holds its lock while `cat` has a standard
//! input that is open, and that is a pipe of ours; on macOS `caffeinate`, which watches this process. It has none of our
//! files and sockets, which all close when another program begins, and none of our keys.

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// No machine falls asleep so soon.
const MOMENT: Duration = Duration::from_secs(1);

/// What it needs of the environment: where programs are, and whom to ask.
const HANDED_ON: [&str; 2] = ["PATH", "DBUS_SYSTEM_BUS_ADDRESS"];

/// Starts what keeps the machine awake, work after work.
#[derive(Debug)]
pub(crate) struct Wakefulness {
    program: Option<fn() -> Command>,
    moment: Duration,
    /// It could not be had; it is not tried again.
    refused: Arc<AtomicBool>,
    /// Who is told, once, that it cannot be had.
    say: fn(&str),
}

/// Keeps the machine awake while it lives.
#[derive(Debug)]
pub(crate) struct Awake {
    working: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

/// The machine stays awake from here to the end of what is returned. Nothing is said where that cannot be had:
/// whoever waits for the work sees to the machine.
pub(crate) fn keep(may_sleep: bool) -> Option<Awake> {
    Wakefulness::new(may_sleep, |_| {}).begin()
}

/// Says whether the system does it: nothing where there is no program for that, or why it does not.
pub(crate) fn is_possible() -> Option<Result<(), String>> {
    system_s().map(|program| attempt(program, cfg!(target_os = "linux")))
}

impl Wakefulness {
    /// With `may_sleep`, never anything. `say` gets one line where the system does not do it.
    pub(crate) fn new(may_sleep: bool, say: fn(&str)) -> Wakefulness {
        let program = system_s().filter(|_| !may_sleep);
        Wakefulness { program, moment: MOMENT, refused: Arc::default(), say }
    }

    /// Work begins. Nothing where the machine may sleep.
    pub(crate) fn begin(&self) -> Option<Awake> {
        let program = self.program.filter(|_| !self.refused.load(Ordering::SeqCst))?;
        let (working, ended) = channel();
        let (moment, refused, say) = (self.moment, self.refused.clone(), self.say);
        let keep = move || {
            if let Err(reason) = keep_until(&ended, moment, program)
                && !refused.swap(true, Ordering::SeqCst)
            {
                say(&format!("the machine is not kept from going to sleep: {reason}"));
            }
        };
        // Without a thread the work goes on all the same.
        let keeper = thread::Builder::new().name("awake".to_owned()).spawn(keep).ok()?;
        Some(Awake { working: Some(working), keeper: Some(keeper) })
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        drop(self.working.take());
        if let Some(keeper) = self.keeper.take() {
            // It has nothing to tell.
            let _ = keeper.join();
        }
    }
}

/// The program of this system. None where addresses are limited: those that a thread takes may be the ones that a model
/// would lack.
fn system_s() -> Option<fn() -> Command> {
    if getrlimit(Resource::As).current.is_some() {
        None
    } else if cfg!(target_os = "linux") {
        Some(inhibit)
    } else if cfg!(target_os = "macos") {
        Some(caffeinate)
    } else {
        None
    }
}

fn inhibit() -> Command {
    let mut command = Command::new("systemd-inhibit");
    command.args(["--what=sleep:idle", "--mode=block", "--who=deltafin"]);
    command.args(["--why=a language model is at work", "cat"]);
    command
}

fn caffeinate() -> Command {
    let mut command = Command::new("caffeinate");
    command.args(["-i", "-w", &std::process::id().to_string()]);
    command
}

/// Runs the program from a moment after now until the work ends. Says why it ended before.
fn keep_until(
    ended: &Receiver<()>,
    moment: Duration,
    program: fn() -> Command,
) -> Result<(), String> {
    let goes_on = || ended.recv_timeout(moment) == Err(RecvTimeoutError::Timeout);
    if !goes_on() {
        return Ok(());
    }
    let mut command = program();
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = start(&mut command).map_err(|error| format!("{name}: {error}"))?;
    while goes_on() {
        match child.try_wait() {
            // Somebody has ended it, as a service manager does that ends us, too.
            Ok(Some(status)) if status.signal().is_some() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{name} ended with {status}")),
            _ => {}
        }
    }
    end(child);
    Ok(())
}

/// Starts the program, without work. One that `ends` does so when it has the lock and nothing holds the pipe.
fn attempt(program: fn() -> Command, ends: bool) -> Result<(), String> {
    const LOOKS: u32 = 150;
    let mut command = program();
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = start(&mut command).map_err(|error| format!("{name}: {error}"))?;
    drop(child.stdin.take());
    for _ in 0..if ends { LOOKS } else { 0 } {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{name} ended with {status}")),
            _ => thread::sleep(Duration::from_millis(20)),
        }
    }
    end(child);
    if ends { Err(format!("{name} gives no answer")) } else { Ok(()) }
}

/// In a group of its own: interrupts from the keyboard are not meant for it. What it does not need of the environment is
/// taken away name by name: after `env_clear` it would begin as a copy of this process with all its memory.
fn start(command: &mut Command) -> io::Result<Child> {
    for (name, _) in std::env::vars_os() {
        if !HANDED_ON.iter().any(|handed_on| name == *handed_on) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn()
}

/// Ends it at once: one that waits for the system's answer does not look at its standard input.
fn end(mut child: Child) {
    drop(child.stdin.take());
    // Where it has ended already, both have nothing to do.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Instant;

    use super::*;

    /// Longer than anything here takes.
    const GIVE_UP: Duration = Duration::from_secs(60);

    fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < GIVE_UP, "{what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn wakefulness(program: fn() -> Command, say: fn(&str)) -> Wakefulness {
        let moment = Duration::from_millis(1);
        Wakefulness { program: Some(program), moment, refused: Arc::default(), say }
    }

    /// What runs while this lives, and which process it is.
    fn running() -> (tempfile::TempDir, Child) {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0.new\"; mv \"$0.new\" \"$0\"; exec cat"]).arg(&pid);
        let child = start(&mut command).unwrap();
        wait_until("it starts", || pid.exists());
        (folder, child)
    }

    #[test]
    fn what_runs_ends_with_the_pipe_alone() {
        let (_folder, mut child) = running();
        assert!(child.try_wait().unwrap().is_none(), "it runs while the pipe is open");
        drop(child.stdin.take());
        wait_until("it ends", || child.try_wait().unwrap().is_some());
    }

    #[test]
    fn what_does_not_look_at_the_pipe_ends_too() {
        let mut command = Command::new("sleep");
        let child = start(command.arg("600")).unwrap();
        // Returns once it has ended.
        end(child);
    }

    #[test]
    fn who_refuses_is_told_of_once_and_not_asked_again() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let refuses = wakefulness(
            || Command::new("false"),
            |line| SAID.lock().unwrap().push(line.to_owned()),
        );
        let work = refuses.begin().unwrap();
        wait_until("a line", || !SAID.lock().unwrap().is_empty());
        drop(work);
        assert!(refuses.begin().is_none());
        let said = SAID.lock().unwrap();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("false ended with exit status: 1"), "{said:?}");
    }

    #[test]
    fn a_program_that_is_not_there_is_told_of_once() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let absent = wakefulness(
            || Command::new("deltafin-no-such-program"),
            |line| SAID.lock().unwrap().push(line.to_owned()),
        );
        let work = absent.begin().unwrap();
        wait_until("a line", || !SAID.lock().unwrap().is_empty());
        drop(work);
        assert!(absent.begin().is_none());
        assert!(SAID.lock().unwrap()[0].contains("deltafin-no-such-program: "));
    }

    #[test]
    fn an_attempt_tells_who_does_it_from_who_does_not() {
        assert_eq!(attempt(|| Command::new("cat"), true), Ok(()));
        let refused = attempt(|| Command::new("false"), true);
        assert_eq!(refused, Err("false ended with exit status: 1".to_owned()));
        assert!(attempt(|| Command::new("deltafin-no-such-program"), true).is_err());
    }

    #[test]
    fn a_machine_that_may_sleep_is_left_alone() {
        assert!(Wakefulness::new(true, |_| {}).begin().is_none());
    }
}
