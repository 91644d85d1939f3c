//! A store of which somebody noted what its bytes should be.

use std::sync::Arc;

use deltafin_checkpoint::pack::Digest;
use deltafin_checkpoint::{Catalog, Shard, ShardId, Span};
use deltafin_spec::FfnKind;
use deltafin_store::{LocalFile, Noted, Store, StoreError};

/// Any store that is right when this is made, with digests of all its bytes: of each piece of an expert, and of what
/// lies between experts in pieces of `bytes`, wherever that cuts tensors.
pub struct NotedStore {
    inner: Arc<dyn Store>,
    /// By shard, in the order of bytes.
    pieces: Vec<Vec<Noted>>,
}

impl NotedStore {
    /// `inner`, whose bytes are what they should be.
    pub fn new(inner: Arc<dyn Store>, catalog: &Catalog, bytes: u64) -> NotedStore {
        let spec = catalog.spec();
        let layers = spec.layer_ids().filter(|layer| spec.layer(*layer).ffn == FfnKind::Moe);
        let experts = layers.flat_map(|layer| {
            spec.moe.expert_ids().map(move |id| catalog.expert(layer, id).record)
        });
        let mut experts: Vec<Span> = experts.flat_map(|record| record.pieces().to_vec()).collect();
        experts.sort();
        let of_shard = |(number, shard): (usize, &Shard)| {
            let shard_id = ShardId::new(number as u32);
            let (mut pieces, mut at) = (Vec::new(), 0);
            let end = Span::new(shard_id, shard.len, 0).unwrap();
            let here = experts.iter().filter(|expert| expert.shard() == shard_id).copied();
            for expert in here.chain([end]) {
                while at < expert.offset() {
                    let len = bytes.min(expert.offset() - at);
                    pieces.push(Span::new(shard_id, at, len).unwrap());
                    at += len;
                }
                pieces.extend(Some(expert).filter(|expert| expert.len() > 0));
                at = expert.end();
            }
            pieces.into_iter().map(|span| noted(&*inner, span)).collect()
        };
        let pieces = inner.shards().iter().enumerate().map(of_shard).collect();
        NotedStore { inner, pieces }
    }
}

fn noted(store: &dyn Store, span: Span) -> Noted {
    let mut bytes = vec![0; span.len() as usize];
    store.read_exact(span, &mut bytes).unwrap();
    Noted { span, digest: Digest::of(&bytes) }
}

impl Store for NotedStore {
    fn shards(&self) -> &[Shard] {
        self.inner.shards()
    }

    fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        self.inner.read_exact(span, buf)
    }

    fn file(&self, shard: ShardId) -> Option<LocalFile<'_>> {
        self.inner.file(shard)
    }

    fn noted(&self, shard: ShardId, offset: u64) -> Option<Noted> {
        let pieces = self.pieces.get(shard.index())?;
        let at = pieces.partition_point(|piece| piece.span.end() <= offset);
        pieces.get(at).copied()
    }
}
