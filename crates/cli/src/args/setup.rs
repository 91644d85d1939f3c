//! `setup`: a checkpoint, from where it is to where it runs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use deltafin_fetch::{FetchError, Layout, Source, Spine, Wanted};

use super::engine::ModelArg;
use super::layers::Layers;
use super::network::{CacheLimit, HubArgs, JOBS_MOST};
use super::size::{Bounded, Positive};
use super::sleep::SleepArgs;
use super::{Given, Usage};

const SOURCE_HELP: &str = "Where to get it from: hf:OWNER/NAME[@REVISION], https://HOST/PATH/, \
     s3://BUCKET/PREFIX/, or a folder [default: where the folder came from, or hf:moonshotai/Kimi-K3]";

/// Get a checkpoint, or go on getting it
///
/// Files are fetched in pieces, several at once, and held against the digests that the source gives; a
/// file has its name only when it is proven. The command can be stopped at any moment, by whatever
/// means: run again, it goes on where it was. The folder is remembered, so that every command finds it.
///
/// Without --full and --stream all of it comes where it fits on the drive, else all but the experts, and a
/// folder that was begun goes on as it was. --full makes a streamed checkpoint whole in place.
///
/// A checkpoint that is on this machine already, in a folder, on a mounted share or in the hub's cache,
/// is checked and used where it is.
///
/// A token for the hub is taken from HF_TOKEN, or from where the hub's own tools keep it, and sent to
/// the hub alone. Where buckets are and who asks is read from AWS_ENDPOINT_URL, AWS_REGION,
/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and their kin; without a key requests are not signed.
/// HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE are heeded.
#[derive(Args, Debug)]
pub(crate) struct SetupArgs {
    /// Folder to install into
    ///
    /// Without it: the one remembered from the last setup, or else one named after the checkpoint below
    /// the folder for this user's data.
    #[arg(long, value_name = "DIR", env = "DELTAFIN_MODEL", hide_env_values = true)]
    model: Option<ModelArg>,

    // As text: the parser's own refusals show what was typed, and there may be a password in it.
    #[arg(long, value_name = "SOURCE", help = SOURCE_HELP)]
    source: Option<String>,

    /// Get the whole checkpoint, also where experts were to come later
    #[arg(long, conflicts_with_all = ["layers", "stream"])]
    full: bool,

    /// Get all but the experts; these come over the network when they are needed, and stay
    #[arg(long, conflicts_with = "layers")]
    stream: bool,

    /// Get only what these layers need, and what is in none; the rest can follow later, and the drafter with it
    ///
    /// Run again without a mode it goes on with these; --full gets the rest, and --stream all but the experts.
    /// Of a model that is here and streams its experts, these layers' are fetched, as by 'deltafin warm --layers'; it
    /// runs all the while. Of a whole model nothing is to be fetched. On a drive without holes in files all but the experts
    /// comes first, and the rest when it is needed.
    #[arg(long, value_name = "FIRST-LAST")]
    layers: Option<Layers>,

    /// How experts that come later are to lie on the drive
    ///
    /// auto puts them into the shards they are of, whose files have holes for the others; on a drive without holes in
    /// files (exFAT, FAT, some shares) into one file for each layer, as layers does on any drive. A folder that was
    /// begun stays as it is; --full makes the same files of both.
    #[arg(long, value_enum, default_value = "auto", conflicts_with = "full")]
    layout: LayoutArg,

    /// How what every token uses is to lie
    ///
    /// int8 takes half the bytes, on the drive and for each token, and changes what the model computes a little
    /// ('deltafin eval compare' says how much). Each layer is packed when it is here and proven, and its released
    /// bytes are given back to the drive; --spine bf16 later fetches them again.
    #[arg(long, value_enum, default_value = "auto")]
    spine: SpineArg,

    /// Keep the released bytes beside the int8 ones, so that both can run
    #[arg(long)]
    keep_bf16: bool,

    /// Where to get the drafter from, a small model that guesses what the large one will say: written as for
    /// --source [default: the one published for Kimi K3, or SOURCE/drafter]
    #[arg(long, value_name = "SOURCE")]
    drafter: Option<String>,

    /// Get no drafter
    #[arg(long, conflicts_with = "drafter")]
    no_drafter: bool,

    /// Say what would be fetched, and how large it is; fetch nothing
    #[arg(long)]
    dry_run: bool,

    /// Requests on their way at once
    #[arg(long, value_name = "N", default_value = "8")]
    jobs: Bounded<JOBS_MOST>,

    /// At most so many bytes a second; K, M and G are powers of 1024
    #[arg(long, value_name = "RATE")]
    limit_rate: Option<Positive>,

