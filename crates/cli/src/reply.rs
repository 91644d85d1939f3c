//! Generated ids to where they are read, each as soon as it is known.

use deltafin_text::reply::{Channel, Cut, Delta, ReplyOptions};
use deltafin_text::{Reply, Tokenizer, Utf8Assembler};

use crate::column::Column;
use crate::failure::Failure;
use crate::terminal::{self, Terminal};

/// Takes generated ids one at a time and shows them.
pub(crate) trait Show {
    /// The next id.
    fn id(&mut self, id: u32) -> Result<(), Failure>;

    /// The stop token that ends the generation; it is never shown, but a reply is read to its end.
    fn stop(&mut self, _id: u32) -> Result<(), Failure> {
        Ok(())
    }

    /// The end: whatever was held comes out, and the line ends.
    fn finish(&mut self, cut: Cut) -> Result<(), Failure>;

    /// Where what is shown ends on a terminal.
    fn column(&self) -> Column {
        Column::default()
    }
}

/// Shows nothing, because everything is printed at the end.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Show for Nothing {
    fn id(&mut self, _id: u32) -> Result<(), Failure> {
        Ok(())
    }

    fn finish(&mut self, _cut: Cut) -> Result<(), Failure> {
        Ok(())
    }
}

/// The ids themselves, on one line.
#[derive(Debug)]
pub(crate) struct Ids {
    begun: bool,
    terminal: Terminal,
    column: Column,
}

impl Ids {
    /// Ids for this terminal.
    pub(crate) fn new(terminal: Terminal) -> Ids {
        Ids { begun: false, terminal, column: Column::default() }
    }
}

impl Show for Ids {
    fn id(&mut self, id: u32) -> Result<(), Failure> {
        let separator = if self.begun { " " } else { "" };
        self.begun = true;
        let text = format!("{separator}{id}");
        if self.terminal.stdout {
            self.column.take(&text);
        }
        terminal::print(&text)
    }

    fn finish(&mut self, _cut: Cut) -> Result<(), Failure> {
        terminal::print("\n")
    }

    fn column(&self) -> Column {
        self.column
    }
}

/// Text on standard output that ends its last line.
#[derive(Debug)]
struct Lines {
    terminal: Terminal,
    at_line_start: bool,
    /// Of all that went to a terminal.
    column: Column,
}

impl Lines {
    fn new(terminal: Terminal) -> Lines {
        Lines { terminal, at_line_start: false, column: Column::default() }
    }

    fn text(&mut self, text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        self.at_line_start = text.ends_with('\n');
        match self.terminal.stdout {
            true => {
                let visible = terminal::visible(text);
                self.column.take(&visible);
                terminal::print(&visible)
            }
            false => terminal::print(text),
        }
    }

    fn end(&mut self) -> Result<(), Failure> {
        if self.at_line_start { Ok(()) } else { self.text("\n") }
    }
}

/// The text of all ids, special tokens by their names.
#[derive(Debug)]
pub(crate) struct Text<'t> {
    tokenizer: &'t Tokenizer,
    utf8: Utf8Assembler,
    lines: Lines,
}

impl<'t> Text<'t> {
    /// Text for this terminal.
    pub(crate) fn new(tokenizer: &'t Tokenizer, terminal: Terminal) -> Text<'t> {
        Text { tokenizer, utf8: Utf8Assembler::default(), lines: Lines::new(terminal) }
    }
}

impl Show for Text<'_> {
    fn id(&mut self, id: u32) -> Result<(), Failure> {
        let text = self.utf8.push(self.tokenizer.token_bytes(id)?);
        self.lines.text(&text)
    }

    fn finish(&mut self, _cut: Cut) -> Result<(), Failure> {
        let held = self.utf8.finish();
        self.lines.text(&held)?;
        self.lines.end()
    }

    fn column(&self) -> Column {
        self.lines.column
    }
}

/// A reply in a conversation. The answer goes to standard output. So does the reasoning, dimmed,
/// when that is a terminal; otherwise it goes to standard error when that is one, else nowhere.
#[derive(Debug)]
pub(crate) struct Conversation<'t> {
    reply: Reply<'t>,
    lines: Lines,
    aside: Aside,
}

/// Where the reasoning stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aside {
    /// Nothing of it was shown.
    Unseen,
    /// It is being shown.
    Open,
    /// It was set off from the answer.
    Closed,
}

impl<'t> Conversation<'t> {
    /// A reply that begins in this channel.
    pub(crate) fn new(
        tokenizer: &'t Tokenizer,
        channel: Channel,
        terminal: Terminal,
    ) -> Conversation<'t> {
        let reply = Reply::new(tokenizer, ReplyOptions::new(channel));
        Conversation { reply, lines: Lines::new(terminal), aside: Aside::Unseen }
    }

    fn delta(&mut self, delta: Delta) -> Result<(), Failure> {
        match delta {
            Delta::Reasoning(text) => self.reasoning(&text),
            Delta::ReasoningEnd => self.close_aside(),
            Delta::Content(text) => {
                self.close_aside()?;
                self.lines.text(&text)
            }
            Delta::Call { call, .. } => {
                self.close_aside()?;
                self.aside(&format!("[call] {} {}\n", call.name, call.arguments))
            }
            // Told again, and finally, by `Call`.
            Delta::CallBegin { .. } | Delta::CallArguments { .. } | Delta::CallDropped { .. } => {
                Ok(())
            }
        }
    }

    fn reasoning(&mut self, text: &str) -> Result<(), Failure> {
        if !text.is_empty() {
            self.aside = Aside::Open;
        }
        self.aside(text)
    }

    fn close_aside(&mut self) -> Result<(), Failure> {
        if self.aside == Aside::Open {
            self.aside = Aside::Closed;
            self.aside("\n\n")?;
        }
        Ok(())
    }

    /// Shows what is not the answer, to people only.
    fn aside(&mut self, text: &str) -> Result<(), Failure> {
        let terminal = self.lines.terminal;
        let visible = terminal::visible(text);
        if terminal.stdout || terminal.stderr {
            self.lines.column.take(&visible);
        }
        let blank = text.trim().is_empty();
        let styled = if blank { visible } else { terminal.dimmed(&visible) };
        match (terminal.stdout, terminal.stderr) {
            (true, _) => terminal::print(&styled),
            (false, true) => terminal::put(&mut std::io::stderr().lock(), &styled),
            (false, false) => Ok(()),
        }
    }
}

impl Show for Conversation<'_> {
    fn id(&mut self, id: u32) -> Result<(), Failure> {
        self.reply.push(id)?.into_iter().try_for_each(|delta| self.delta(delta))
    }

    fn stop(&mut self, id: u32) -> Result<(), Failure> {
        self.id(id)
    }

    fn finish(&mut self, cut: Cut) -> Result<(), Failure> {
        self.reply.finish(cut).into_iter().try_for_each(|delta| self.delta(delta))?;
        self.lines.end()
    }

    fn column(&self) -> Column {
        self.lines.column
    }
}
