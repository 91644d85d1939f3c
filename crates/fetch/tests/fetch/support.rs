//! A small checkpoint, installations of it, and what must be there afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use deltafin_fetch::{Event, FetchError, Installed, Order, Patience, Source, Wanted, install};
use deltafin_testkit::fixture;
use deltafin_testkit::hub::{Hub, Misstep, Missteps, REPOSITORY, checkpoint_files};

/// Impatient, so that tests take no time; but with more tries than a plan has missteps.
pub(crate) const IMPATIENT: Patience = Patience {
    stall: Duration::from_millis(200),
    first: Duration::from_millis(1),
    most: Duration::from_millis(4),
    attempts: 60,
    give_up: Duration::ZERO,
    hopeless: 60,
};

/// As [`IMPATIENT`], for where a request that a busy machine holds up may not be sent again.
pub(crate) const CALM: Patience = Patience { stall: Duration::from_secs(10), ..IMPATIENT };

/// As [`IMPATIENT`], for sources that are to be given up.
pub(crate) const HASTY: Patience = Patience { attempts: 3, ..IMPATIENT };

/// The files of a checkpoint of two shards, and a name that needs care.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = checkpoint_files(&fixture("k3-micro"));
    let is_late = |name: &str| name.ends_with(".safetensors") && !name.starts_with("model-0000");
    files.retain(|(name, _)| !is_late(name) || name.contains("00010"));
    files.push(("odd näme #1.txt".to_owned(), b"odd\n".to_vec()));
    files.push(("empty.txt".to_owned(), Vec::new()));
    files
}

pub(crate) fn hub(missteps: Missteps) -> Hub {
    Hub::serve(files(), missteps)
}

pub(crate) fn source() -> Source {
    format!("hf:{REPOSITORY}").parse().unwrap()
}

/// Installs into `dir`, patiently or not.
pub(crate) fn run(hub: &Hub, dir: &Path, patience: Patience) -> Result<Installed, FetchError> {
    run_from(hub, &source(), dir, patience)
}

pub(crate) fn run_from(
    hub: &Hub,
    source: &Source,
    dir: &Path,
    patience: Patience,
) -> Result<Installed, FetchError> {
    let endpoint = hub.endpoint();
    let order = Order { patience, ..order(source, dir, &endpoint) };
    install(&order, quiet(), &AtomicBool::new(false))
}

/// All of a source, impatiently.
pub(crate) fn order<'o>(source: &'o Source, dir: &'o Path, endpoint: &'o str) -> Order<'o> {
    let (endpoint, wanted) = (Some(endpoint), Wanted::All);
    Order { endpoint, jobs: 4, wanted, patience: CALM, ..Order::new(source, dir) }
}

/// Tells nobody.
pub(crate) fn quiet() -> Arc<impl Fn(Event<'_>) + Send + Sync> {
    Arc::new(|_: Event<'_>| {})
}

/// Installs until so many bytes have come, then stops; slowly, for the rest must not come between two looks at whether
/// to stop.
pub(crate) fn install_until(order: &Order<'_>, bytes: u64) -> Result<Installed, FetchError> {
    let (came, stop) = (AtomicU64::new(0), Arc::new(AtomicBool::new(false)));
    let raised = stop.clone();
    let watch = move |event: Event<'_>| {
        if let Event::Received { bytes: more } = event
            && came.fetch_add(more, Ordering::SeqCst) + more >= bytes
        {
            raised.store(true, Ordering::SeqCst);
        }
    };
    let bytes_per_second = order.bytes_per_second.or(Some(4 << 20));
    install(&Order { bytes_per_second, ..order.clone() }, Arc::new(watch), &stop)
}

/// Installs until half of a hub's bytes have come. It gives no more from there on, so that nothing ends before it is
/// stopped, however busy the machine is.
#[track_caller]
pub(crate) fn install_half(hub: &Arc<Hub>, order: &Order<'_>) {
    let (came, stop) = (AtomicU64::new(0), Arc::new(AtomicBool::new(false)));
    let (raised, giver, half) = (stop.clone(), hub.clone(), hub.bytes() / 2);
    let watch = move |event: Event<'_>| {
        if let Event::Received { bytes } = event
            && came.fetch_add(bytes, Ordering::SeqCst) + bytes >= half
        {
            giver.misstep(Missteps::of(&[Misstep::Silence], u64::MAX));
            raised.store(true, Ordering::SeqCst);
        }
    };
    let ended = install(order, Arc::new(watch), &stop).unwrap_err();
    assert!(matches!(ended, FetchError::Interrupted), "{ended}");
    hub.misstep(Missteps::none());
}

/// All of the small checkpoint.
pub(crate) fn whole_hub(missteps: Missteps) -> Hub {
    Hub::serve_dir(&fixture("k3-micro"), missteps)
}

/// What lies in a folder, our own notes apart.
pub(crate) fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let entries = entries.filter(|entry| entry.file_name() != ".deltafin");
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    entries.map(|entry| (name(&entry), fs::read(entry.path()).unwrap())).collect()
}

/// The folder has every file of the source, byte for byte, and nothing else.
#[track_caller]
pub(crate) fn assert_whole(dir: &Path) {
    let wanted: BTreeMap<_, _> = files().into_iter().collect();
    let found = contents(dir);
    assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for (name, bytes) in wanted {
        assert!(found[&name] == bytes, "{name} is not what it was");
    }
    assert!(dir.join(".deltafin/install.json").exists(), "it is not noted as complete");
    assert!(!dir.join(".deltafin/install.json.part").exists());
}

/// Whatever has a name of the source has its bytes.
#[track_caller]
pub(crate) fn assert_nothing_wrong(dir: &Path) {
    let wanted: BTreeMap<_, _> = files().into_iter().collect();
    for (name, bytes) in contents(dir) {
        if !name.ends_with(".part") {
            assert!(wanted.get(&name) == Some(&bytes), "{name} is not what it was");
        }
    }
    assert!(!dir.join(".deltafin/install.json").exists(), "it is noted as complete");
}
