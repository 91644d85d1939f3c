//! Any bytes as the manifest of a spine pack: refused, or every place is inside its file, aligned,
//! after the one before, and the manifest reads back as itself.

use deltafin_checkpoint::pack::{CHUNK_BYTES, FILE_ALIGN, Manifest, TENSOR_ALIGN};

pub(crate) fn check(data: &[u8]) {
    let Ok(manifest) = Manifest::parse(data) else { return };
    for file in &manifest.files {
        assert_eq!(file.bytes % FILE_ALIGN, 0);
        assert_eq!(file.digests.len() as u64, file.bytes.div_ceil(CHUNK_BYTES));
        let mut end = 0;
        let places = file.tensors.iter().flat_map(|t| [Some(t.place), t.scales]).flatten();
        for place in places {
            assert!(place.offset >= end && place.offset % TENSOR_ALIGN == 0);
            end = place.offset.checked_add(place.len).expect("it was checked");
        }
        assert!(end <= file.bytes);
    }
    assert_eq!(Manifest::parse(&manifest.to_json()), Ok(manifest));
}
