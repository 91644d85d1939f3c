//! Any bytes as a shard: refused, or the tensors cover the file without gap or overlap.
#![no_main]

use deltafin_checkpoint::Header;
use libfuzzer_sys::fuzz_target;

fn check(bytes: &[u8], file_len: u64) {
    if let Ok(header) = Header::parse(bytes, file_len) {
        let mut end = header.data_offset;
        for tensor in &header.tensors {
            assert_eq!(tensor.offset, end);
            end += tensor.len;
        }
        assert_eq!(end, file_len);
    }
}

fuzz_target!(|data: &[u8]| {
    check(data, data.len() as u64);
    // The same bytes as the front of a file of any length.
    if let Some((len, front)) = data.split_first_chunk::<8>() {
        check(front, u64::from_le_bytes(*len));
    }
});
