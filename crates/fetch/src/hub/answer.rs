//! What a hub's answers say: bytes of others, in JSON.

use serde::Deserialize;

use crate::Proof;
use crate::listing::{RemoteFile, is_wanted};

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    // Of folders, which are not wanted, these may be missing.
    #[serde(default)]
    size: u64,
    #[serde(default)]
    oid: String,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
}

/// The commit that a revision is.
pub(crate) fn commit(page: &[u8]) -> Result<String, String> {
    let Revision { sha } = parsed(page)?;
    let is_commit = sha.len() >= 8 && sha.chars().all(|c| c.is_ascii_alphanumeric());
    if is_commit { Ok(sha) } else { Err("the hub names a commit that is none".to_owned()) }
}

/// The files of a page of a repository's tree that belong to a checkpoint, each with what proves it.
pub(crate) fn files(page: &[u8]) -> Result<Vec<RemoteFile>, String> {
    let entries: Vec<Entry> = parsed(page)?;
    let wanted = entries.into_iter().filter(|e| e.kind == "file" && is_wanted(&e.path));
    wanted.map(file).collect()
}

fn parsed<T: for<'de> Deserialize<'de>>(page: &[u8]) -> Result<T, String> {
    serde_json::from_slice(page)
        .map_err(|error| format!("the hub's answer is not understood: {error}"))
}

fn file(entry: Entry) -> Result<RemoteFile, String> {
    let (kind, digits, bytes) = match &entry.lfs {
        Some(lfs) => ("sha256", &lfs.oid, lfs.size),
        None => ("git", &entry.oid, entry.size),
    };
    let proof = Proof::parse(kind, digits).ok_or_else(|| format!("{}: no digest", entry.path))?;
    Ok(RemoteFile { name: entry.path, bytes, proof })
}

/// The target of `rel="next"` in a `Link` header.
pub(crate) fn following(link: &str) -> Option<&str> {
    let next = link.split(',').find(|part| part.contains("rel=\"next\""))?;
    Some(next.split_once('<')?.1.split_once('>')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_further_pages() {
        assert_eq!(following("<https://h/x?cursor=1>; rel=\"next\""), Some("https://h/x?cursor=1"));
        assert_eq!(following("<a>; rel=\"prev\", <b>; rel=\"next\""), Some("b"));
        assert_eq!(following("<a>; rel=\"prev\""), None);
    }

    #[test]
    fn a_file_without_a_digest_is_refused() {
        let page = |oid: &str| format!(r#"[{{"type":"file","path":"a.json","oid":"{oid}"}}]"#);
        assert!(files(page("").as_bytes()).unwrap_err().contains("a.json: no digest"));
        assert_eq!(files(page(&"0".repeat(40)).as_bytes()).unwrap().len(), 1);
        assert!(files(b"{}").unwrap_err().contains("is not understood"));
    }
}
