//! Spines that are packed while their shards arrive.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use deltafin_checkpoint::Recipe;
use deltafin_fetch::{
    Damage, Event, FetchError, Installed, Order, Spine, Wanted, give_up, install, is_finished,
    repair, verify,
};
use deltafin_store::{SpineChoice, SpineError, SpineNote, open_dir};
use deltafin_testkit::fixture;
use deltafin_testkit::hub::{Draw, Hub, Misstep, Missteps, checkpoint_files};

use crate::support::{install_until, order, quiet, source, whole_hub};

const FREED: Spine = Spine::Int8 { keeps_released: false };
const KEPT: Spine = Spine::Int8 { keeps_released: true };

fn run(hub: &Hub, dir: &Path, wanted: Wanted, spine: Spine) -> Result<Installed, FetchError> {
    run_until(hub, dir, wanted, spine, u64::MAX)
}

/// Installs until so many bytes have come, then stops.
fn run_until(
    hub: &Hub,
    dir: &Path,
    wanted: Wanted,
    spine: Spine,
    most: u64,
) -> Result<Installed, FetchError> {
    let (source, endpoint) = (source(), hub.endpoint());
    install_until(&Order { wanted, spine, ..order(&source, dir, &endpoint) }, most)
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    files.map(|entry| (name(&entry), fs::read(entry.path()).unwrap())).collect()
}

/// The pack that a conversion of the whole checkpoint makes.
fn converted() -> BTreeMap<String, Vec<u8>> {
    let (checkpoint, dir) = (open_dir(fixture("k3-micro")).unwrap(), tempfile::tempdir().unwrap());
    let watch = &mut |_: deltafin_setup::Progress| ControlFlow::Continue(());
    deltafin_setup::convert(&checkpoint, Recipe::Int8, dir.path(), watch).unwrap();
    contents(dir.path())
}

#[track_caller]
fn assert_packed(dir: &Path) {
    assert!(is_finished(dir));
    assert!(contents(&dir.join("spine-int8")) == converted(), "another pack than a conversion's");
}

/// Every file is the released one, but for holes in the freed case; gives how many bytes of holes there are.
#[track_caller]
fn holes(dir: &Path) -> u64 {
    let mut holes = 0;
    for (name, bytes) in checkpoint_files(&fixture("k3-micro")) {
        let found = fs::read(dir.join(&name)).unwrap();
        assert_eq!(found.len(), bytes.len(), "{name}");
        let differs = |(found, wanted): &(&u8, &u8)| found != wanted;
        let differing: Vec<_> = found.iter().zip(&bytes).filter(differs).collect();
        assert!(differing.iter().all(|(found, _)| **found == 0), "{name} has foreign bytes");
        holes += differing.len() as u64;
    }
    holes
}

fn damage(dir: &Path) -> Vec<Damage> {
    let found = verify(dir, true, &|_: Event<'_>| {}, &AtomicBool::new(false));
    found.unwrap().damage
}

/// Repairs what was found, as `verify --repair` does.
fn mend(hub: &Hub, dir: &Path, found: &[Damage]) -> Result<Installed, FetchError> {
    let (source, endpoint) = (source(), hub.endpoint());
    let order = Order { wanted: Wanted::Fitting, ..order(&source, dir, &endpoint) };
    repair(&order, found, quiet(), &AtomicBool::new(false))
}

/// Bytes that files take on the drive.
fn blocks(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    files.filter(|meta| meta.is_file()).map(|meta| meta.blocks() * 512).sum()
}

#[test]
fn a_whole_checkpoint_has_the_pack_of_a_conversion_and_holes_where_it_was_made_from() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    let installed = run(&hub, dir.path(), Wanted::All, FREED).unwrap();
    assert_eq!((installed.received, hub.served().bytes()), (hub.bytes(), hub.bytes()));
    assert_packed(dir.path());
    assert!(holes(dir.path()) > 0);
    let checkpoint = open_dir(dir.path()).unwrap();
    assert_eq!(checkpoint.freed(), Some(Recipe::Int8));
    let packed = checkpoint.clone().with_spine(&SpineChoice::Auto).unwrap();
    let original = open_dir(fixture("k3-micro")).unwrap();
    assert_eq!(packed.identity().unwrap(), original.identity().unwrap());
    let refused = checkpoint.clone().with_spine(&SpineChoice::Recipe(Recipe::Bf16)).unwrap_err();
    assert!(refused.to_string().contains("deltafin setup --spine bf16"), "{refused}");
    let out = tempfile::tempdir().unwrap();
    let watch = &mut |_: deltafin_setup::Progress| ControlFlow::Continue(());
    let refused = deltafin_setup::convert(&checkpoint, Recipe::Bf16, out.path(), watch);
    assert!(refused.unwrap_err().to_string().contains("deltafin setup --spine bf16"));
    assert!(damage(dir.path()).is_empty());
    // Nothing is left to be done.
    for spine in [FREED, Spine::AsBegun] {
        assert_eq!(run(&hub, dir.path(), Wanted::Fitting, spine).unwrap().received, 0);
        assert_packed(dir.path());
    }
    assert_eq!(hub.served().bytes(), hub.bytes());
}

