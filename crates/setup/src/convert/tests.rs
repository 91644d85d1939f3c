#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;

use deltafin_checkpoint::Span;
use deltafin_checkpoint::pack::MANIFEST;
use deltafin_spec::{GlobalTensor, LayerId, SpineTensor};
use deltafin_store::{SpineChoice, SpineError, open_dir};

use super::*;

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures/k3-micro")
}

fn micro() -> Checkpoint {
    open_dir(fixture()).unwrap()
}

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Every file of a folder.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let file = |entry: io::Result<fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
    };
    fs::read_dir(dir).unwrap().map(file).collect()
}

fn released(checkpoint: &Checkpoint, span: Span) -> Vec<u8> {
    let mut bytes = vec![0; span.len() as usize];
    checkpoint.store.read_exact(span, &mut bytes).unwrap();
    bytes
}

/// The released bytes of a tensor.
fn released_tensor(checkpoint: &Checkpoint, id: TensorId) -> Vec<u8> {
    match id {
        TensorId::Spine(layer, role) => {
            let spine = checkpoint.catalog.spine(layer);
            let place = spine.tensor(role).unwrap().place;
            released(checkpoint, spine.record().locate(place).unwrap())
        }
        TensorId::Global(role) => {
            released(checkpoint, checkpoint.catalog.globals().tensor(role).span)
        }
        TensorId::Expert(..) => unreachable!(),
    }
}

#[test]
fn a_pack_holds_every_tensor_as_released_or_quantised() {
    let checkpoint = micro();
    for recipe in Recipe::ALL {
        let folder = tempfile::tempdir().unwrap();
        let report = convert(&checkpoint, recipe, folder.path(), &mut go_on).unwrap();
        assert_eq!((report.found, &report.kept[..]), (0, &[][..]));
        let files = contents(folder.path());
        let manifest = Manifest::parse(&files[MANIFEST]).unwrap();
        assert_eq!((manifest.recipe, manifest.bytes()), (recipe, report.bytes));
        assert_eq!(files.len(), manifest.files.len() + 1);
        let mut tensors = 0;
        for file in &manifest.files {
            let bytes = &files[&file.part.file_name()];
            assert_eq!(bytes.len() as u64 % 4096, 0);
            for tensor in &file.tensors {
                let id = TensorId::parse(&tensor.name, checkpoint.spec()).unwrap();
                let source = released_tensor(&checkpoint, id);
                let packed = &bytes[tensor.place.range()];
                tensors += 1;
                match tensor.scales {
                    None => assert!(packed == source && !recipe.quantizes(id), "{}", tensor.name),
                    Some(scales) => assert_near(&source, packed, &bytes[scales.range()]),
                }
            }
        }
        let wanted: usize =
            PackPart::all(checkpoint.spec()).map(|p| p.tensors(checkpoint.spec()).len()).sum();
        assert_eq!(tensors, wanted);
    }
}

/// Codes times scale are within half a step of the source.
fn assert_near(source: &[u8], codes: &[u8], scales: &[u8]) {
    let columns = codes.len() / (scales.len() / 2);
    let rows = source.chunks_exact(2 * columns).zip(codes.chunks_exact(columns));
    for ((source, codes), scale) in rows.zip(scales.as_chunks::<2>().0) {
        let scale = crate::half::to_f32(u16::from_le_bytes(*scale));
        for (element, code) in source.as_chunks::<2>().0.iter().zip(codes) {
            let value = f32::from_bits(u32::from(u16::from_le_bytes(*element)) << 16);
            let error = (value - f32::from(*code as i8) * scale).abs();
            // The largest of a row may lie a little beyond code 127 of a scale that was rounded down.
            let bound = if code.cast_signed().unsigned_abs() == 127 { 0.57 } else { 0.5001 };
            assert!(error <= bound * scale, "{value} as {code} of {scale}");
        }
    }
}

