//! A manifest with anything wrong in it: nobody runs with it unawares, and converting again makes the pack
//! that a first conversion makes, to the byte.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use deltafin_checkpoint::Recipe;
use deltafin_checkpoint::pack::MANIFEST;
use deltafin_setup::{ConvertError, Converted, convert};
use deltafin_store::{Checkpoint, SpineChoice, SpinePack, open_dir};

fn micro() -> Checkpoint {
    open_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures/k3-micro")).unwrap()
}

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// A pack, and what it is to be again.
struct Pack {
    folder: tempfile::TempDir,
    recipe: Recipe,
    whole: BTreeMap<PathBuf, Vec<u8>>,
}

impl Pack {
    fn make(recipe: Recipe) -> Pack {
        let folder = tempfile::tempdir().unwrap();
        let mut pack = Pack { folder, recipe, whole: BTreeMap::new() };
        pack.convert();
        pack.whole = contents(pack.folder.path());
        pack
    }

    fn convert(&self) -> Converted {
        let go_on = &mut |_| ControlFlow::Continue(());
        convert(&micro(), self.recipe, self.folder.path(), go_on).unwrap()
    }

    fn manifest(&self) -> &[u8] {
        &self.whole[&self.folder.path().join(MANIFEST)]
    }

    fn manifest_text(&self) -> String {
        String::from_utf8(self.manifest().to_vec()).unwrap()
    }

    fn note(&self, manifest: &[u8]) {
        fs::write(self.folder.path().join(MANIFEST), manifest).unwrap();
    }

    /// What a run says of it at the start; or, of a file with a wrong digest, when it is first used.
    fn refusal(&self) -> Option<String> {
        let opened = micro().with_spine(&SpineChoice::Pack(self.folder.path().to_owned()));
        if let Err(error) = opened {
            return Some(error.to_string());
        }
        let pack = SpinePack::open(self.folder.path(), 0).unwrap();
        let files = 0..pack.manifest().files.len();
        let damaged = files.flat_map(|number| pack.damage(number).unwrap()).next();
        damaged.map(|damage| format!("deltafin convert: {}", damage.path.display()))
    }

    /// Puts `damaged` in the manifest's place and converts again.
    #[track_caller]
    fn mends(&self, damaged: &[u8], what: &str) -> Converted {
        self.note(damaged);
        let converted = self.convert();
        assert!(contents(self.folder.path()) == self.whole, "{what}");
        converted
    }
}

