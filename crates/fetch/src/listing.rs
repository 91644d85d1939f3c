//! What a source has.

use crate::Proof;

/// A file of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFile {
    /// A plain name, without any folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// What is known of its bytes.
    pub proof: Proof,
}

impl RemoteFile {
    /// Whether it holds tensors.
    pub fn is_shard(&self) -> bool {
        self.name.ends_with(".safetensors")
    }
}

/// The files of a checkpoint at a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The source, with the revision as a commit where it has such.
    pub source: String,
    /// Small files first, then by name: what says what the others are comes before them.
    pub files: Vec<RemoteFile>,
}

impl Listing {
    /// The files in their order.
    pub(crate) fn new(source: String, mut files: Vec<RemoteFile>) -> Listing {
        files.sort_by(|a, b| (a.is_shard(), &a.name).cmp(&(b.is_shard(), &b.name)));
        Listing { source, files }
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    }
}

/// Whether a file of a repository belongs to the checkpoint: not what is in folders, nor pictures and
/// the like. A name that could lead elsewhere is no name.
pub(crate) fn is_wanted(name: &str) -> bool {
    const ENDINGS: [&str; 8] =
        [".safetensors", ".json", ".model", ".jinja", ".txt", ".py", ".md", ".tiktoken"];
    let is_plain = !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
    let is_licence = name.to_ascii_uppercase().starts_with("LICENSE");
    is_plain && (is_licence || ENDINGS.iter().any(|ending| name.ends_with(ending)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_checkpoint_are_wanted() {
        for name in
            ["config.json", "model-00001-of-000096.safetensors", "LICENSE", "tiktoken.model"]
        {
            assert!(is_wanted(name), "{name}");
        }
        for name in
            ["figures/a.json", "../config.json", ".gitattributes", "logo.png", "a\\b.json", ""]
        {
            assert!(!is_wanted(name), "{name}");
        }
    }
}
