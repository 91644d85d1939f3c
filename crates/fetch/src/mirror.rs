//! A checkpoint's files where nothing lists them: its own index says which shards there are.

use deltafin_checkpoint::Index;
use object_store::ObjectStoreExt as _;

use crate::fault::Fault;
use crate::listing::{Listing, RemoteFile};
use crate::remote::{Remote, place};
use crate::{Proof, Source};

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
pub(crate) async fn listing(remote: &Remote, source: &Source) -> Result<Listing, Fault> {
    let mut files = Vec::new();
    for name in BESIDE {
        files.extend(look(remote, name).await?);
    }
    if !files.iter().any(|file| file.name == BESIDE[0]) {
        return Err(Fault::Lasting(format!("there is no {}; check the address", BESIDE[0])));
    }
    match look(remote, INDEX).await? {
        Some(index) if index.bytes > INDEX_BYTES_MAX => {
            return Err(Fault::Lasting(format!("{INDEX} has {} bytes", index.bytes)));
        }
        Some(index) => {
            let bytes = remote.whole(&index).await?;
            files.push(index);
            let index = Index::parse(&bytes).map_err(|error| Fault::passing(error.to_string()))?;
            for shard in &index.shards {
                let gone = || Fault::Lasting(format!("{shard}, which the index names, is missing"));
                files.push(look(remote, shard).await?.ok_or_else(gone)?);
            }
        }
        None => files.extend(look(remote, "model.safetensors").await?),
    }
    Ok(Listing::new(source.to_string(), files))
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
