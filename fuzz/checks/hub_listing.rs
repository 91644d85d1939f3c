//! Any bytes as what a hub answers: refused, or a commit and files whose names lead nowhere else.

use crate::hub::answer::{commit, files, following};
use crate::listing::{Listing, is_wanted};

pub(crate) fn check(data: &[u8]) {
    if let Ok(commit) = commit(data) {
        assert!(commit.len() <= data.len() && commit.bytes().all(|b| b.is_ascii_alphanumeric()));
    }
    if let Ok(files) = files(data) {
        for file in &files {
            assert!(is_wanted(&file.name) && !file.name.contains(['/', '\\', '\0']));
            assert!(file.proof.parts().is_some(), "what a hub lists, it proves");
        }
        // Sizes of others may add up to more than there are numbers for.
        assert_eq!(Listing::new(String::new(), files.clone()).files.len(), files.len());
        let _ = Listing::new(String::new(), files).bytes();
    }
    let link = String::from_utf8_lossy(data);
    assert!(following(&link).is_none_or(|next| link.contains(next)));
}
