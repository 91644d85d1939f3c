//! What can be set on a server. Only `allow_sampling` and `default_effort` change a token.

use std::time::Duration;

use deltafin_text::Effort;

/// Under which names reasoning is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningField {
    /// Under both that clients know; none is known to join them.
    #[default]
    Both,
    /// `reasoning_content` alone.
    ReasoningContent,
    /// `reasoning` alone.
    Reasoning,
    /// It is not told.
    None,
}

/// Settings with the defaults that `serve` has.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the model.
    pub model: String,
    /// Other names that are accepted for it.
    pub aliases: Vec<String>,
    /// Keys of which every request must carry one; with none, all may enter.
    pub api_keys: Vec<String>,
    /// Whether requests may ask for ids by chance; otherwise the most likely ones are taken, whatever
    /// they say.
    pub allow_sampling: bool,
    /// How much is thought where a chat does not say; nothing is if `None`.
    pub default_effort: Option<Effort>,
    /// Under which names chats tell reasoning.
    pub reasoning_field: ReasoningField,
    /// Members that would change the model's choice in ways that are not offered are ignored, not refused.
    pub lenient: bool,
    /// Members that nobody knows are refused, not ignored.
    pub strict: bool,
    /// Requests that may wait while one is answered.
    pub queue: usize,
    /// How long a reply that has ended is told again to who asks for the same; not at all when zero. One
    /// that is being generated is always shared.
    pub replay: Duration,
    /// Origins whose pages may ask; `*` for all.
    pub cors_origins: Vec<String>,
    /// Connections at a time, at least one. One more ends one that is idle, or is told to come back.
    pub connections: usize,
    /// Bytes of a request's body.
    pub max_body_bytes: usize,
    /// Tokens of a chat reply when the request does not say; to the end of the context if `None`.
    pub default_max_tokens: Option<usize>,
    /// Silence after which a connection gets a sign of life; none when zero.
    pub ping_interval: Duration,
    /// Signs of life in chats and completions are chunks that say nothing as well, for clients that take
    /// comments for silence.
    pub ping_chunks: bool,
    /// How long a plain response may still choose its status.
    pub status_hold: Duration,
    /// A client that takes nothing of its answer for so long is gone.
    pub stall_limit: Duration,
    /// A client that has finished sending is gone, also where it waits for a plain response.
    pub cancel_on_eof: bool,
    /// How long a connection may be idle between requests.
    pub idle_limit: Duration,
    /// How long the head of a request may take from its first byte.
    pub head_limit: Duration,
    /// How long a pause within a request's body may be.
    pub body_pause_limit: Duration,
    /// How far a request's body may fall behind, or nothing be taken of an answer, while others want the memory
    /// it takes.
    pub body_lag_limit: Duration,
    /// How long the running generation may go on after the server was asked to end.
    pub shutdown_grace: Duration,
    /// Called when much memory was freed, for an allocator that would keep it.
    pub freed: fn(),
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            model: "kimi-k3".to_owned(),
            aliases: Vec::new(),
            api_keys: Vec::new(),
            allow_sampling: false,
            default_effort: Some(Effort::default()),
            reasoning_field: ReasoningField::Both,
            lenient: false,
            strict: false,
            queue: 4,
            replay: Duration::from_secs(60),
            cors_origins: Vec::new(),
            connections: 256,
            max_body_bytes: 32 << 20,
            default_max_tokens: None,
            ping_interval: Duration::from_secs(15),
            ping_chunks: false,
            status_hold: Duration::from_secs(20),
            stall_limit: Duration::from_secs(60),
            cancel_on_eof: false,
            idle_limit: Duration::from_secs(75),
            head_limit: Duration::from_secs(30),
            body_pause_limit: Duration::from_secs(60),
            body_lag_limit: Duration::from_secs(2),
            shutdown_grace: Duration::from_secs(60),
            freed: || {},
        }
    }
}
