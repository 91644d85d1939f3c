//! What a chat means, in whatever dialect it was asked for.

use deltafin_text::chat::{Message, Request};
use deltafin_text::reply::ReplyOptions;
use serde_json::Value;

use super::choice::Choice;
use super::effort::Thinking;
use super::tools::Names;
use super::{Options, form};
use crate::guide::Form;

/// What a chat asks for.
#[derive(Debug)]
pub(crate) struct Chat {
    pub(crate) request: Request,
    /// Where each result of a call names it, in the order of the messages.
    pub(crate) results: Vec<String>,
    pub(crate) reply: ReplyOptions,
    /// What the reply must look like, if that is not left to the model.
    pub(crate) form: Option<Form>,
    pub(crate) options: Options,
}

/// What is rendered, and what was understood on the way.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) request: Request,
    /// Where each result of a call names it, in the order of the messages.
    pub(crate) results: Vec<String>,
    thinking: Thinking,
    tools: Names,
    choice: Choice,
    schema_path: &'static str,
}

/// What was said.
#[derive(Debug, Default)]
pub(super) struct Talk {
    pub(super) messages: Vec<Message>,
    /// Where each result of a call names it, in the order of the messages.
    pub(super) results: Vec<String>,
}

/// Tools of the whole conversation.
#[derive(Debug)]
pub(super) struct Tools {
    /// As the model reads them.
    pub(super) rendered: Vec<Value>,
    /// Those that messages declare are among them.
    pub(super) names: Names,
    pub(super) choice: Choice,
}

/// The form of the answer.
#[derive(Debug)]
pub(super) struct Format {
    /// As chats say it; nothing for plain text.
    pub(super) wanted: Option<Value>,
    /// Where the schema stands in the request.
    pub(super) schema_path: &'static str,
}

impl Conversation {
    pub(super) fn new(
        talk: Talk,
        tools: Tools,
        format: Format,
        thinking: Thinking,
    ) -> Conversation {
        let request = Request {
            tools: tools.rendered,
            tool_choice: tools.choice.rendered,
            response_format: format.wanted,
            thinking: thinking.effort.is_some(),
            ..Request::new(talk.messages)
        };
        let request = match thinking.effort {
            Some(effort) => request.with_effort(effort),
            None => request,
        };
        let Tools { names: tools, choice, .. } = tools;
        let (results, schema_path) = (talk.results, format.schema_path);
        Conversation { request, results, thinking, tools, choice, schema_path }
    }

    /// With the limits of its reply.
    pub(super) fn ask(self, stop: Vec<String>, parallel: bool, options: Options) -> Chat {
        let Conversation { request, results, thinking, tools, choice, schema_path } = self;
        let reply = ReplyOptions {
            stop,
            parallel_tool_calls: parallel,
            ..ReplyOptions::for_request(&request)
        };
        let form = form::of(&request, &tools, &choice, parallel, schema_path);
        let mapped_effort = thinking.effort.filter(|_| thinking.mapped);
        Chat { request, results, reply, form, options: Options { mapped_effort, ..options } }
    }
}
