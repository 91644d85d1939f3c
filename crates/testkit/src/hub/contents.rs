//! What the servers have: the files of a checkpoint, and of a drafter.

use std::fs;
use std::path::Path;

use serde_json::json;

/// The files of a folder that a checkpoint consists of, by name.
pub fn checkpoint_files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names.retain(|name| !name.starts_with("golden") && name != "README.md");
    let read = |name: String| (name.clone(), fs::read(dir.join(name)).unwrap());
    names.into_iter().map(read).collect()
}

/// The files of a drafter: a configuration of the published form, and weights that are none.
pub fn drafter_files() -> Vec<(String, Vec<u8>)> {
    const ROWS: usize = 40_000;
    let config = json!({"architectures": ["K3DSparkModel"], "model_type": "k3_dspark"});
    let end = 2 * ROWS;
    let tensor = json!({"dtype": "BF16", "shape": [ROWS], "data_offsets": [0, end]});
    let mut header = json!({"context_norm.weight": tensor}).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut weights = (header.len() as u64).to_le_bytes().to_vec();
    weights.extend_from_slice(header.as_bytes());
    weights.extend((0..end).map(|at| (at * 7 % 251) as u8));
    let config = config.to_string().into_bytes();
    vec![("config.json".to_owned(), config), ("model.safetensors".to_owned(), weights)]
}
