//! Why a conversation cannot be rendered.

use thiserror::Error;

/// A request that is refused. Messages are counted from 0, as in the request's array.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The JSON form could not be read.
    #[error("the chat request is not readable: {reason}")]
    Request {
        /// What the parser said, with the place.
        reason: String,
    },
    /// The effort is not one the format has.
    #[error("thinking_effort {given:?} is unknown; use low, high or max")]
    Effort {
        /// The value given.
        given: String,
    },
    /// A message's role is not one the format has.
    #[error(
        "messages[{index}] has the role {role:?}; use system, developer, user, assistant or tool"
    )]
    Role {
        /// The message.
        index: usize,
        /// The role given.
        role: String,
    },
    /// A tool call without a function name.
    #[error("messages[{index}].tool_calls[{call}] has no function name; add one")]
    CallName {
        /// The message.
        index: usize,
        /// The call, from 0.
        call: usize,
    },
    /// A tool call whose arguments are JSON but not an object.
    #[error(
        "messages[{index}].tool_calls[{call}] has arguments that are not a JSON object; wrap them in one"
    )]
    CallArguments {
        /// The message.
        index: usize,
        /// The call, from 0.
        call: usize,
    },
    /// A tool result that belongs to no known call and names no tool.
    #[error(
        "messages[{index}] is a tool result without a tool name; add tool_call_id of an earlier call, or name"
    )]
    ToolName {
        /// The message.
        index: usize,
    },
    /// The response format is not one the format has.
    #[error("response_format: {reason}")]
    ResponseFormat {
        /// What is wrong and what is accepted.
        reason: &'static str,
    },
    /// More images are placed than were given.
    #[error(
        "the messages place more images than the {given} given in image_prompts; give one for each"
    )]
    TooFewImages {
        /// The number given.
        given: usize,
    },
    /// Fewer images are placed than were given.
    #[error(
        "image_prompts gives {given} images but the messages place {placed}; give one for each"
    )]
    TooManyImages {
        /// The number given.
        given: usize,
        /// The number placed.
        placed: usize,
    },
}