#[test]
fn a_pack_opens_beside_its_checkpoint_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    convert(&micro(), Recipe::Int8, folder.path(), &mut go_on).unwrap();
    let choice = SpineChoice::Pack(folder.path().to_owned());
    let packed = micro().with_spine(&choice).unwrap();
    assert_eq!(packed.recipe(), Recipe::Int8);
    assert_eq!(packed.identity().unwrap(), micro().identity().unwrap());
    assert_eq!(packed.pack(), Some(folder.path()));
    let shards = micro().catalog.shards().len();
    let spine = packed.catalog.spine(LayerId::new(0));
    let shard = spine.record().pieces()[0].shard();
    assert_eq!(shard.index(), shards);
    // Past the page cache as any other file.
    assert!(packed.store.file(shard).is_some());
    let head = &packed.catalog.globals().head;
    assert!(head.tensor().scales.is_some());
    assert_eq!(head.scale_range(1..3).unwrap().len(), 4);
    assert_eq!(head.row_bytes(), packed.spec().hidden as u64);

    let other = open_dir(fixture().with_file_name("k3-calm")).unwrap();
    assert!(matches!(other.with_spine(&choice), Err(SpineError::Source { .. })));
}

#[test]
fn damage_is_refused_found_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    convert(&micro(), Recipe::Int8, folder.path(), &mut go_on).unwrap();
    let whole = contents(folder.path());
    let open = || micro().with_spine(&SpineChoice::Pack(folder.path().to_owned()));
    let path = folder.path().join("layer-001.spine");
    // The first tensor of a layer is a norm; the middle of the file is some matrix.
    for (offset, at_open) in [(0, true), (whole["layer-001.spine"].len() as u64 / 2, false)] {
        let file = File::options().write(true).read(true).open(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
        match open() {
            Err(SpineError::Damaged { path: found, .. }) => assert!(at_open && found == path),
            opened => assert!(!at_open && opened.is_ok()),
        }
        let pack = SpinePack::open(folder.path(), 0).unwrap();
        assert_eq!(pack.damage(1).unwrap().len(), 1);
        assert_eq!(pack.damage(0).unwrap(), []);
        let report = convert(&micro(), Recipe::Int8, folder.path(), &mut go_on).unwrap();
        assert_eq!(report.files - report.found, 1);
        assert!(contents(folder.path()) == whole);
    }
    File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
    assert!(matches!(open(), Err(SpineError::Length { found: 4096, .. })));
    fs::remove_file(&path).unwrap();
    assert!(open().is_err());
    fs::write(folder.path().join(MANIFEST), "{").unwrap();
    assert!(matches!(open(), Err(SpineError::Manifest { .. })));
    convert(&micro(), Recipe::Int8, folder.path(), &mut go_on).unwrap();
    assert!(contents(folder.path()) == whole);
}

