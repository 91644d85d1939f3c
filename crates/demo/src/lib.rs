//! A small trained model of the K3 architecture, carried inside the binary.
//!
//! Promises that `deltafin run` has something to run before any checkpoint is downloaded: the
//! bytes of every file a run needs, laid out and named as in a released checkpoint. `model/` holds
//! them, its `README.md` says where they come from and what the model can do; `golden.json`
//! beside them (not embedded) holds the ids that a reference implementation generates.
//!
//! It relies on nothing and reads nothing: the files become part of the program when it is built.
#![forbid(unsafe_code)]

/// A file below `model/`, under its own name.
macro_rules! file {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../model/", $name)).as_slice())
    };
}

/// Every file of the model that a run needs, by the name it has in a checkpoint directory.
pub const FILES: &[(&str, &[u8])] = &[
    file!("config.json"),
    file!("generation_config.json"),
    file!("tokenizer_config.json"),
    file!("tiktoken.model"),
    file!("model.safetensors.index.json"),
    file!("model-00001-of-000010.safetensors"),
    file!("model-00002-of-000010.safetensors"),
    file!("model-00003-of-000010.safetensors"),
    file!("model-00004-of-000010.safetensors"),
    file!("model-00005-of-000010.safetensors"),
    file!("model-00006-of-000010.safetensors"),
    file!("model-00007-of-000010.safetensors"),
    file!("model-00008-of-000010.safetensors"),
    file!("model-00009-of-000010.safetensors"),
    file!("model-00010-of-000010.safetensors"),
];

/// The bytes of one file of [`FILES`].
///
/// ```
/// let config = deltafin_demo::file("config.json").expect("every checkpoint has one");
/// assert!(config.starts_with(b"{"));
/// assert!(deltafin_demo::file("golden.json").is_none());
/// ```
#[must_use]
pub fn file(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::FILES;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Files that explain or check the model; a run does not read them.
    const BESIDE: [&str; 2] = ["README.md", "golden.json"];

    #[test]
    fn files_are_those_of_the_directory() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("model");
        let on_disk: BTreeSet<String> = std::fs::read_dir(directory)
            .expect("model directory")
            .map(|entry| entry.expect("entry").file_name().into_string().expect("UTF-8"))
            .filter(|name| !BESIDE.contains(&name.as_str()))
            .collect();
        let carried: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(carried, on_disk);
        assert_eq!(carried.len(), FILES.len(), "a name occurs twice");
    }
}