#[test]
fn what_was_freed_comes_back_alone_and_goes_again() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    run(&hub, dir.path(), Wanted::All, FREED).unwrap();
    let taken = blocks(dir.path());
    let back = run(&hub, dir.path(), Wanted::All, Spine::Released).unwrap().received;
    assert_eq!(holes(dir.path()), 0);
    let freed = blocks(dir.path()) - taken;
    assert!(back > 0 && back < hub.bytes() && freed > 0, "{back} of {}", hub.bytes());
    let checkpoint = open_dir(dir.path()).unwrap();
    assert_eq!(checkpoint.freed(), None);
    checkpoint.with_spine(&SpineChoice::Recipe(Recipe::Bf16)).unwrap();
    assert!(damage(dir.path()).is_empty());
    // The pack is there already; nothing comes for it.
    assert_eq!(run(&hub, dir.path(), Wanted::All, KEPT).unwrap().received, 0);
    assert_packed(dir.path());
    assert_eq!(holes(dir.path()), 0);
    assert_eq!(run(&hub, dir.path(), Wanted::All, FREED).unwrap().received, 0);
    assert!(holes(dir.path()) > 0);
    assert!(blocks(dir.path()) <= taken, "{} bytes after {taken}", blocks(dir.path()));
    assert_eq!(hub.served().bytes(), hub.bytes() + back);
}

#[test]
fn holes_that_no_note_tells_of_are_refused_and_filled_again() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    run(&hub, dir.path(), Wanted::All, FREED).unwrap();
    fs::remove_file(dir.path().join(".deltafin/spine")).unwrap();
    let refused = open_dir(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("norm.weight is all zeros"), "{refused}");
    let found = damage(dir.path());
    assert!(found.len() == 1 && found[0].of.contains("in a pack alone"), "{found:?}");
    // The pack is there, so that what it was told by is all that is lost.
    assert_eq!(mend(&hub, dir.path(), &found).unwrap().received, 0);
    assert_packed(dir.path());
    assert!(damage(dir.path()).is_empty() && holes(dir.path()) > 0);
    // Nor is the pack.
    fs::remove_file(dir.path().join(".deltafin/spine")).unwrap();
    fs::remove_file(dir.path().join(".deltafin/spine-int8.json")).unwrap();
    fs::remove_dir_all(dir.path().join("spine-int8")).unwrap();
    let found = damage(dir.path());
    let back = mend(&hub, dir.path(), &found).unwrap().received;
    assert!(back > 0 && back < hub.bytes());
    assert_packed(dir.path());
    fs::remove_file(dir.path().join(".deltafin/spine")).unwrap();
    let back = run(&hub, dir.path(), Wanted::Fitting, Spine::Released).unwrap().received;
    assert!(back > 0 && back < hub.bytes());
    assert_eq!(holes(dir.path()), 0);
    open_dir(dir.path()).unwrap();
}

#[test]
fn experts_to_come_later_are_no_obstacle_and_the_rest_follows() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    let first = run(&hub, dir.path(), Wanted::Spine, FREED).unwrap().received;
    assert_packed(dir.path());
    assert_eq!(run(&hub, dir.path(), Wanted::Spine, FREED).unwrap().received, 0);
    assert!(damage(dir.path()).is_empty());
    let rest = run(&hub, dir.path(), Wanted::All, Spine::AsBegun).unwrap().received;
    assert_packed(dir.path());
    assert!(holes(dir.path()) > 0, "what the pack holds is given back again");
    // The digest is of whole shards, so what was freed comes once more to be proven with the rest.
    assert!(first + rest > hub.bytes() && first + rest < 2 * hub.bytes());
    assert!(damage(dir.path()).is_empty());
}

