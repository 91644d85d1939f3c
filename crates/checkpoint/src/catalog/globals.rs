//! The tensors outside the layers.

use std::ops::Range;

use deltafin_spec::{Dtype, GlobalTensor, Shape};

use crate::pack::Digest;
use crate::{Record, Span, TensorPlace};

/// A tensor that is read by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanTensor {
    /// What the tensor is for.
    pub role: GlobalTensor,
    /// The stored element type.
    pub dtype: Dtype,
    /// The stored shape.
    pub shape: Shape,
    /// Its bytes: the elements first, then its scales, if it has any.
    pub span: Span,
    /// Where in the span the scales of its rows lie, one half-precision float each; a tensor of
    /// signed bytes alone has them.
    pub scales: Option<TensorPlace>,
    /// What its bytes are held against; small tensors of a pack alone have it.
    pub digest: Option<Digest>,
}

impl SpanTensor {
    /// What to read.
    pub fn record(&self) -> Record<'_> {
        let record = Record::new(std::slice::from_ref(&self.span));
        record.expect("one span cannot overflow")
    }

    /// Where in the span the elements lie: at its front.
    pub fn elements(&self) -> TensorPlace {
        let len = self.shape.bytes(self.dtype).unwrap_or(self.span.len());
        TensorPlace { offset: 0, len }
    }
}

/// A matrix of which rows are read: the embedding, one row per token, or the head in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTable {
    tensor: SpanTensor,
    row_bytes: u64,
}

impl RowTable {
    pub(super) fn new(tensor: SpanTensor) -> RowTable {
        RowTable { tensor, row_bytes: tensor.elements().len / tensor.shape.rows() }
    }

    /// The whole tensor.
    pub fn tensor(&self) -> &SpanTensor {
        &self.tensor
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.tensor.shape.rows()
    }

    /// The bytes of one row's elements.
    pub fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// The elements of a row, if there is such a row.
    pub fn row(&self, row: u64) -> Option<Span> {
        self.row_range(row..row.checked_add(1)?)
    }

    /// The elements of some rows that follow each other, if there are such rows.
    pub fn row_range(&self, rows: Range<u64>) -> Option<Span> {
        let count = self.count(&rows)?;
        self.tensor.span.part(rows.start * self.row_bytes, count * self.row_bytes)
    }

    /// The scales of some rows that follow each other, if there are such rows and they have any.
    pub fn scale_range(&self, rows: Range<u64>) -> Option<Span> {
        let (count, each) = (self.count(&rows)?, Dtype::F16.size_bytes());
        let first = self.tensor.scales?.offset;
        self.tensor.span.part(first + rows.start * each, count * each)
    }

    fn count(&self, rows: &Range<u64>) -> Option<u64> {
        rows.end.checked_sub(rows.start).filter(|_| rows.end <= self.rows())
    }
}

/// The tensors outside the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Globals {
    /// One row per token id. It is never read as a whole.
    pub embed: RowTable,
    /// The last norm.
    pub norm: SpanTensor,
    /// Key norm of the last mix.
    pub output_res_norm: SpanTensor,
    /// Query of the last mix.
    pub output_res_proj: SpanTensor,
    /// One row per token id, all read for the logits.
    pub head: RowTable,
}

impl Globals {
    /// The tensor with this role.
    pub fn tensor(&self, role: GlobalTensor) -> &SpanTensor {
        match role {
            GlobalTensor::Embed => &self.embed.tensor,
            GlobalTensor::Norm => &self.norm,
            GlobalTensor::OutputResNorm => &self.output_res_norm,
            GlobalTensor::OutputResProj => &self.output_res_proj,
            GlobalTensor::Head => &self.head.tensor,
        }
    }

    pub(super) fn spans(&self) -> impl Iterator<Item = Span> + use<> {
        [
            self.embed.tensor.span,
            self.norm.span,
            self.output_res_norm.span,
            self.output_res_proj.span,
            self.head.tensor.span,
        ]
        .into_iter()
    }
}
