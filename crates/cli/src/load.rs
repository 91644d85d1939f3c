//! From a model's name to what a command works with: an engine, a tokenizer, stop ids.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use deltafin_engine::{Engine, EngineError, EngineOptions};
use deltafin_kernels::Isa;
use deltafin_store::{Checkpoint, DeclaredIds, TokenizerFiles};
use deltafin_text::Tokenizer;
use deltafin_text::tokenizer::{RANK_FILE_BYTES_MAX, SPECIAL_TOKENS, TOKENIZER_CONFIG_BYTES_MAX};

use crate::args::{EngineArgs, Given, Network};
use crate::built_in;
use crate::failure::Failure;
use crate::learned;
use crate::model_choice::{self, Model};
use crate::moved;
use crate::spine;
use crate::streamed;
use crate::terminal::{self, ProgressLine, Terminal};

const RANK_FILE: &str = "tiktoken.model";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// A model with everything around it.
pub(crate) struct Loaded {
    /// Ids in, ids out.
    pub(crate) engine: Engine,
    /// Text and ids; nothing where the directory has no tokenizer files.
    tokenizer: Option<Tokenizer>,
    /// Why the tokenizer that is there cannot be used.
    misfit: Option<String>,
    /// All ids that end a reply: the checkpoint's, and those the tokenizer names.
    pub(crate) stop_ids: Vec<u32>,
    model: Model,
    folders: Vec<PathBuf>,
}

impl Loaded {
    /// Opens what the flags ask for.
    pub(crate) fn open(args: &EngineArgs, given: Given) -> Result<Loaded, Failure> {
        let model = model_choice::choose(args.model.clone(), given)?;
        let checkpoint = checkpoint(&model, &args.network())?;
        Loaded::of(model, checkpoint, args)
    }

    /// Loads a checkpoint that was opened already.
    pub(crate) fn of(
        model: Model,
        checkpoint: Checkpoint,
        args: &EngineArgs,
    ) -> Result<Loaded, Failure> {
        Loaded::of_prepared(model, prepared(checkpoint, args)?, args)
    }

    /// Loads a checkpoint that [`prepared`] gave.
    pub(crate) fn of_prepared(
        model: Model,
        checkpoint: Checkpoint,
        args: &EngineArgs,
    ) -> Result<Loaded, Failure> {
        let distant = checkpoint.store.distant();
        let loaded = Loaded::without_learned(model, checkpoint, args)?;
        learned::apply(&loaded.engine, args)?;
        if let Some(distant) = distant {
            streamed::trim(&*distant).map_err(|error| Failure::about(&loaded.model, &error))?;
        }
        Ok(loaded)
    }

    /// As [`Loaded::of`], without what earlier runs learned and without teaching later ones.
    pub(crate) fn unlearned(
        model: Model,
        checkpoint: Checkpoint,
        args: &EngineArgs,
    ) -> Result<Loaded, Failure> {
        Loaded::without_learned(model, prepared(checkpoint, args)?, args)
    }

    fn without_learned(
        model: Model,
        checkpoint: Checkpoint,
        args: &EngineArgs,
    ) -> Result<Loaded, Failure> {
        let folders = [checkpoint.folder(), checkpoint.pack()].into_iter().flatten();
        let folders = folders.map(Path::to_owned).collect();
        let tokenizer = tokenizer_of(&checkpoint)?;
        let misfit = tokenizer.as_ref().and_then(|found| misfit(&declared(&checkpoint), found));
        let tokenizer = tokenizer.filter(|_| misfit.is_none());
        let loading = ProgressLine::standing(Terminal::detect(), &format!("loading {model}"));
        let engine = Engine::open(checkpoint, options(args))?;
        drop(loading);
        say_if_context_is_short(&engine);
        moved::say_how_drives_are_read(&engine);
        let vocab = u32::try_from(engine.spec().vocab).unwrap_or(u32::MAX);
        let tokenizer = tokenizer.map(|tokenizer| tokenizer.with_vocab_size(vocab));
        let mut stop_ids = engine.stop_ids().to_vec();
        let named = tokenizer.as_ref().map(Tokenizer::stop_ids).unwrap_or_default();
        stop_ids.extend(named.into_iter().filter(|id| !engine.stop_ids().contains(id)));
        Ok(Loaded { engine, tokenizer, misfit, stop_ids, model, folders })
    }

    /// The folders that the weights are read from.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> + Clone {
        self.folders.iter().map(PathBuf::as_path)
    }

    /// The tokenizer, where it was found.
    pub(crate) fn tokenizer_if_any(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    /// The tokenizer, which this command cannot do without.
    pub(crate) fn tokenizer(&self) -> Result<&Tokenizer, Failure> {
        let remedy = "put the tokenizer's files there, or work with ids (--prompt-ids and --ids)";
        self.tokenizer.as_ref().ok_or_else(|| self.lack(remedy))
    }

    /// The parts, for those who need the tokenizer and keep nothing else.
    pub(crate) fn into_parts(self) -> Result<(Engine, Tokenizer, Vec<u32>), Failure> {
        match self.tokenizer {
            Some(tokenizer) => Ok((self.engine, tokenizer, self.stop_ids)),
            None => Err(self.lack("put the tokenizer's files there")),
        }
    }

    /// Why there is no tokenizer.
    fn lack(&self, remedy: &str) -> Failure {
        let model = &self.model;
        match &self.misfit {
            Some(misfit) => Failure::new(format!("{model}: {misfit}")),
            None => Failure::new(format!("{model} has no {RANK_FILE}: {remedy}")),
        }
    }
}