#[test]
fn stopped_anywhere_it_goes_on_to_the_same_pack() {
    let (hub, mut draw) = (whole_hub(Missteps::none()), Draw(5));
    let wanted = |number: u64| if number.is_multiple_of(2) { Wanted::All } else { Wanted::Spine };
    for number in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        loop {
            let most = 1 + draw.below(hub.bytes() / 2);
            match run_until(&hub, dir.path(), wanted(number), FREED, most) {
                Ok(_) => break,
                Err(error) => assert!(matches!(error, FetchError::Interrupted), "{error}"),
            }
            assert!(!is_finished(dir.path()));
        }
        assert_packed(dir.path());
        run(&hub, dir.path(), Wanted::All, FREED).unwrap();
        assert_packed(dir.path());
        assert!(holes(dir.path()) > 0);
    }
}

#[test]
fn stopped_before_its_identity_was_noted_a_pack_is_known_by_what_it_has() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    run(&hub, dir.path(), Wanted::All, FREED).unwrap();
    let unknown = SpineNote { recipe: Recipe::Int8, is_freed: true, identity: None };
    unknown.write(dir.path()).unwrap();
    assert_eq!(run(&hub, dir.path(), Wanted::All, Spine::AsBegun).unwrap().received, 0);
    assert_packed(dir.path());
    assert_ne!(SpineNote::read(dir.path()).unwrap(), unknown);
}

#[test]
fn a_note_that_is_damaged_is_told_from_what_was_freed() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    run(&hub, dir.path(), Wanted::All, FREED).unwrap();
    let (path, note) = (SpineNote::path(dir.path()), SpineNote::read(dir.path()).unwrap());
    std::fs::write(&path, [0xff, 0, 7]).unwrap();
    assert_eq!(run(&hub, dir.path(), Wanted::Fitting, Spine::AsBegun).unwrap().received, 0);
    assert_eq!(SpineNote::read(dir.path()).unwrap(), note);
    assert_packed(dir.path());
    // Where nothing was freed, nobody has said anything; a later version is not touched.
    run(&hub, dir.path(), Wanted::All, Spine::Released).unwrap();
    std::fs::write(&path, "garbage").unwrap();
    run(&hub, dir.path(), Wanted::All, Spine::AsBegun).unwrap();
    assert_eq!(SpineNote::read_if_any(dir.path()), Ok(None));
    std::fs::write(&path, "deltafin spine 2\nint8 freed\n").unwrap();
    run(&hub, dir.path(), Wanted::All, Spine::AsBegun).unwrap_err();
    assert!(path.exists());
}

#[test]
fn damage_of_a_pack_or_of_an_expert_beside_holes_is_mended_by_what_it_takes() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    run(&hub, dir.path(), Wanted::All, FREED).unwrap();
    let flip = |path: &Path, at: u64| {
        let mut bytes = fs::read(path).unwrap();
        let at = if at == u64::MAX { bytes.len() - 5 } else { at as usize };
        bytes[at] ^= 4;
        fs::write(path, bytes).unwrap();
    };
    let mend = |of: &str| {
        let found = damage(dir.path());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].of.contains(of), "{found:?}");
        give_up(dir.path(), &found).unwrap();
        let received = run(&hub, dir.path(), Wanted::Fitting, Spine::AsBegun).unwrap().received;
        assert!(damage(dir.path()).is_empty());
        assert_packed(dir.path());
        (received, found[0].bytes)
    };
    let pack = dir.path().join("spine-int8/layer-002.spine");
    flip(&pack, 100);
    let (received, _) = mend("layer 2, int8 spine");
    assert!(received > 0 && received < hub.bytes() / 10, "{received} of {}", hub.bytes());
    fs::remove_file(&pack).unwrap();
    assert_eq!(mend("layer 2, int8 spine").0, received);
    let shard = "model-00005-of-000012.safetensors";
    let whole = checkpoint_files(&fixture("k3-micro")).into_iter().find(|file| file.0 == shard);
    let mut here = fs::read(dir.path().join(shard)).unwrap();
    let last = whole.unwrap().1;
    assert_eq!(here.pop(), last.last().copied(), "an expert ends the shard");
    // `fs::write` would fill the holes: only the damaged byte is written.
    let file = fs::OpenOptions::new().write(true).open(dir.path().join(shard)).unwrap();
    let at = last.len() as u64 - 5;
    std::os::unix::fs::FileExt::write_all_at(&file, &[last[at as usize] ^ 1], at).unwrap();
    let (received, bytes) = mend("layer 4, expert");
    assert_eq!(received, bytes, "the expert alone");
}

