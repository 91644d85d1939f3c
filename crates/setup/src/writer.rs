//! A file of a pack in the making.

use std::io;

use deltafin_checkpoint::pack::{ChunkHasher, Digest, PackFile, PackLayout, PackPart, PackTensor};
use deltafin_spec::{Dtype, Shape, TensorId};

use crate::disk::Output;

/// No size that a catalog has let pass overflows.
const FITS: &str = "the sizes of a checkpoint's tensors were checked when it was opened";

/// Lays tensors out, hashes and writes them.
pub(crate) struct PartWriter<O> {
    out: O,
    part: PackPart,
    at: Place,
    /// Where the last tensor began, to come back to.
    before: Place,
    tensors: Vec<PackTensor>,
}

#[derive(Clone, Default)]
struct Place {
    layout: PackLayout,
    hasher: ChunkHasher,
    written: u64,
}

impl<O: Output> PartWriter<O> {
    pub(crate) fn new(part: PackPart, out: O) -> PartWriter<O> {
        let (at, before) = (Place::default(), Place::default());
        PartWriter { out, part, at, before, tensors: Vec::new() }
    }

    /// A tensor begins; its elements follow.
    pub(crate) fn begin(&mut self, id: TensorId, dtype: Dtype, shape: Shape) -> io::Result<()> {
        self.before = self.at.clone();
        let place = self.at.layout.place(shape.bytes(dtype).expect(FITS)).expect(FITS);
        self.tensors.push(PackTensor {
            name: id.name(),
            dtype,
            shape,
            place,
            scales: None,
            digest: None,
        });
        self.pad_to(place.offset)
    }

    /// The next elements. Those of a small tensor come in one piece.
    pub(crate) fn elements(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(tensor) = self.tensors.last_mut()
            && PackTensor::is_small(tensor.dtype, tensor.place.len)
        {
            assert_eq!(bytes.len() as u64, tensor.place.len, "a small tensor in pieces");
            tensor.digest = Some(Digest::of(bytes));
        }
        self.put(bytes)
    }

    /// The scales of the tensor's rows.
    pub(crate) fn scales(&mut self, bytes: &[u8]) -> io::Result<()> {
        let place = self.at.layout.place(bytes.len() as u64).expect(FITS);
        self.pad_to(place.offset)?;
        if let Some(tensor) = self.tensors.last_mut() {
            tensor.scales = Some(place);
        }
        self.put(bytes)
    }

    /// Forgets the tensor that began.
    pub(crate) fn again(&mut self) -> io::Result<()> {
        self.tensors.pop();
        self.at = self.before.clone();
        self.out.rewind(self.at.written)
    }

    /// Ends the file and makes it last.
    pub(crate) fn finish(mut self) -> io::Result<(PackFile, O)> {
        let bytes = self.at.layout.file_bytes().expect(FITS);
        self.pad_to(bytes)?;
        self.out.sync()?;
        let digests = self.at.hasher.finish();
        let file = PackFile { part: self.part, bytes, tensors: self.tensors, digests };
        Ok((file, self.out))
    }

    fn pad_to(&mut self, offset: u64) -> io::Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        let gap = (offset - self.at.written) as usize;
        self.put(&ZEROS[..gap])
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.at.hasher.update(bytes);
        self.out.write(bytes)?;
        self.at.written += bytes.len() as u64;
        Ok(())
    }
}