/// Every value of the pack, of its first file's first tensors, and of its last file's end.
#[test]
fn a_wrong_value_is_refused_and_mended() {
    let pack = Pack::make(Recipe::Int8);
    let manifest = pack.manifest_text();
    let skipped = manifest.match_indices(r#""dtype""#).nth(2).unwrap().0;
    let last = manifest.rfind(r#""name""#).unwrap();
    let mut tried = 0;
    for (at, _) in manifest.match_indices("\": ") {
        let value = at + 3;
        if (skipped..last).contains(&at) || manifest[value..].starts_with(['[', '{']) {
            continue;
        }
        let key = manifest[..at].rsplit('"').next().unwrap();
        let end = value + manifest[value..].find([',', '\n']).unwrap();
        if key == "version" {
            // Whoever else writes packs is not to lose one.
            continue;
        }
        for wrong in wrongs(key, &manifest[value..end]) {
            let damaged = [&manifest[..value], &wrong, &manifest[end..]].concat();
            let what = format!("{key} is {wrong}");
            pack.note(damaged.as_bytes());
            let refusal = pack.refusal().unwrap_or_else(|| panic!("{what} is not refused"));
            assert!(refusal.contains("deltafin convert"), "{what}: {refusal}");
            pack.mends(damaged.as_bytes(), &what);
            tried += 1;
        }
    }
    assert!(tried > 20, "{tried}");
}

/// Another digit, and words that might stand there.
fn wrongs(key: &str, value: &str) -> Vec<String> {
    let changed = value.find(|c: char| c.is_ascii_digit()).map(|at| {
        let digit = if value[at..].starts_with('7') { "3" } else { "7" };
        [&value[..at], digit, &value[at + 1..]].concat()
    });
    let words: &[&str] = match key {
        "dtype" => &["F16", "I8", "X"],
        "name" => &["model.norm.weight", ""],
        "format" => &["deltafin spine pick"],
        _ => &[],
    };
    let words = words.iter().map(|word| format!("\"{word}\"")).filter(|word| word != value);
    changed.into_iter().chain(words).collect()
}

/// A recipe that is called by the other's name.
#[test]
fn a_recipe_by_the_wrong_name_is_mended_without_making_anything() {
    for (recipe, wrong) in [(Recipe::Int8, "bf16"), (Recipe::Bf16, "int8")] {
        let pack = Pack::make(recipe);
        let manifest = pack.manifest_text();
        let damaged = manifest.replacen(&format!("\"{recipe}\""), &format!("\"{wrong}\""), 1);
        assert_ne!(damaged, manifest);
        let converted = pack.mends(damaged.as_bytes(), wrong);
        assert_eq!((converted.found, converted.manifest_mended), (converted.files, true));
    }
}

/// Any byte of it, also one that stands between the values.
#[test]
fn any_wrong_byte_is_mended() {
    let pack = Pack::make(Recipe::Int8);
    let manifest = pack.manifest().to_vec();
    for (number, at) in (0..manifest.len()).step_by((manifest.len() / 12) | 1).enumerate() {
        let mut damaged = manifest.clone();
        damaged[at] ^= [1, 32][number % 2];
        pack.mends(&damaged, &format!("byte {at}"));
    }
    for cut in [0, manifest.len() / 2, manifest.len() - 1] {
        pack.mends(&manifest[..cut], &format!("cut at {cut}"));
    }
    assert!(pack.mends(&[&manifest, &b"\n"[..]].concat(), "one byte more").manifest_mended);
    assert!(!pack.mends(&manifest, "whole").manifest_mended);
}

/// Two matrices of one shape that were given each other's names: the bytes have their digests.
#[test]
fn tensors_under_each_other_s_names_are_made_again() {
    let pack = Pack::make(Recipe::Int8);
    let manifest = pack.manifest_text();
    let (q, k) = ("self_attn.q_proj.weight", "self_attn.k_proj.weight");
    let swapped = manifest.replacen(q, "?", 1).replacen(k, q, 1).replacen('?', k, 1);
    assert_ne!(swapped, manifest);
    let converted = pack.mends(swapped.as_bytes(), "swapped names");
    assert_eq!(converted.files - converted.found, 1);
}

/// What another version of the program made is nobody's to make again.
#[test]
fn another_version_is_refused_and_stays() {
    let pack = Pack::make(Recipe::Int8);
    let later = pack.manifest_text().replacen("\"version\": 1", "\"version\": 2", 1);
    for name in [MANIFEST.to_owned(), format!("{MANIFEST}.part")] {
        fs::remove_file(pack.folder.path().join(MANIFEST)).unwrap_or_default();
        fs::write(pack.folder.path().join(&name), &later).unwrap();
        let before = contents(pack.folder.path());
        let go_on = &mut |_| ControlFlow::Continue(());
        let refused = convert(&micro(), pack.recipe, pack.folder.path(), go_on).unwrap_err();
        assert!(matches!(refused, ConvertError::OtherVersion { found: 2, .. }), "{refused}");
        assert!(contents(pack.folder.path()) == before, "{name}");
    }
    pack.note(later.as_bytes());
    let refusal = pack.refusal().unwrap();
    assert!(refusal.contains("version 2") && !refusal.contains("deltafin convert"), "{refusal}");
}

/// The spine of what lay in a checkpoint's folder before is not made into another's without a word.
#[test]
fn a_foreign_pack_in_the_checkpoint_s_own_folder_is_refused_and_stays() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures");
    let (folder, go_on) = (tempfile::tempdir().unwrap(), &mut |_| ControlFlow::Continue(()));
    for entry in fs::read_dir(fixtures.join("k3-micro")).unwrap() {
        let path = entry.unwrap().path();
        std::os::unix::fs::symlink(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let out = folder.path().join("spine-int8");
    convert(&open_dir(fixtures.join("k3-calm")).unwrap(), Recipe::Int8, &out, go_on).unwrap();
    let before = contents(&out);
    let refused = convert(&open_dir(folder.path()).unwrap(), Recipe::Int8, &out, go_on);
    assert!(matches!(refused, Err(ConvertError::OtherSource { .. })), "{refused:?}");
    assert!(contents(&out) == before);
}