/// A checkpoint with the spine that the flags ask for, which is said.
pub(crate) fn prepared(checkpoint: Checkpoint, args: &EngineArgs) -> Result<Checkpoint, Failure> {
    // Before weights are read, which may take minutes.
    args.isa().map(Isa::new).transpose().map_err(EngineError::from)?;
    checkpoint.notices.iter().for_each(|notice| terminal::say(notice));
    spine::apply(checkpoint, &args.spine())
}

/// The checkpoint of a model, validated.
pub(crate) fn checkpoint(model: &Model, network: &Network) -> Result<Checkpoint, Failure> {
    Ok(match model {
        Model::Demo => deltafin_store::from_memory(built_in::FILES)?,
        Model::Directory(path) => streamed::open_dir(path, network)?,
    })
}

/// The tokenizer of a checkpoint, where it has one.
pub(crate) fn tokenizer_of(checkpoint: &Checkpoint) -> Result<Option<Tokenizer>, Failure> {
    let Some(TokenizerFiles { ranks, config }) = &checkpoint.tokenizer else {
        return Ok(None);
    };
    parse_tokenizer(&checkpoint.source, ranks, config.as_deref()).map(Some)
}

/// What a checkpoint declares about its ids.
pub(crate) fn declared(checkpoint: &Checkpoint) -> DeclaredIds {
    DeclaredIds { vocab: checkpoint.spec().vocab, stop_ids: checkpoint.stop_ids() }
}

/// Why this tokenizer is not the one the model was made with, where that can be seen. Ids in and
/// ids out need no tokenizer, so this is no reason to refuse the checkpoint.
pub(crate) fn misfit(declared: &DeclaredIds, tokenizer: &Tokenizer) -> Option<String> {
    let (base, vocab) = (tokenizer.base(), declared.vocab);
    let remedy = "put the tokenizer's files of this model there";
    if base as usize > vocab {
        return Some(format!(
            "{RANK_FILE} has {base} ranks, the model a vocabulary of {vocab}: {remedy}"
        ));
    }
    let special = base..base.saturating_add(SPECIAL_TOKENS);
    let foreign = declared.stop_ids.iter().find(|id| !special.contains(id));
    foreign.map(|id| {
        format!("the model stops at id {id}, which is no special token of {RANK_FILE}: {remedy}")
    })
}

fn parse_tokenizer(
    source: &str,
    ranks: &[u8],
    config: Option<&[u8]>,
) -> Result<Tokenizer, Failure> {
    Tokenizer::new(ranks, config).map_err(|e| Failure::about(source, &e))
}

/// The tokenizer of a model, which has to be there; the weights need not.
pub(crate) fn tokenizer(model: &Model) -> Result<Tokenizer, Failure> {
    find_tokenizer(model)?.ok_or_else(|| {
        let hint = match model {
            Model::Directory(path) if !path.is_dir() => "there is no such directory",
            _ => "a tokenizer needs that file, and tokenizer_config.json for its special tokens",
        };
        Failure::new(format!("{model}: no {RANK_FILE}: {hint}"))
    })
}

/// As [`tokenizer`], refused where the model's configuration says that it is another model's.
pub(crate) fn fitting_tokenizer(model: &Model) -> Result<Tokenizer, Failure> {
    let tokenizer = tokenizer(model)?;
    let declared = match model {
        Model::Demo => None,
        Model::Directory(path) => deltafin_store::declared_ids(path)?,
    };
    match declared.and_then(|declared| misfit(&declared, &tokenizer)) {
        Some(misfit) => Err(Failure::new(format!("{model}: {misfit}"))),
        None => Ok(tokenizer),
    }
}

fn find_tokenizer(model: &Model) -> Result<Option<Tokenizer>, Failure> {
    let Some(ranks) = side_file(model, RANK_FILE, RANK_FILE_BYTES_MAX)? else {
        return Ok(None);
    };
    let config = side_file(model, TOKENIZER_CONFIG, TOKENIZER_CONFIG_BYTES_MAX)?;
    parse_tokenizer(&model.to_string(), &ranks, config.as_deref()).map(Some)
}

/// A small file beside the weights; nothing where there is none. One that is far too large is cut
/// just past its bound, so that it is refused without being read.
fn side_file(model: &Model, name: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, Failure> {
    match model {
        Model::Demo => Ok(built_in::file(name).map(<[u8]>::to_vec)),
        Model::Directory(directory) => {
            let path = directory.join(name);
            read_bounded(&path, bytes_max)
                .map_err(|e| Failure::about(format!("cannot read {}", path.display()), &e))
        }
    }
}

/// A file that nobody typed the name of; nothing where there is none. It is cut just past its bound.
pub(crate) fn read_bounded(path: &Path, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
    // Looked at before it is opened: opening a pipe waits for its other end.
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(io::Error::other("not an ordinary file")),
        // A link that leads nowhere is not the same as no file.
        Err(e) if e.kind() == io::ErrorKind::NotFound && !path.is_symlink() => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        Err(e) => return Err(e),
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Memory must not decide in silence where a text ends.
fn say_if_context_is_short(engine: &Engine) {
    if let Some(usual) = engine.context_short_of() {
        terminal::say(&format!(
            "context: {} positions instead of {usual}, for memory is short; give --context N for \
             others, or more --memory",
            engine.context()
        ));
    }
}

/// What the flags say to an engine.
pub(crate) fn options(args: &EngineArgs) -> EngineOptions {
    EngineOptions {
        isa: args.isa(),
        threads: args.threads(),
        chunk: args.chunk(),
        context: args.context(),
        memory: args.memory(),
        snapshots: args.snapshots(),
        requests: args.requests(),
        besides: args.besides(),
        io: args.io(),
        prefetch: args.prefetch(),
        slabs: args.slabs(),
        cache: args.expert_cache(),
        pin: args.pin(),
    }
}