/// A matrix with one row that half precision has no scale for stays as released, and is named.
#[test]
fn a_matrix_whose_scales_do_not_fit_is_kept_as_released() {
    let copy = tempfile::tempdir().unwrap();
    for (name, bytes) in contents(&fixture()) {
        fs::write(copy.path().join(name), bytes).unwrap();
    }
    let spoiled = |checkpoint: &Checkpoint, id, offset: u64, value: f32| {
        let span = match id {
            TensorId::Spine(layer, role) => {
                let spine = checkpoint.catalog.spine(layer);
                spine.record().locate(spine.tensor(role).unwrap().place).unwrap()
            }
            _ => checkpoint.catalog.globals().head.tensor().span,
        };
        let name = &checkpoint.catalog.shard(span.shard()).name;
        let file = File::options().write(true).open(copy.path().join(name)).unwrap();
        let bits = ((value.to_bits() >> 16) as u16).to_le_bytes();
        file.write_all_at(&bits, span.offset() + span.len() - offset).unwrap();
    };
    let gate = TensorId::Spine(LayerId::new(0), SpineTensor::DenseGate);
    let head = TensorId::Global(GlobalTensor::Head);
    let checkpoint = open_dir(copy.path()).unwrap();
    spoiled(&checkpoint, gate, 2, 1e30);
    spoiled(&checkpoint, head, 4, f32::NAN);

    let checkpoint = open_dir(copy.path()).unwrap();
    let out = copy.path().join("spine-int8");
    let report = convert(&checkpoint, Recipe::Int8, &out, &mut go_on).unwrap();
    assert_eq!(report.kept, [gate.name(), head.name()]);
    let manifest = Manifest::parse(&contents(&out)[MANIFEST]).unwrap();
    for id in [gate, head] {
        let find = |file: &'_ PackFile| {
            let tensor = file.tensors.iter().find(|tensor| tensor.name == id.name())?;
            let bytes = fs::read(out.join(file.part.file_name())).unwrap();
            Some(bytes[tensor.place.range()].to_vec())
        };
        let packed = manifest.files.iter().find_map(find).unwrap();
        assert!(packed == released_tensor(&checkpoint, id));
    }
    let files = SpinePack::open(&out, 0).unwrap().manifest().files.len();
    let pack = SpinePack::open(&out, 0).unwrap();
    assert!((0..files).all(|file| pack.damage(file).unwrap().is_empty()));
    // The usual place, or a link there; and what is there is what runs.
    let auto = || open_dir(copy.path()).unwrap().with_spine(&SpineChoice::Auto);
    assert_eq!(auto().unwrap().recipe(), Recipe::Int8);
    let elsewhere = copy.path().join("elsewhere");
    fs::rename(&out, &elsewhere).unwrap();
    assert_eq!(auto().unwrap().recipe(), Recipe::Bf16);
    std::os::unix::fs::symlink(&elsewhere, &out).unwrap();
    assert_eq!(auto().unwrap().recipe(), Recipe::Int8);
    fs::remove_dir_all(&elsewhere).unwrap();
    assert!(auto().unwrap_err().to_string().contains("elsewhere"));
}

/// A drive that dies at one step, in the middle of it if it is a write, and stays dead.
struct Dying {
    steps_left: Cell<usize>,
    with: ErrorKind,
}

impl Dying {
    fn step(&self) -> io::Result<()> {
        let left = self.steps_left.get();
        self.steps_left.set(left.saturating_sub(1));
        if left == 0 { Err(self.with.into()) } else { Ok(()) }
    }
}

struct DyingFile<'d>(&'d Dying, File);

impl<'d> Disk for &'d Dying {
    type File = DyingFile<'d>;

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.step()?;
        FileSystem.create_dir(dir)
    }

    fn create(&self, path: &Path) -> io::Result<DyingFile<'d>> {
        self.step()?;
        Ok(DyingFile(self, FileSystem.create(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        FileSystem.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        FileSystem.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step()?;
        FileSystem.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        FileSystem.free_bytes(dir)
    }
}

impl Output for DyingFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(dead) = self.0.step() {
            Output::write(&mut self.1, &bytes[..bytes.len() / 2])?;
            return Err(dead);
        }
        Output::write(&mut self.1, bytes)
    }

    fn rewind(&mut self, len: u64) -> io::Result<()> {
        self.0.step()?;
        self.1.rewind(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.step()
    }
}

fn dying(steps: usize, with: ErrorKind) -> Dying {
    Dying { steps_left: Cell::new(steps), with }
}

