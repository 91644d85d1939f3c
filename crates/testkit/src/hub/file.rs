//! A file as a hub has it.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Smaller files lie in the hub itself.
const LARGE_BYTES: usize = 1 << 16;

pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    pub(super) sha256: String,
    git: String,
    /// How often it was replaced.
    pub(super) version: u64,
}

impl File {
    pub(super) fn new(bytes: Vec<u8>, version: u64) -> File {
        let sha256 = hex(&Sha256::digest(&bytes));
        let mut git = sha1::Sha1::new();
        git.update(format!("blob {}\0", bytes.len()));
        git.update(&bytes);
        File { sha256, git: hex(&git.finalize()), bytes, version }
    }

    /// When it was last changed, as HTTP says it.
    pub(super) fn date(&self) -> String {
        format!("Thu, 01 Jan 2026 00:{:02}:00 GMT", self.version % 60)
    }

    pub(super) fn is_large(&self) -> bool {
        self.bytes.len() >= LARGE_BYTES
    }

    pub(super) fn entry(&self, path: &str, size: u64) -> Value {
        let mut entry = json!({"type": "file", "path": path, "size": size, "oid": self.git});
        if self.is_large() {
            entry["oid"] = json!("0".repeat(40)); // of the pointer, which nobody needs
            entry["lfs"] = json!({"oid": self.sha256, "size": size, "pointerSize": 135});
        }
        entry
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
