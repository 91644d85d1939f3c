//! Where files come from, and which of them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use deltafin_fetch::{Event, FetchError, Order, Source, Wanted, install, list};
use deltafin_testkit::hub::{Hub, Missteps, REPOSITORY, REVISION, checkpoint_files};

use crate::support::{
    CALM, HASTY, assert_whole, contents, hub, order, quiet, run, run_from, source,
};

fn demo() -> Hub {
    Hub::serve_dir(&deltafin_testkit::fixture("k3-calm"), Missteps::none())
}

#[test]
fn a_mirror_gives_what_a_hub_gives() {
    let (hub, dir) = (demo(), tempfile::tempdir().unwrap());
    let source: Source = hub.mirror().parse().unwrap();
    let installed = run_from(&hub, &source, dir.path(), CALM).unwrap();
    let wanted = checkpoint_files(&deltafin_testkit::fixture("k3-calm"));
    assert_eq!(contents(dir.path()), wanted.into_iter().collect());
    assert_eq!(installed.bytes, hub.bytes());
}

/// What was stopped between its last byte and its name may have been replaced before it went on; only the
/// entity tag tells, where the source gives no digests.
#[test]
fn a_mirror_is_asked_whether_a_whole_part_is_still_the_one_it_has() {
    let (hub, dir) = (demo(), tempfile::tempdir().unwrap());
    run_from(&hub, &hub.mirror().parse().unwrap(), dir.path(), CALM).unwrap();
    let mut files = checkpoint_files(&deltafin_testkit::fixture("k3-calm"));
    let (name, bytes) = files.iter_mut().find(|(name, _)| name.ends_with(".safetensors")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;

    let (shard, notes) = (dir.path().join(&*name), dir.path().join(".deltafin"));
    let map = notes.join(format!("{name}.map"));
    let said = std::fs::read_to_string(&map).unwrap();
    std::fs::write(&map, said.strip_suffix("proven\n").unwrap()).unwrap();
    std::fs::rename(&shard, dir.path().join(format!("{name}.part"))).unwrap();
    std::fs::remove_file(notes.join("install.json")).unwrap();

    let hub = Hub::serve(files.clone(), Missteps::none());
    run_from(&hub, &hub.mirror().parse().unwrap(), dir.path(), CALM).unwrap();
    assert_eq!(contents(dir.path()), files.into_iter().collect());
}

#[test]
fn what_is_not_there_is_said() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    for (source, words) in [
        ("hf:deltafin/none".to_owned(), "404"),
        (format!("hf:{REPOSITORY}@absent"), "check the name and the revision"),
        (format!("{}none/", hub.mirror()), "there is no config.json"),
        ("some/folder".to_owned(), "it is here already"),
    ] {
        let error = run_from(&hub, &source.parse().unwrap(), dir.path(), CALM).unwrap_err();
        assert!(error.to_string().contains(words), "{source}: {error}");
    }
}

#[test]
fn an_outlook_says_what_would_come_and_writes_nothing() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    let (source, endpoint, quiet) = (source(), hub.endpoint(), Arc::new(|_: Event<'_>| {}));
    let order = order(&source, dir.path(), &endpoint);
    let outlook = list(&order, quiet.clone(), &AtomicBool::new(false)).unwrap();
    assert_eq!(outlook.source, format!("hf:{REPOSITORY}@{REVISION}"));
    assert_eq!(outlook.files.iter().map(|prospect| prospect.missing).sum::<u64>(), hub.bytes());
    assert!(outlook.files.iter().all(|prospect| prospect.here == 0));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    run(&hub, dir.path(), CALM).unwrap();
    let outlook = list(&order, quiet, &AtomicBool::new(false)).unwrap();
    assert!(outlook.files.iter().all(|p| p.here == p.file.bytes && p.missing == 0));
}

#[test]
fn some_layers_first_and_the_rest_later() {
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    let (source, endpoint, quiet) = (source(), hub.endpoint(), Arc::new(|_: Event<'_>| {}));
    let layers = Wanted::Layers(1..=2);
    let order = Order { wanted: layers.clone(), ..order(&source, dir.path(), &endpoint) };
    let outlook = list(&order, quiet.clone(), &AtomicBool::new(false)).unwrap();
    let looked_at = hub.served().bytes();
    let installed = install(&order, quiet, &AtomicBool::new(false)).unwrap();
    assert!(installed.extent == layers && installed.received < installed.bytes, "{installed:?}");
    // What was said to come came, and nothing else; but for the look at which layers there are.
    let missing: u64 = outlook.files.iter().map(|prospect| prospect.missing).sum();
    assert_eq!(installed.received, missing);
    let config = std::fs::metadata(dir.path().join("config.json")).unwrap().len();
    assert_eq!(hub.served().bytes() - looked_at, missing + config);
    let rest = run(&hub, dir.path(), CALM).unwrap();
    assert_eq!(installed.received + rest.received, hub.bytes());
    assert_whole(dir.path());
}

#[test]
fn a_drive_without_room_is_refused_before_the_first_byte() {
    // A file so long that no drive has room for it cannot be served; what it announces can.
    let (hub, dir) = (hub(Missteps::none()), tempfile::tempdir().unwrap());
    hub.announce("model-00002-of-000012.safetensors", 1 << 60);
    let error = run(&hub, dir.path(), CALM).unwrap_err();
    assert!(matches!(error, FetchError::Room { needed, .. } if needed >= 1 << 60), "{error}");
    assert_eq!(hub.served().bytes(), 0);
}

#[test]
fn a_mirror_that_fails_now_and_then_is_asked_again_for_what_failed_alone() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        // Every second answer is none, whatever was asked.
        for (number, connection) in listener.incoming().map_while(Result::ok).enumerate() {
            let mut lines = BufReader::new(&connection).lines().map_while(Result::ok);
            let asked = lines.next().unwrap_or_default();
            lines.find(String::is_empty);
            let status = match number % 2 {
                1 => "503 Service Unavailable\r\nContent-Length: 0",
                _ if asked.contains("/config.json ") => "200 OK\r\nContent-Length: 7",
                _ => "404 Not Found\r\nContent-Length: 0",
            };
            let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n");
            let _ = (&connection).write_all(answer.as_bytes());
        }
    });
    let (source, dir) =
        (format!("http://{address}/m/").parse().unwrap(), tempfile::tempdir().unwrap());
    let order = Order { patience: HASTY, wanted: Wanted::All, ..order(&source, dir.path(), "") };
    let outlook = list(&order, quiet(), &AtomicBool::new(false)).unwrap();
    let found: Vec<_> =
        outlook.files.iter().map(|found| (&*found.file.name, found.file.bytes)).collect();
    assert_eq!(found, [("config.json", 7)]);
}
