//! A checkpoint's files where nothing lists them: its own index says which shards there are.
//!
//! Each file is asked for until there is an answer: a server that fails now and then costs the answers that failed.

use deltafin_checkpoint::Index;
use object_store::ObjectStoreExt as _;

use crate::fault::Fault;
use crate::listing::{Listing, RemoteFile};
use crate::remote::{Manner, Remote, asking, place};
use crate::{FetchError, Proof, Source};

const INDEX: &str = "model.safetensors.index.json";
/// The released index has 60 MB.
const INDEX_BYTES_MAX: u64 = 1 << 30;
/// What a checkpoint has besides its shards, if it is there.
const BESIDE: [&str; 6] = [
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "tiktoken.model",
    "chat_template.jinja",
    "LICENSE",
];

/// What there is at a mirror.
pub(crate) async fn listing(
    remote: &Remote,
    source: &Source,
    manner: Manner<'_>,
) -> Result<Listing, FetchError> {
    let refused = |why: String| FetchError::Source { what: source.to_string(), why };
    let look = |name| asking(source, manner, move || look(remote, name));
    let mut files = Vec::new();
    for name in BESIDE {
        files.extend(look(name).await?);
    }
    if !files.iter().any(|file| file.name == BESIDE[0]) {
        return Err(refused(format!("there is no {}; check the address", BESIDE[0])));
    }
    match look(INDEX).await? {
        Some(index) if index.bytes > INDEX_BYTES_MAX => {
            return Err(refused(format!("{INDEX} has {} bytes", index.bytes)));
        }
        Some(file) => {
            let shards = asking(source, manner, || shards(remote, &file)).await?;
            files.push(file);
            for shard in &shards {
                let gone = || refused(format!("{shard}, which the index names, is missing"));
                files.push(look(shard).await?.ok_or_else(gone)?);
            }
        }
        None => files.extend(look("model.safetensors").await?),
    }
    Ok(Listing::new(source.to_string(), files))
}

/// The shards that the index names, which may be damaged on its way.
async fn shards(remote: &Remote, index: &RemoteFile) -> Result<Vec<String>, Fault> {
    let bytes = remote.whole(index).await?;
    let index = Index::parse(&bytes).map_err(|error| Fault::passing(error.to_string()))?;
    Ok(index.shards.iter().map(ToString::to_string).collect())
}

/// The length of a file, if it is there.
async fn look(remote: &Remote, name: &str) -> Result<Option<RemoteFile>, Fault> {
    match remote.store().head(&place(name)?).await {
        Ok(meta) => {
            Ok(Some(RemoteFile { name: name.to_owned(), bytes: meta.size, proof: Proof::None }))
        }
        Err(error) => match Fault::of(&error) {
            Fault::Lasting(_) if Fault::is_absence(&error) => Ok(None),
            fault => Err(fault),
        },
    }
}
