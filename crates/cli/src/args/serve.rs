//! `serve`: answer over HTTP.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use deltafin_engine::RequestMemory;
use deltafin_server::Settings;

use super::Usage;
use super::engine::EngineArgs;
use super::origin::origin;
use super::replies::ReplyArgs;
use super::size::{Count, Positive};
use super::sleep::SleepArgs;
use super::snapshots::{SnapshotArgs, SnapshotDisk};

/// Answer OpenAI's and Anthropic's clients over HTTP
///
/// One request is answered at a time, others wait in a queue. The port is bound before the
/// weights are read; until they are, /health says 503. An interrupt or a termination signal lets
/// the running reply finish within --shutdown-grace, and the program ends with 0; a second one ends
/// it at once.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Address to listen on; beyond this machine only with a reason, and a key
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,

    /// Port to listen on; 0 lets the system choose
    #[arg(long, value_name = "N", default_value_t = 8080)]
    port: u16,

    /// Key that clients must send as 'Authorization: Bearer KEY'; may be repeated
    #[arg(
        long = "api-key",
        value_name = "KEY",
        env = "DELTAFIN_API_KEY",
        hide_env_values = true,
        value_parser = key
    )]
    api_keys: Vec<String>,

    /// File with keys of the same kind, one on each line
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,

    /// Another name that clients may use for the model; may be repeated
    #[arg(long = "alias", value_name = "NAME")]
    aliases: Vec<String>,

    /// Let requests ask for chance: temperature, top_p, top_k, min_p and seed are honoured
    ///
    /// Without it the most likely token is taken, whatever a request says. With it, a request that
    /// gives none of them is still answered so; the same seed gives the same text on every machine.
    #[arg(long)]
    allow_sampling: bool,

    #[command(flatten)]
    replies: ReplyArgs,

    /// Requests that may wait while one is answered; further ones get 429
    #[arg(long, value_name = "N", default_value = "4")]
    queue: Count,

    /// Seconds for which a reply that has ended is sent again to who asks for the same; 0 for none
    ///
    /// A request that equals one which is waiting or being answered always shares its reply.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    replay: u32,

    /// Origin whose web pages may ask, such as http://localhost:3000, or '*'; may be repeated
    #[arg(long = "cors-origin", value_name = "ORIGIN", value_parser = origin)]
    cors_origins: Vec<String>,

    /// Tokens of a chat reply when the request sets no limit; to the end of the context by default
    #[arg(long, value_name = "N")]
    default_max_tokens: Option<Positive>,

    /// Bytes of a request at most; 32M by default, less where memory is short
    ///
    /// What requests take while they come and are read is a part of --memory: 17 times as much. By
    /// default that is a sixteenth at most, but enough for bodies of 256K.
    #[arg(long, value_name = "BYTES")]
    max_body: Option<Positive>,

    /// Seconds of silence after which a connection gets a sign of life; 0 for none
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    ping_interval: u32,

    /// Seconds the running reply may take to finish when the server is asked to end
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    shutdown_grace: u32,

    /// What standard error gets: lines for people, or an object of JSON on each
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,

    #[command(flatten)]
    sleep: SleepArgs,

    #[command(flatten)]
    snapshots: SnapshotArgs,

    #[command(flatten)]
    engine: EngineArgs,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// A server to run.
#[derive(Debug)]
pub(crate) struct Serve {
    /// Where to listen.
    pub(crate) address: SocketAddr,
    /// How to answer; the model's name is for the command to fill in.
    pub(crate) settings: Settings,
    /// Where more keys stand, one on each line.
    pub(crate) api_key_file: Option<PathBuf>,
    /// The log is for machines.
    pub(crate) log_json: bool,
    /// Whether the machine may go to sleep meanwhile.
    pub(crate) may_sleep: bool,
    /// What outlasts it.
    pub(crate) snapshots: SnapshotDisk,
    /// The engine to answer with.
    pub(crate) engine: EngineArgs,
}

/// A key that no client could send would lock everybody out, and an empty one nobody.
pub(crate) fn key(typed: &str) -> Result<String, String> {
    match !typed.is_empty() && typed.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(typed.to_owned()),
        false => Err("a key is visible ASCII characters without blanks".to_owned()),
    }
}

impl ServeArgs {
    pub(super) fn meaning(self) -> Result<Serve, Usage> {
        if self.engine.json || self.engine.stats {
            let message =
                "a server has no use for --json and --stats (DELTAFIN_JSON, DELTAFIN_STATS)";
            return Err(Usage(format!("{message}: see /metrics")));
        }
        let settings = Settings {
            aliases: self.aliases,
            api_keys: self.api_keys,
            allow_sampling: self.allow_sampling,
            queue: self.queue.0,
            replay: Duration::from_secs(self.replay.into()),
            cors_origins: self.cors_origins,
            default_max_tokens: self.default_max_tokens.map(|count| count.0.get()),
            ping_interval: Duration::from_secs(self.ping_interval.into()),
            shutdown_grace: Duration::from_secs(self.shutdown_grace.into()),
            ..self.replies.over(Settings::default())
        };
        let address = SocketAddr::new(self.host, self.port);
        let log_json = self.log_format == LogFormat::Json;
        let settings = match self.max_body {
            Some(bytes) => Settings { max_body_bytes: bytes.0.get(), ..settings },
            None => settings,
        };
        let requests = request_memory(&settings, self.max_body.is_some());
        let engine = self.engine.with_snapshots(self.snapshots.memory()).with_requests(requests);
        let (api_key_file, snapshots) = (self.api_key_file, self.snapshots.disk());
        let may_sleep = self.sleep.allow_sleep;
        Ok(Serve { address, settings, api_key_file, log_json, may_sleep, snapshots, engine })
    }
}

/// The memory for requests. Of bodies that were asked for there is no question.
fn request_memory(settings: &Settings, is_asked: bool) -> RequestMemory {
    let (least, most) = settings.request_memory().into_inner();
    let least = if is_asked { most } else { least };
    RequestMemory { least, most, position: settings.position_memory() }
}
