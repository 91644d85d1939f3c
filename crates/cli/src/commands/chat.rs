//! `chat`: a conversation, turn by turn.

mod history;
mod lines;

use std::path::Path;

use deltafin_engine::{Counters, Finish, Limits, Mark, Session};
use deltafin_text::chat::{Message, Places, Turns};
use deltafin_text::reply::{Channel, ReplyOptions};

use self::history::History;
use self::lines::Lines;
use super::generate::{self, Generated};
use super::report;
use crate::args::{Chat, Given};
use crate::awake;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::load::Loaded;
use crate::prompt;
use crate::reply::{Conversation, Nothing, Show};
use crate::stats::Summary;
use crate::target::foreign_target;
use crate::terminal::{self, Terminal};

const HELP: &str = "\
/help          this list
/reset         forget the conversation, keep the system message
/save FILE     write the conversation as a request that 'tokenize --chat' reads
/system TEXT   set the system message and begin anew; without TEXT, have none
/quit          end; so does the end of input
//TEXT         say a line that begins with a slash
Interrupt (Ctrl-C) stops the reply and keeps what was said.";

/// Does it.
pub(crate) fn chat(chat: Chat, given: Given) -> Result<(), Failure> {
    let interrupts = Interrupts::install()?;
    let loaded = Loaded::open(&chat.engine, given)?;
    // Say at once what the first turn would find out.
    let turns = Turns::of(loaded.tokenizer()?);
    let terminal = Terminal::detect();
    let bound = prompt::message_bound(&loaded, "send it in several messages")?;
    let mut lines = Lines::open(terminal, bound)?;
    let mut talk = Talk {
        session: loaded.engine.session(),
        history: History::new(&chat.style),
        turns,
        loaded: &loaded,
        chat: &chat,
        interrupts,
        terminal,
    };
    if lines.is_interactive() {
        terminal::note("/help lists the commands, Ctrl-D ends");
    }
    let mut refused = false;
    while let Some(line) = lines.next()? {
        let line = match line {
            Ok(line) => line,
            Err(failure) => {
                failure.line().iter().for_each(|line| terminal::note(line));
                refused = true;
                continue;
            }
        };
        match talk.line(&line) {
            Ok(true) => {}
            Ok(false) => break,
            Err(failure @ Failure::ClosedPipe) => return Err(failure),
            // A person can try something else. A script cannot, but what it asks for does not hang
            // on a command that was misspelled.
            Err(failure) if lines.is_interactive() || is_command(&line) => {
                failure.line().iter().for_each(|line| terminal::note(line));
                refused = true;
            }
            Err(failure) => return Err(failure),
        }
    }
    if refused && !lines.is_interactive() { Err(Failure::Reported) } else { Ok(()) }
}

fn is_command(line: &str) -> bool {
    line.starts_with('/') && !line.starts_with("//")
}

/// A conversation and the engine state that goes with it.
struct Talk<'a> {
    session: Session<'a>,
    history: History,
    turns: Turns,
    loaded: &'a Loaded,
    chat: &'a Chat,
    interrupts: Interrupts,
    terminal: Terminal,
}

impl Talk<'_> {
    /// Takes one line; says whether to go on.
    fn line(&mut self, line: &str) -> Result<bool, Failure> {
        match line.strip_prefix('/') {
            Some(said) if said.starts_with('/') => self.turn(said).map(|()| true),
            Some(command) => self.command(command),
            None if line.trim().is_empty() => Ok(true),
            None => self.turn(line).map(|()| true),
        }
    }

    fn command(&mut self, command: &str) -> Result<bool, Failure> {
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        match (name, rest) {
            ("help", "") => terminal::note(HELP),
            ("quit" | "exit", "") => return Ok(false),
            ("reset", "") => self.reset(),
            ("system", text) => self.set_system(text),
            ("save", "") => return Err(Failure::new("/save needs a file name")),
            ("save", file) => self.save(file.as_ref())?,
            _ => {
                return Err(Failure::new(format!(
                    "unknown command '/{command}': /help lists them; // begins a line with a slash"
                )));
            }
        }
        Ok(true)
    }

    fn reset(&mut self) {
        self.history.reset();
        let kept = if self.history.has_system() { "; the system message is kept" } else { "" };
        terminal::say(&format!("the conversation is forgotten{kept}"));
    }

    fn set_system(&mut self, text: &str) {
        self.history.set_system(text);
        let which = if text.is_empty() {
            "there is no system message"
        } else {
            "the system message is set"
        };
        terminal::say(&format!("{which}; the conversation begins anew"));
    }

    fn save(&self, file: &Path) -> Result<(), Failure> {
        let messages = self.history.save(&foreign_target(file, self.loaded.folders())?)?;
        let plural = if messages == 1 { "" } else { "s" };
        terminal::say(&format!("{messages} message{plural} saved in {}", file.display()));
        Ok(())
    }

    /// One turn: the user's words in, the model's out. A turn that comes to nothing leaves
    /// the history as it was.
    fn turn(&mut self, said: &str) -> Result<(), Failure> {
        let turns = self.history.turns();
        self.history.push(Message::user(said));
        let reply = self.reply();
        if !matches!(&reply, Ok(generated) if !generated.ids.is_empty()) {
            self.history.truncate(turns);
        }
        match reply?.outcome.finish {
            Finish::Cancelled => Err(Failure::Interrupted),
            Finish::Stop(_) | Finish::Length => Ok(()),
        }
    }

    /// Renders the whole conversation and generates from where the state already agrees with it.
    fn reply(&mut self) -> Result<Generated, Failure> {
        let tokenizer = self.loaded.tokenizer()?;
        let request = self.history.request();
        let ids = prompt::chat(&request, self.loaded)?;
        let channel = ReplyOptions::for_request(&request).channel;
        let reused = self.session.reuse(&ids);
        let Places { reply, preamble, ends } = self.turns.places(&ids);
        self.session.mark(&Mark::of_conversation(reply, preamble, &ends));
        let mut show: Box<dyn Show + '_> = match self.chat.engine.json {
            true => Box::new(Nothing),
            false => Box::new(Conversation::new(tokenizer, channel, self.terminal)),
        };
        let earlier = self.loaded.engine.weights().stream().counters();
        let _awake = awake::keep(self.chat.may_sleep);
        let generated = generate::run(
            &mut self.session,
            &ids[reused..],
            Limits { max_new: self.chat.max_new, stop: &self.loaded.stop_ids, ignore_stop: false },
            &mut *show,
            &self.interrupts,
            self.terminal,
        )?;
        self.session.keep();
        generate::say_if_cut(&generated, self.chat.max_new);
        self.conclude(&generated, channel, reused, &earlier)?;
        Ok(generated)
    }

    /// Puts the reply into the history and prints what was asked for besides its text.
    fn conclude(
        &mut self,
        generated: &Generated,
        channel: Channel,
        reused: usize,
        earlier: &Counters,
    ) -> Result<(), Failure> {
        let answer = report::answer(self.loaded.tokenizer()?, channel, generated)?;
        if !generated.ids.is_empty() {
            self.history.push(Message::from(&answer));
        }
        let stats = &generated.outcome.stats;
        let summary = Summary::new(&self.loaded.engine, reused, stats, earlier);
        if self.chat.engine.json {
            let report = report::of_reply(&answer, generated, &summary);
            terminal::print_line(&report.to_string())?;
        } else if self.chat.engine.stats {
            terminal::note(&summary.words());
        }
        Ok(())
    }
}
