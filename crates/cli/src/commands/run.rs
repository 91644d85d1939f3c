//! `run`: one prompt, one continuation.

use deltafin_engine::{Counters, Finish, Limits};
use deltafin_text::chat::{Message, Request};
use deltafin_text::reply::{Channel, ReplyOptions};
use serde_json::Value;

use super::generate::{self, Generated};
use super::report;
use crate::args::{Given, IdsSource, Prompt, Run, Style};
use crate::awake;
use crate::failure::Failure;
use crate::input::Source;
use crate::interrupt::Interrupts;
use crate::load::Loaded;
use crate::new_file::Unfinished;
use crate::profile;
use crate::prompt;
use crate::reply::{Conversation, Ids, Nothing, Show, Text};
use crate::stats::Summary;
use crate::terminal::{self, Terminal};
use crate::watchers::{self, Watchers};

/// Does it.
pub(crate) fn run(run: Run, given: Given) -> Result<(), Failure> {
    let unread = Unread::open(&run.prompt)?;
    watchers::check(&run.watched)?;
    let unfinished = Unfinished::default();
    let interrupts = interrupts(&run, &unfinished)?;
    let loaded = Loaded::open(&run.engine, given)?;
    watchers::check_beside(&run.watched, loaded.folders())?;
    let (prompt, channel) = unread.ids(&loaded)?;
    let terminal = Terminal::detect();
    let mut show = shown(&run, &loaded, channel, terminal)?;
    let limits =
        Limits { max_new: run.max_new, stop: &loaded.stop_ids, ignore_stop: run.ignore_eos };
    let mut session = loaded.engine.session();
    let watchers = Watchers::begin(&run.watched, &loaded.engine, &mut session, &unfinished)?;
    // Not before: what it takes must not decide whether a model fits.
    let awake = awake::keep(run.may_sleep);
    let generated =
        generate::run(&mut session, &prompt, limits, &mut *show, &interrupts, terminal)?;
    drop(awake);

    if channel.is_some() {
        generate::say_if_cut(&generated, run.max_new);
    }
    let stats = &generated.outcome.stats;
    let summary = Summary::new(&loaded.engine, 0, stats, &Counters::default());
    let profile = watchers.finish()?;
    if run.engine.json {
        let mut report = for_machines(&run, &loaded, channel, &generated, &summary)?;
        if let Some(profile) = &profile {
            report["profile"] = profile::json(profile);
        }
        terminal::print_line(&report.to_string())?;
    } else {
        if run.engine.stats {
            terminal::note(&summary.words());
        }
        if let Some(profile) = &profile {
            terminal::note(&profile::words(profile));
        }
    }
    match generated.outcome.finish {
        Finish::Cancelled => Err(Failure::Interrupted),
        Finish::Stop(_) | Finish::Length => Ok(()),
    }
}

/// The parts of a reply, or a text as it came.
fn for_machines(
    run: &Run,
    loaded: &Loaded,
    channel: Option<Channel>,
    generated: &Generated,
    summary: &Summary,
) -> Result<Value, Failure> {
    let tokenizer = loaded.tokenizer_if_any().filter(|_| !run.ids);
    match (channel, tokenizer) {
        (Some(channel), Some(tokenizer)) => {
            let answer = report::answer(tokenizer, channel, generated)?;
            Ok(report::of_reply(&answer, generated, summary))
        }
        (_, tokenizer) => Ok(report::of_text(tokenizer, generated, summary)?),
    }
}

/// Files in the making do not outlive the process.
fn interrupts(run: &Run, unfinished: &Unfinished) -> Result<Interrupts, Failure> {
    let at_the_end = unfinished.clone();
    match run.watched.is_recorded() {
        true => Interrupts::install_tidying(move || at_the_end.remove_for_good()),
        false => Interrupts::install(),
    }
}

/// The prompt before anything is loaded: a missing file should not cost a wait. How much of it there is
/// use for is known only afterwards.
enum Unread<'r> {
    Ids(IdsSource),
    Text(Source),
    Chat(Source, &'r Style),
}

impl<'r> Unread<'r> {
    fn open(prompt: &'r Prompt) -> Result<Unread<'r>, Failure> {
        Ok(match prompt {
            Prompt::Ids(ids) => Unread::Ids(ids.open()?),
            Prompt::Text(typed) => Unread::Text(source(typed)?),
            Prompt::Chat(typed, style) => Unread::Chat(source(typed)?, style),
        })
    }

    /// The ids, and the channel they leave open if they are a conversation.
    fn ids(self, loaded: &Loaded) -> Result<(Vec<u32>, Option<Channel>), Failure> {
        Ok(match self {
            Unread::Ids(ids) => (prompt::ids(ids, &loaded.engine)?, None),
            Unread::Text(source) => {
                let (ids, bytes) = prompt::text(source, loaded)?;
                some(bytes)?;
                (ids, None)
            }
            Unread::Chat(source, style) => {
                let said = source.text(&prompt::message_bound(loaded, "leave --chat out")?)?;
                some(said.len() as u64)?;
                let request = request(said, style);
                let channel = ReplyOptions::for_request(&request).channel;
                (prompt::chat(&request, loaded)?, Some(channel))
            }
        })
    }
}

fn source(typed: &str) -> Result<Source, Failure> {
    some(typed.len() as u64)?;
    Ok(Source::prompt(typed))
}

fn some(bytes: u64) -> Result<(), Failure> {
    match bytes {
        0 => Err(Failure::new("the prompt is empty: give at least one character")),
        _ => Ok(()),
    }
}

fn request(user: String, style: &Style) -> Request {
    let system = style.system.iter().map(|text| Message::system(text.as_str()));
    let request = Request::new(system.chain([Message::user(user)]).collect());
    match style.effort {
        Some(effort) => request.with_effort(effort),
        None => Request { thinking: false, ..request },
    }
}

fn shown<'t>(
    run: &Run,
    loaded: &'t Loaded,
    channel: Option<Channel>,
    terminal: Terminal,
) -> Result<Box<dyn Show + 't>, Failure> {
    Ok(match channel {
        _ if run.engine.json => Box::new(Nothing),
        _ if run.ids => Box::new(Ids::new(terminal)),
        Some(channel) => Box::new(Conversation::new(loaded.tokenizer()?, channel, terminal)),
        None => Box::new(Text::new(loaded.tokenizer()?, terminal)),
    })
}