    /// Seconds to go on asking a source that gives nothing; kept for when the model runs
    ///
    /// Without it: 600 here, 300 when the model runs, and a few for --dry-run. At least two tries are made.
    #[arg(long, value_name = "SECONDS")]
    patience: Option<u32>,

    /// Most room on the drive for experts that come over the network, or none for no limit; kept for when the model
    /// runs, where those used least make room for others
    #[arg(long, value_name = "SIZE")]
    cache_limit: Option<CacheLimit>,

    #[command(flatten)]
    hub: HubArgs,

    /// Print events as lines of JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    sleep: SleepArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SpineArg {
    /// As the folder was begun; in a new one, as released
    Auto,
    /// As released
    Bf16,
    /// Packed as signed bytes with one scale per row
    Int8,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LayoutArg {
    /// In the shards where files can have holes, else layer by layer
    Auto,
    /// In one file for each layer
    Layers,
}

/// Which drafter comes with a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DrafterChoice {
    /// The one that belongs to the source, if one is known.
    Usual,
    /// This one.
    Named(Source),
    /// None.
    None,
}

/// A checkpoint to get.
#[derive(Debug)]
pub(crate) struct Setup {
    /// Into which folder, if one was named.
    pub(crate) dir: Option<PathBuf>,
    /// Who named it.
    pub(crate) given: Given,
    /// From where, if that was said.
    pub(crate) source: Option<Source>,
    /// How much of it.
    pub(crate) wanted: Wanted,
    /// How what every token uses is to lie.
    pub(crate) spine: Spine,
    /// How experts that come later are to lie.
    pub(crate) layout: Layout,
    /// Which drafter comes with it.
    pub(crate) drafter: DrafterChoice,
    /// Whether only to say what would be done.
    pub(crate) is_dry_run: bool,
    /// Requests on their way at once.
    pub(crate) jobs: usize,
    /// Bytes a second, if they are bounded.
    pub(crate) bytes_per_second: Option<u64>,
    /// Seconds to ask a source that gives nothing, if that was said.
    pub(crate) patience: Option<u32>,
    /// The most bytes of experts that come, if something was said of that.
    pub(crate) cache_limit: Option<CacheLimit>,
    /// The hub's address, if not the usual one.
    pub(crate) endpoint: Option<String>,
    /// Whether for machines.
    pub(crate) json: bool,
    /// Whether the machine may go to sleep meanwhile.
    pub(crate) may_sleep: bool,
}

impl SetupArgs {
    pub(super) fn meaning(self, given: Given) -> Result<Setup, Usage> {
        let dir = match self.model {
            Some(ModelArg::Demo) => {
                return Err(Usage(
                    "the demo is inside this program; --model takes a folder".to_owned(),
                ));
            }
            Some(ModelArg::Directory(dir)) => Some(dir),
            None => None,
        };
        let source = self.source.map(|typed| typed.parse()).transpose();
        let spine = match (self.spine, self.keep_bf16) {
            (SpineArg::Int8, keeps_released) => Spine::Int8 { keeps_released },
            (_, true) => {
                return Err(Usage(
                    "--keep-bf16 keeps the released bytes beside int8 ones: give --spine int8, too"
                        .to_owned(),
                ));
            }
            (SpineArg::Auto, false) => Spine::AsBegun,
            (SpineArg::Bf16, false) => Spine::Released,
        };
        let drafter = match (self.no_drafter, self.drafter) {
            (true, _) => DrafterChoice::None,
            (false, Some(typed)) => {
                let source = typed.parse();
                DrafterChoice::Named(source.map_err(|error: FetchError| Usage(error.to_string()))?)
            }
            (false, None) => DrafterChoice::Usual,
        };
        Ok(Setup {
            dir,
            given,
            spine,
            layout: match self.layout {
                LayoutArg::Auto => Layout::Auto,
                LayoutArg::Layers => Layout::Layers,
            },
            drafter,
            source: source.map_err(|error: FetchError| Usage(error.to_string()))?,
            wanted: match (self.full, self.stream, self.layers) {
                (true, _, _) => Wanted::All,
                (_, true, _) => Wanted::Spine,
                (_, _, Some(layers)) => Wanted::Layers(layers.0),
                (false, false, None) => Wanted::Fitting,
            },
            is_dry_run: self.dry_run,
            jobs: self.jobs.0.get(),
            bytes_per_second: self.limit_rate.map(|rate| rate.0.get() as u64),
            patience: self.patience,
            cache_limit: self.cache_limit,
            endpoint: self.hub.endpoint,
            json: self.json,
            may_sleep: self.sleep.allow_sleep,
        })
    }
}
