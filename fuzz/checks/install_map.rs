//! Any bytes as the map of a file in the making: of another file, or every piece is inside the file, and
//! what is known is written so that it reads back as itself.

use std::collections::BTreeMap;

use crate::Proof;
use crate::listing::RemoteFile;
use crate::map::{Known, parse, text};

pub(crate) fn check(data: &[u8]) {
    let name = "model-00001-of-000012.safetensors".to_owned();
    for proof in [Proof::None, Proof::Sha256([0x9f; 32])] {
        let file = RemoteFile { name: name.clone(), bytes: 1 << 20, proof };
        let Some(known) = parse(data, &file) else { continue };
        for (offset, (bytes, _)) in &known.pieces {
            let end = offset.checked_add(*bytes).expect("it was checked");
            assert!(*bytes > 0 && end <= file.bytes);
        }
        // Each line of a piece has 68 bytes and more: what is kept is never more than what came.
        assert!(known.pieces.len() <= data.len() / 68);
        let again = text(&file, &known).expect("JSON takes any text");
        // How often a piece went is for who watches the map that is there, not for one that is written anew.
        let kept = Known { gone: BTreeMap::new(), ..known };
        assert_eq!(parse(again.as_bytes(), &file), Some(kept));
    }
}
