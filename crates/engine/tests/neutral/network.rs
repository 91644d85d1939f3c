//! A checkpoint whose experts come over a network, as they are needed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use deltafin_fetch::{
    Event, FetchError, Layout, Order, Patience, Source, Streaming, Wanted, Watch, install,
    open_streamed,
};
use deltafin_store::Checkpoint;
use deltafin_testkit::hub::{Hub, Missteps, REPOSITORY};
use tempfile::TempDir;

/// Where the experts come from, and where they go.
pub(crate) struct Place {
    _hub: Hub,
    _dir: TempDir,
}

/// The same checkpoint, in a folder that has none of the experts yet, and that `is_cramped`: only the experts
/// of a token in one layer have room there.
pub(crate) fn streamed(
    checkpoint: &Checkpoint,
    layout: Layout,
    is_cramped: bool,
) -> (Checkpoint, Place) {
    let hub = Hub::serve_dir(checkpoint.folder().unwrap(), Missteps::none());
    // On the drive that the build is on: a folder in memory has no direct reads.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let source: Source = format!("hf:{REPOSITORY}").parse().unwrap();
    let (endpoint, watch): (_, Arc<dyn Watch>) = (hub.endpoint(), Arc::new(|_: Event<'_>| {}));
    let (dir_path, endpoint, patience) = (dir.path(), Some(endpoint.as_str()), Patience::default());
    let order = Order { endpoint, wanted: Wanted::Spine, layout, ..Order::new(&source, dir_path) };
    install(&order, watch.clone(), &AtomicBool::new(false)).unwrap();
    hub.answer_late(Duration::from_millis(2));
    let open = |cache_limit| {
        let streaming = Streaming {
            dir: dir_path,
            source: None,
            endpoint,
            jobs: 4,
            bytes_per_second: None,
            patience,
            cache_limit,
        };
        open_streamed(&streaming, watch.clone(), Arc::default())
    };
    let cache_limit = is_cramped.then(|| match open(Some(1)) {
        Err(FetchError::Limit { least, .. }) => least,
        other => panic!("{other:?}"),
    });
    let checkpoint = open(cache_limit).unwrap();
    (checkpoint, Place { _hub: hub, _dir: dir })
}
