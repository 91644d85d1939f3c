//! A conversation into the exact prompt.
//!
//! Promises: [`render`] yields the publisher's segments in the publisher's order, or an error;
//! a segment is markup only when it is a literal of this crate or a checked [`ImageBlock`].
//!
//! ```
//! use deltafin_text::chat::{Message, Request, rendered_text};
//!
//! let request = Request::new(vec![Message::user("Hi")]);
//! let prompt = deltafin_text::render(&request)?;
//! assert!(rendered_text(&prompt).ends_with("<|open|>think<|sep|>"));
//! # Ok::<(), deltafin_text::ChatError>(())
//! ```

mod content;
mod error;
mod message;
mod options;
mod render;
mod results;
mod segment;
pub mod tag;
mod tools;
mod turns;

pub use content::{Content, IMAGE_PLACEHOLDER, ImageBlock, Part};
pub use error::ChatError;
pub use message::{Message, ToolCall};
pub use options::{Effort, ToolChoice};
pub use render::render;
pub use segment::{Segment, rendered_text};
pub use turns::{Places, Turns};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// What to render. Fields missing from the JSON form take the values of [`Request::default`], but for
/// `messages`: what has none is most likely something else.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Request {
    /// The conversation, oldest first.
    #[serde(deserialize_with = "not_null")]
    pub messages: Vec<Message>,
    /// Declarations of the tools, as JSON objects; they are rendered but not interpreted.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tools: Vec<Value>,
    /// Whether the model may, must or must not call tools.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tool_choice: ToolChoice,
    /// An object whose `type` is `text`, `json_object` or `json_schema`.
    #[serde(default)]
    pub response_format: Option<Value>,
    /// Whether the reply begins in the think channel.
    #[serde(default = "yes")]
    pub thinking: bool,
    /// How much to think: see [`Effort`]. Nothing means no effort message; ignored when thinking
    /// is off.
    #[serde(default)]
    pub thinking_effort: Option<String>,
    /// Image support: one block for each image. Without it, placeholders are plain text.
    #[serde(default)]
    pub image_prompts: Option<Vec<ImageBlock>>,
    /// Whether the prompt ends by opening the assistant's message.
    #[serde(default = "yes")]
    pub add_generation_prompt: bool,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            tools: Vec::new(),
            tool_choice: ToolChoice::default(),
            response_format: None,
            thinking: true,
            thinking_effort: None,
            image_prompts: None,
            add_generation_prompt: true,
        }
    }
}

impl Request {
    /// A conversation with thinking on and no effort message.
    #[must_use]
    pub fn new(messages: Vec<Message>) -> Self {
        Self { messages, ..Self::default() }
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// When the bytes are not JSON, a field has the wrong form, or there are no `messages`.
    pub fn from_json(json: &[u8]) -> Result<Self, ChatError> {
        if crate::has_byte_order_mark(json) {
            let reason = "it begins with a byte order mark; save it as UTF-8 without one";
            return Err(ChatError::Request { reason: reason.to_owned() });
        }
        if json.trim_ascii_start().first() != Some(&b'{') {
            let reason = "a JSON object is expected, such as {\"messages\": […]}".to_owned();
            return Err(ChatError::Request { reason });
        }
        serde_json::from_slice(json)
            .map_err(|e| ChatError::Request { reason: crate::one_line(&e.to_string()) })
    }

    /// Sets how much to think.
    #[must_use]
    pub fn with_effort(mut self, effort: Effort) -> Self {
        self.thinking_effort = Some(effort.as_str().to_owned());
        self
    }

    /// Whether any message has an image part, which needs image support.
    #[must_use]
    pub fn has_images(&self) -> bool {
        self.messages.iter().any(|message| message.content.has_images())
    }
}

fn yes() -> bool {
    true
}

/// JSON `null` means the same as a missing field, here that the conversation is missing.
fn not_null<'de, D>(deserializer: D) -> Result<Vec<Message>, D::Error>
where
    D: Deserializer<'de>,
{
    use serde::de::Error as _;
    let messages: Option<_> = Option::deserialize(deserializer)?;
    messages.ok_or_else(|| D::Error::missing_field("messages"))
}

/// JSON `null` means the same as a missing field.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
