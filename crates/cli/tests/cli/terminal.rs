//! The program on a terminal, which here is the far end of a pair of ours.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::pty::openpty;
use nix::sys::termios::{LocalFlags, tcgetattr};

use crate::program::{command, spawn};

/// What nothing else writes.
const END: &str = "<<the end>>";

/// A program on a terminal of its own, which is kept open to look at it afterwards.
struct OnTerminal {
    child: Child,
    near: File,
    far: OwnedFd,
}

impl OnTerminal {
    fn start(args: &[&str]) -> OnTerminal {
        OnTerminal::start_on("xterm", args)
    }

    fn start_on(kind: &str, args: &[&str]) -> OnTerminal {
        let pair = openpty(None, None).expect("a terminal");
        let far = || pair.slave.try_clone().expect("a descriptor");
        let mut command = command();
        command.args(args).env("TERM", kind).stdin(far()).stdout(far()).stderr(far());
        OnTerminal { child: spawn(&mut command), near: pair.master.into(), far: pair.slave }
    }

    fn flags(&self) -> LocalFlags {
        tcgetattr(&self.far).expect("attributes").local_flags
    }

    /// All that the program wrote, once it has ended.
    fn read_to_end(&mut self) -> String {
        let mut near = self.near.try_clone().expect("a descriptor");
        // A terminal holds a few thousand bytes: the program must not wait for us, nor we for it.
        let reader = std::thread::spawn(move || {
            let (mut text, mut buf) = (String::new(), [0; 1024]);
            while !text.contains(END) {
                let count = near.read(&mut buf).expect("output");
                text += &String::from_utf8_lossy(&buf[..count]);
            }
            text.replace(END, "")
        });
        self.child.wait().expect("ends");
        let mut far = File::from(self.far.try_clone().expect("a descriptor"));
        far.write_all(END.as_bytes()).expect("written");
        reader.join().expect("read")
    }

    /// What the program wrote, until it has written this.
    fn read_until(&mut self, wanted: &str) -> String {
        let (mut text, mut buf) = (String::new(), [0; 1024]);
        while !text.contains(wanted) {
            let count = self.near.read(&mut buf).expect("output");
            text += &String::from_utf8_lossy(&buf[..count]);
        }
        text
    }
}

#[test]
fn a_chat_that_is_ended_leaves_the_terminal_as_it_was() {
    for (signal, code) in [("-TERM", 143), ("-HUP", 129)] {
        let mut chat = OnTerminal::start(&["chat", "--model", "demo"]);
        let before = chat.flags();
        assert!(before.contains(LocalFlags::ICANON | LocalFlags::ECHO));
        let shown = chat.read_until("> ");
        assert!(shown.contains("\x1b[?2004h"), "the editor asks for marks around what is pasted");
        let deadline = Instant::now() + Duration::from_secs(20);
        while chat.flags().contains(LocalFlags::ICANON) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!chat.flags().contains(LocalFlags::ICANON), "the editor changes it");
        let id = chat.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill runs").success());
        assert_eq!(chat.child.wait().expect("ends").code(), Some(code));
        assert_eq!(chat.flags(), before);
        chat.read_until("\x1b[?2004l");
    }
}

/// A dumb terminal shows what others obey.
#[test]
fn a_dumb_terminal_is_sent_text_alone() {
    let run = ["run", "--model", "demo", "--prompt", "The capital of France is", "--max-new", "3"];
    let chat = ["run", "--model", "demo", "--chat", "--prompt", "Hello!"];
    for args in [&run[..], &chat] {
        let mut on = OnTerminal::start_on("dumb", args);
        let text = on.read_to_end();
        assert!(text.contains("deltafin: spine: ") && !text.contains('\x1b'), "{text:?}");
    }
    let mut on = OnTerminal::start(&run);
    assert!(on.read_to_end().contains("\x1b[2K"), "others have a line that overwrites itself");
}

/// Somebody waits for it; a pipe is told nothing.
#[test]
fn a_long_prompt_tells_how_far_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ids");
    std::fs::write(&path, "298 ".repeat(30_000)).expect("written");
    let args = ["run", "--model", "demo", "--ids", "--max-new", "1", "--prompt-ids"];
    let mut on = OnTerminal::start(&[&args[..], &[path.to_str().expect("UTF-8")]].concat());
    let text = on.read_until(" left");
    // What was read may end within a later line.
    let line = text.split("\x1b[2K").find(|line| line.contains(" left"));
    let line = line.expect("a line that overwrites itself");
    assert!(line.starts_with("prompt: ") && line.contains(" of 30000, layer "), "{line:?}");
    on.child.kill().expect("killed");
    on.child.wait().expect("ends");
}

#[test]
fn what_is_printed_does_not_command_the_terminal() {
    let json = crate::program::deltafin(&["tokenize", "--model", "demo", "a\u{1b}[2Jb"]).ok();
    let mut decode = OnTerminal::start(&["tokenize", "--model", "demo", "--decode", &json]);
    let text = decode.read_until("\n");
    assert!(text.contains("a␛[2Jb") && !text.contains('\x1b'), "{text:?}");
    assert!(decode.child.wait().expect("ends").success());
    let piped = crate::program::deltafin(&["tokenize", "--model", "demo", "--decode", &json]).ok();
    assert_eq!(piped, "a\x1b[2Jb\n");
}
