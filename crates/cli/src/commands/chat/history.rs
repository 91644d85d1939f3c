//! What was said so far, and what a request makes of it.

use std::io::Write as _;
use std::path::Path;

use deltafin_text::Effort;
use deltafin_text::chat::{Message, Part, Request};
use serde_json::{Map, Value, json};

use crate::args::Style;
use crate::failure::Failure;
use crate::new_file::{NewFile, Unfinished};

/// A conversation: an optional system message, then turns.
#[derive(Debug)]
pub(super) struct History {
    system: Option<String>,
    effort: Option<Effort>,
    turns: Vec<Message>,
}

impl History {
    pub(super) fn new(style: &Style) -> History {
        History { system: style.system.clone(), effort: style.effort, turns: Vec::new() }
    }

    pub(super) fn push(&mut self, message: Message) {
        self.turns.push(message);
    }

    /// How many messages there are, the system message not counted.
    pub(super) fn turns(&self) -> usize {
        self.turns.len()
    }

    /// Forgets what came after so many messages.
    pub(super) fn truncate(&mut self, turns: usize) {
        self.turns.truncate(turns);
    }

    /// Whether there is a system message.
    pub(super) fn has_system(&self) -> bool {
        self.system.is_some()
    }

    /// Forgets the turns.
    pub(super) fn reset(&mut self) {
        self.turns.clear();
    }

    /// Begins anew with another system message, or with none.
    pub(super) fn set_system(&mut self, text: &str) {
        self.system = (!text.is_empty()).then(|| text.to_owned());
        self.reset();
    }

    /// What is rendered for the next reply.
    pub(super) fn request(&self) -> Request {
        let request = Request::new(self.messages().collect());
        match self.effort {
            Some(effort) => request.with_effort(effort),
            None => Request { thinking: false, ..request },
        }
    }

    fn messages(&self) -> impl Iterator<Item = Message> {
        let system = self.system.as_deref().map(Message::system);
        system.into_iter().chain(self.turns.iter().cloned())
    }

    /// Writes the conversation in the form that a request has; gives how many messages that were.
    pub(super) fn save(&self, path: &Path) -> Result<usize, Failure> {
        let messages: Vec<Value> = self.messages().map(|message| message_json(&message)).collect();
        let request = match self.effort {
            Some(effort) => json!({ "messages": &messages, "thinking_effort": effort.as_str() }),
            None => json!({ "messages": &messages, "thinking": false }),
        };
        // An older conversation of that name stays until this one is whole.
        let mut file = NewFile::create(path, &Unfinished::default())?;
        file.write_all(format!("{request:#}\n").as_bytes()).map_err(|e| file.cannot_write(&e))?;
        file.finish()?;
        Ok(messages.len())
    }
}

fn message_json(message: &Message) -> Value {
    let mut members = Map::new();
    members.insert("role".to_owned(), json!(message.role));
    if !message.reasoning_content.is_empty() {
        members.insert("reasoning_content".to_owned(), json!(message.reasoning_content));
    }
    members.insert("content".to_owned(), json!(text(message)));
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call.id, "type": "function", "function": function })
        });
        members.insert("tool_calls".to_owned(), calls.collect());
    }
    Value::Object(members)
}

fn text(message: &Message) -> String {
    let parts = message.content.0.iter().map(|part| match part {
        Part::Text(text) => text.as_str(),
        Part::Image => "",
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_conversation_renders_as_it_did() {
        let style = Style { system: Some("Be brief.".to_owned()), effort: Some(Effort::Low) };
        let mut history = History::new(&style);
        history.push(Message::user("Hi"));
        let mut answer = Message::assistant("Hello!");
        answer.reasoning_content = "A greeting.".to_owned();
        history.push(answer);
        history.push(Message::user("Bye"));

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.json");
        history.save(&path).unwrap();
        let saved = Request::from_json(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(
            deltafin_text::render(&saved).unwrap(),
            deltafin_text::render(&history.request()).unwrap()
        );
    }
}