#[test]
fn a_spine_that_was_packed_from_wrong_bytes_is_packed_again_when_its_shard_is_proven() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    let shard = "model-00004-of-000012.safetensors";
    // Only one answer is wrong, so that nothing but the digest of the whole shard can tell.
    hub.misstep(Missteps::of(&[Misstep::Flipped], 2).only_for(shard));
    run(&hub, dir.path(), Wanted::Spine, FREED).unwrap();
    assert!(is_finished(dir.path()));
    hub.misstep(Missteps::none());
    run(&hub, dir.path(), Wanted::All, FREED).unwrap();
    assert_packed(dir.path());
    assert!(holes(dir.path()) > 0);
}

#[test]
fn the_drive_holds_little_more_at_any_moment_than_in_the_end() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    let (source, endpoint, stop) = (source(), hub.endpoint(), AtomicBool::new(false));
    let order = Order { spine: FREED, ..order(&source, dir.path(), &endpoint) };
    let (most, path) = (Arc::new(AtomicU64::new(0)), dir.path().to_owned());
    let seen = most.clone();
    let watch = move |event: Event<'_>| {
        if let Event::Done { .. } | Event::Packing { .. } | Event::Began { .. } = event {
            let pack = path.join("spine-int8");
            let taken = blocks(&path) + if pack.is_dir() { blocks(&pack) } else { 0 };
            seen.fetch_max(taken, Ordering::SeqCst);
        }
    };
    install(&order, Arc::new(watch), &stop).unwrap();
    let end = blocks(dir.path()) + blocks(&dir.path().join("spine-int8"));
    // The released spine of four shards, of which each has one layer's.
    let spine: Vec<u64> = open_dir(fixture("k3-micro"))
        .map(|whole| {
            let of = |layer| whole.catalog.spine(layer).record().len();
            whole.spec().layer_ids().map(of).collect()
        })
        .unwrap();
    let window = 4 * spine.iter().max().unwrap();
    let most = most.load(Ordering::SeqCst);
    assert!(most <= end + window, "{most} bytes on the way to {end}, {window} allowed");
}

#[test]
fn a_foreign_pack_is_refused_and_a_fitting_one_is_used() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    let pack = dir.path().join("spine-int8");
    let calm = open_dir(fixture("k3-calm")).unwrap();
    let watch = &mut |_: deltafin_setup::Progress| ControlFlow::Continue(());
    deltafin_setup::convert(&calm, Recipe::Int8, &pack, watch).unwrap();
    let refused = run(&hub, dir.path(), Wanted::All, FREED).unwrap_err();
    assert!(matches!(refused, FetchError::ForeignPack { .. }), "{refused}");
    fs::remove_dir_all(&pack).unwrap();
    run(&hub, dir.path(), Wanted::All, Spine::Released).unwrap();
    let here = open_dir(dir.path()).unwrap();
    deltafin_setup::convert(&here, Recipe::Int8, &pack, watch).unwrap();
    let made = fs::metadata(pack.join("head.spine")).unwrap().ino();
    run(&hub, dir.path(), Wanted::All, FREED).unwrap();
    assert_eq!(fs::metadata(pack.join("head.spine")).unwrap().ino(), made, "not made again");
    assert_packed(dir.path());
    fs::remove_dir_all(&pack).unwrap();
    let gone = open_dir(dir.path()).unwrap().with_spine(&SpineChoice::Auto).unwrap_err();
    assert!(matches!(gone, SpineError::PackGone { .. }), "{gone}");
    assert!(gone.to_string().contains("verify --repair"), "{gone}");
}

#[test]
fn a_shard_that_is_somebody_else_s_too_keeps_its_bytes() {
    let (hub, dir) = (whole_hub(Missteps::none()), tempfile::tempdir().unwrap());
    run(&hub, dir.path(), Wanted::All, Spine::Released).unwrap();
    let (shard, elsewhere) = ("model-00003-of-000012.safetensors", tempfile::tempdir().unwrap());
    fs::hard_link(dir.path().join(shard), elsewhere.path().join(shard)).unwrap();
    run(&hub, dir.path(), Wanted::All, FREED).unwrap();
    let whole = checkpoint_files(&fixture("k3-micro")).into_iter().find(|file| file.0 == shard);
    assert!(fs::read(elsewhere.path().join(shard)).unwrap() == whole.unwrap().1);
    assert!(holes(dir.path()) > 0, "others are its own");
}