#[test]
fn whatever_step_is_the_last_the_next_run_makes_the_same_bytes() {
    let checkpoint = micro();
    let folder = tempfile::tempdir().unwrap();
    let (whole, out) = (folder.path().join("whole"), folder.path().join("out"));
    let counter = dying(usize::MAX, ErrorKind::Other);
    convert_on(&&counter, &checkpoint, Recipe::Int8, &whole, &mut go_on).unwrap();
    let steps = usize::MAX - counter.steps_left.get();
    let whole = contents(&whole);
    assert!(steps > 300, "{steps}");
    // Every step of the last file and the manifest; of the others, some.
    let tried = (0..steps).filter(|step| step % 13 == 0 || step + 40 > steps);
    for step in tried {
        let disk = dying(step, ErrorKind::StorageFull);
        let error = convert_on(&&disk, &checkpoint, Recipe::Int8, &out, &mut go_on).unwrap_err();
        let told = matches!(error, ConvertError::Full { .. } | ConvertError::Create { .. });
        assert!(told, "step {step}: {error}");
        let is_pack = out.join(MANIFEST).exists();
        assert!(!is_pack || SpinePack::open(&out, 0).is_ok(), "step {step}");
        // And once more a little later, before it is let through.
        let again = dying(step / 2 + 3, ErrorKind::Other);
        let _ = convert_on(&&again, &checkpoint, Recipe::Int8, &out, &mut go_on);
        convert(&checkpoint, Recipe::Int8, &out, &mut go_on).unwrap();
        assert!(contents(&out) == whole, "step {step}");
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn finished_files_are_not_made_again() {
    let checkpoint = micro();
    let folder = tempfile::tempdir().unwrap();
    let stop_at = |parts: usize| {
        move |at: Progress| match at.parts_done >= parts {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let stopped = convert(&checkpoint, Recipe::Int8, folder.path(), &mut stop_at(2)).unwrap_err();
    assert!(matches!(stopped, ConvertError::Interrupted { done: 2, .. }), "{stopped}");
    // Not a pack yet, whoever looks.
    let choice = SpineChoice::Pack(folder.path().to_owned());
    assert!(matches!(micro().with_spine(&choice), Err(SpineError::NotAPack { .. })));
    let made = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let first = made(&folder.path().join("layer-000.spine"));
    let report = convert(&checkpoint, Recipe::Int8, folder.path(), &mut go_on).unwrap();
    assert_eq!(report.found, 2);
    assert_eq!(made(&folder.path().join("layer-000.spine")), first);
    let again = convert(&checkpoint, Recipe::Int8, folder.path(), &mut go_on).unwrap();
    assert_eq!((again.found, again.source_bytes), (again.files, 0));
}

#[test]
fn one_folder_has_one_converter_one_checkpoint_and_one_recipe() {
    let folder = tempfile::tempdir().unwrap();
    let mut refused = 0;
    convert(&micro(), Recipe::Int8, folder.path(), &mut |_| {
        let second = convert(&micro(), Recipe::Int8, folder.path(), &mut go_on);
        let pid = std::process::id();
        assert!(matches!(second, Err(ConvertError::Busy { holder: Some(p), .. }) if p == pid));
        refused += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(refused > 0);
    let other = convert(&micro(), Recipe::Bf16, folder.path(), &mut go_on);
    assert!(matches!(other, Err(ConvertError::OtherRecipe { found: Recipe::Int8, .. })));
    let calm = open_dir(fixture().with_file_name("k3-calm")).unwrap();
    let other = convert(&calm, Recipe::Int8, folder.path(), &mut go_on);
    assert!(matches!(other, Err(ConvertError::OtherSource { .. })));
    let manifest = fs::read_to_string(folder.path().join(MANIFEST)).unwrap();
    // A word that is wrong makes it nobody else's: what is in the files counts.
    let called = manifest.replace(r#""recipe": "int8""#, r#""recipe": "bf16""#);
    fs::write(folder.path().join(MANIFEST), &called).unwrap();
    let other = convert(&micro(), Recipe::Bf16, folder.path(), &mut go_on);
    assert!(matches!(other, Err(ConvertError::OtherRecipe { found: Recipe::Int8, .. })));
}

/// A drive with so much room.
struct Small(u64);

impl Disk for Small {
    type File = File;

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        FileSystem.create_dir(dir)
    }

    fn create(&self, _: &Path) -> io::Result<File> {
        Err(io::Error::other("nothing may be written before the room was looked at"))
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::Error::other("nothing is there yet"))
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(io::Error::other("nothing is there yet"))
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(self.0)
    }
}

#[test]
fn room_is_looked_for_before_the_first_byte() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = {
        let whole = folder.path().join("whole");
        convert(&micro(), Recipe::Int8, &whole, &mut go_on).unwrap().bytes
    };
    let out = folder.path().join("out");
    let refused = convert_on(&Small(bytes - 1), &micro(), Recipe::Int8, &out, &mut go_on);
    let needs = |error: &ConvertError| match error {
        ConvertError::Room { needed, free, .. } => (*needed, *free),
        other => panic!("{other}"),
    };
    assert_eq!(needs(&refused.unwrap_err()), (bytes, bytes - 1));
    let tried = convert_on(&Small(bytes), &micro(), Recipe::Int8, &out, &mut go_on);
    assert!(matches!(tried, Err(ConvertError::Write { .. })));
}

#[test]
fn a_pack_in_memory_is_the_pack_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    convert(&micro(), Recipe::Int8, folder.path(), &mut go_on).unwrap();
    let pack = pack_in_memory(&micro(), Recipe::Int8).unwrap();
    assert_eq!(pack.manifest().to_json(), contents(folder.path())[MANIFEST]);
}

#[test]
fn a_manifest_that_does_not_fit_the_model_is_refused() {
    use deltafin_checkpoint::pack::PackError as E;
    let checkpoint = micro();
    let whole = pack_in_memory(&checkpoint, Recipe::Int8).unwrap().manifest().clone();
    let refused = |spoil: &dyn Fn(&mut Manifest)| {
        let mut manifest = whole.clone();
        spoil(&mut manifest);
        checkpoint.catalog.with_pack(&manifest).unwrap_err()
    };
    assert!(checkpoint.catalog.with_pack(&whole).is_ok());
    assert!(matches!(refused(&|m| drop(m.files.pop())), E::MissingPart { .. }));
    assert!(matches!(refused(&|m| drop(m.files.remove(1))), E::MissingPart { .. }));
    let later = PackPart::Layer(LayerId::new(90));
    let one_more = |m: &mut Manifest, at: usize| {
        let file = PackFile { part: later, ..m.files[0].clone() };
        m.files.insert(at, file);
    };
    let last = whole.files.len() - 1;
    assert!(matches!(refused(&|m| one_more(m, last)), E::ForeignPart { .. }));
    assert!(matches!(refused(&|m| one_more(m, last + 1)), E::ForeignPart { .. }));
    assert!(matches!(refused(&|m| drop(m.files[0].tensors.pop())), E::MissingTensor { .. }));
    let name = |m: &mut Manifest, name: &str| m.files[0].tensors[0].name = name.to_owned();
    assert!(matches!(refused(&|m| name(m, "anything")), E::ForeignTensor { .. }));
    let embed = TensorId::Global(GlobalTensor::Embed).name();
    assert!(matches!(refused(&|m| name(m, &embed)), E::ForeignTensor { .. }));
    let elsewhere = whole.files[1].tensors[0].name.clone();
    assert!(matches!(refused(&|m| name(m, &elsewhere)), E::ForeignTensor { .. }));
    let first = whole.files[0].tensors[0].name.clone();
    let twice = |m: &mut Manifest| m.files[0].tensors[1].name = first.clone();
    assert!(matches!(refused(&twice), E::Duplicate { .. }));
    assert!(matches!(refused(&|m| m.recipe = Recipe::Bf16), E::Dtype { found: Dtype::I8, .. }));
    assert!(matches!(refused(&|m| m.files[0].tensors[0].dtype = Dtype::F32), E::Dtype { .. }));
    let shape = deltafin_spec::Shape::new(&[3]).unwrap();
    assert!(matches!(refused(&|m| m.files[0].tensors[0].shape = shape), E::Shape { .. }));
}
