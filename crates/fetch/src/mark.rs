//! What tells one state of a file at a server from another: its length, and what the server calls the state.
//!
//! A server calls it by an entity tag, or says when the file was last changed. Where no digest of the file is known that
//! is all there is: a server that says neither may exchange a file for another of the same length, and nobody can tell.

use object_store::ObjectMeta;

use crate::Proof;
use crate::listing::RemoteFile;

/// Begins what is noted of a server that gives no entity tag.
const DATE: &str = "changed ";

/// What a server says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Its length.
    pub(crate) bytes: u64,
    /// What it calls the state that the file is in.
    pub(crate) tag: Option<String>,
}

/// What an answer calls the state of a file. Where a digest is known, dates are not gone by: machines of one hub may
/// differ in them.
pub(crate) fn tag(meta: &ObjectMeta, file: &RemoteFile) -> Option<String> {
    let date = || {
        // As the client says that no date was given.
        let is_told = meta.last_modified.timestamp() != 0 && file.proof == Proof::None;
        is_told.then(|| format!("{DATE}{}", meta.last_modified.format("%Y-%m-%d %H:%M:%S UTC")))
    };
    meta.e_tag.clone().or_else(date)
}

/// Whether two tags are of two states. A tag and a date say nothing of each other.
pub(crate) fn differ(was: &str, is: &str) -> bool {
    was.starts_with(DATE) == is.starts_with(DATE) && was != is
}

/// What is another than it was, in words; nothing where all that is known is the same.
pub(crate) fn difference(was: (u64, Option<&str>), is: &Mark) -> Option<String> {
    match (was.1, is.tag.as_deref()) {
        _ if was.0 != is.bytes => Some(lengths(was.0, is.bytes)),
        (Some(was), Some(is)) if differ(was, is) => Some(tags(was, is)),
        _ => None,
    }
}

/// That a file has another length than it had.
pub(crate) fn lengths(was: u64, is: u64) -> String {
    format!("it has {is} bytes where it had {was}")
}

/// That a file has another tag than it had.
pub(crate) fn tags(was: &str, is: &str) -> String {
    match (was.strip_prefix(DATE), is.strip_prefix(DATE)) {
        (Some(was), Some(is)) => format!("it was last changed {is}, and before {was}"),
        _ => format!("its entity tag is {is} where it was {was}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_dates_are_held_against_their_own_kind() {
        let [early, late] = ["changed 2026-01-01", "changed 2026-01-02"];
        assert!(differ("\"a\"", "\"b\"") && differ(early, late));
        assert!(!differ("\"a\"", "\"a\"") && !differ(early, early));
        assert!(!differ("\"a\"", late) && !differ(early, "\"b\""));
        let is = |bytes, tag: &str| Mark { bytes, tag: Some(tag.to_owned()) };
        let words = |is: &Mark| difference((5, Some("\"a\"")), is);
        assert_eq!(words(&is(5, "\"a\"")), None);
        assert_eq!(words(&Mark { bytes: 5, tag: None }), None);
        assert!(words(&is(5, "\"b\"")).is_some_and(|why| why.contains("\"b\" where it was \"a\"")));
        assert!(words(&is(6, "\"a\"")).is_some_and(|why| why.contains("6 bytes where it had 5")));
        assert!(tags(early, late).ends_with("2026-01-02, and before 2026-01-01"));
    }
}
