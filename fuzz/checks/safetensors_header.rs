//! Any bytes as a shard: refused, or the tensors cover the file without gap or overlap.

use deltafin_checkpoint::Header;

pub(crate) fn check(data: &[u8]) {
    check_shard(data, data.len() as u64);
    // The same bytes as the front of a file of any length.
    if let Some((len, front)) = data.split_first_chunk::<8>() {
        check_shard(front, u64::from_le_bytes(*len));
    }
}

fn check_shard(bytes: &[u8], file_len: u64) {
    if let Ok(header) = Header::parse(bytes, file_len) {
        let mut end = header.data_offset;
        for tensor in &header.tensors {
            assert_eq!(tensor.offset, end);
            end += tensor.len;
        }
        assert_eq!(end, file_len);
    }
}
