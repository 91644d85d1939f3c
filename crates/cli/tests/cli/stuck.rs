//! Interrupts of a run that cannot end at the first one: nobody takes what it has to say.

use std::io::{
    BufRead as _, BufReader, ErrorKind, PipeReader, PipeWriter, Read as _, Write as _, pipe,
};
use std::process::{Child, ChildStderr, Command};
use std::sync::mpsc;
use std::time::Duration;

use rustix::io::{ioctl_fionbio, ioctl_fionread};

use crate::program::{GIVE_UP, command, spawn, wait_until};

/// Room for the first id and not for the second.
const ROOM: usize = 4;

/// A pipe that takes `ROOM` bytes more, how many it holds, and its far end, which reads nothing.
pub(crate) fn almost_full() -> (PipeWriter, u64, PipeReader) {
    let (mut far, mut near) = pipe().expect("a pipe");
    ioctl_fionbio(&near, true).expect("a flag");
    let mut held = 0;
    loop {
        match near.write(&[b' '; 4096]) {
            Ok(count) => held += count,
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(e) => panic!("{e}"),
        }
    }
    far.read_exact(&mut vec![0; held]).expect("what it holds");
    let held = held - ROOM;
    near.write_all(&vec![b' '; held]).expect("room");
    ioctl_fionbio(&near, false).expect("a flag");
    (near, held as u64, far)
}

/// Waits until the program's first thread has slept for a while: its next write does not fit. Where the system
/// does not tell, time must do.
fn wait_until_stuck(child: &mut Child) {
    const LOOKS: usize = 40;
    let stat = format!("/proc/{}/stat", child.id());
    if std::fs::metadata(&stat).is_err() {
        return std::thread::sleep(Duration::from_secs(3));
    }
    let mut asleep = 0;
    wait_until(child, "it waits for a reader", |_| {
        let text = std::fs::read_to_string(&stat).expect("it runs");
        let after_name = text.rsplit(')').next().expect("a name in brackets");
        asleep = if after_name.trim_start().starts_with('S') { asleep + 1 } else { 0 };
        asleep == LOOKS
    });
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// Whether a line with these words comes, before the program ends.
fn says(err: ChildStderr, words: &'static str) -> bool {
    let (heard, line) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(err).lines().map_while(Result::ok);
        let _ = heard.send(lines.any(|line| line.contains(words)));
    });
    line.recv_timeout(GIVE_UP).unwrap_or(false)
}

#[test]
fn a_second_interrupt_ends_what_the_first_could_not() {
    let (near, held, far) = almost_full();
    let args = ["run", "--model", "demo", "--ids", "--ignore-eos", "--threads", "1"];
    let mut child = spawn(command().args(args).args(["--prompt", "Once upon a time"]).stdout(near));
    wait_until(&mut child, "its first id", |_| ioctl_fionread(&far).expect("a count") > held);
    wait_until_stuck(&mut child);
    interrupt(&child);
    let err = child.stderr.take().expect("piped");
    assert!(says(err, "once more ends it at once"), "the first is heard and does not end it");
    assert!(child.try_wait().expect("asked").is_none(), "it goes on");
    interrupt(&child);
    wait_until(&mut child, "its end", |child| child.try_wait().expect("asked").is_some());
    assert_eq!(child.wait().expect("ended").code(), Some(130));
}
