//! Any bytes as a snapshot: refused, or exactly what writing its contents again gives.

use deltafin_checkpoint::{Identity, Recipe};
use deltafin_snapshot::{Head, Origin, Reader, Shape, write};

pub(crate) fn check(data: &[u8]) {
    // As the program does it: what is wanted is known, whatever the file says.
    let origin =
        Origin { identity: Identity::from_bytes(*b"a checkpoint's n"), recipe: Recipe::Bf16 };
    let shape = Shape { recurrent: 5, row: 2 };
    read(data, origin, shape, &[7, 8, 9]);
    // And as it would be if the file were what it says it is.
    let Ok(head) = Head::parse(data) else { return };
    if head.shape.file_bytes(head.positions) == Some(data.len() as u64) {
        let ids = data[56..].chunks_exact(4).take(head.positions as usize);
        let ids: Vec<u32> =
            ids.map(|id| u32::from_le_bytes(id.try_into().expect("four bytes"))).collect();
        read(data, head.origin, head.shape, &ids);
    }
}

fn read(data: &[u8], origin: Origin, shape: Shape, ids: &[u32]) {
    let Ok(mut reader) = Reader::open(data, data.len() as u64, origin, shape, ids) else { return };
    let mut rows = vec![0.0; ids.len() * shape.row];
    let mut recurrent = vec![0.0; shape.recurrent];
    reader.fill(&mut rows).expect("its length was checked");
    reader.fill(&mut recurrent).expect("its length was checked");
    if reader.finish().is_ok() {
        let head = Head { origin, shape, positions: ids.len() as u64 };
        let mut again = Vec::new();
        let (ids, rows) = ([ids].into_iter(), [&*rows].into_iter());
        write(&mut again, head, ids, rows, &recurrent).expect("memory takes it");
        assert_eq!(again, data);
    }
}
