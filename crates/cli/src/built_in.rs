//! The model inside this program, and what is said where the program was built without one.
//!
//! Promises that no other module asks for the feature `demo`: whether there is a model is a
//! constant, and the words about it are chosen here.

/// The files of the built-in model, by name; none in a build that carries none.
#[cfg(feature = "demo")]
pub(crate) const FILES: &[(&str, &[u8])] = deltafin_demo::FILES;
/// The files of the built-in model, by name; none in a build that carries none.
#[cfg(not(feature = "demo"))]
pub(crate) const FILES: &[(&str, &[u8])] = &[];

/// Whether this build carries a model.
pub(crate) const IS_CARRIED: bool = cfg!(feature = "demo");

/// What may be typed for a model, in help.
pub(crate) const VALUE_NAME: &str = if IS_CARRIED { "DIR|demo" } else { "DIR" };

/// Help of an argument that names a model.
pub(crate) const HELP: &str = match IS_CARRIED {
    true => "Checkpoint directory, or 'demo' for the model inside this program",
    false => "Checkpoint directory; this build carries no demo model",
};

/// What becomes of a command to which no model was named, in help.
pub(crate) const LONG_HELP: &str = match IS_CARRIED {
    true => {
        "Checkpoint directory, or 'demo' for the model inside this program\n\n\
         Without it, the directory remembered as installed is used, or else the demo."
    }
    false => {
        "Checkpoint directory; this build carries no demo model\n\n\
         Without it, the directory remembered as installed is used."
    }
};

/// Help of an argument that names a folder, where the model inside this program has none to look at.
pub(crate) const FOLDER_HELP: &str = "Checkpoint directory";

/// The same, with what becomes of a command to which none was named.
pub(crate) const FOLDER_LONG_HELP: &str = "Checkpoint directory\n\n\
     Without it, the directory remembered as installed is used.";

/// Why a build without the model cannot run it, and what to do.
pub(crate) const LACKING: &str = "this build carries no demo model: give --model DIR \
     (or set DELTAFIN_MODEL), or build deltafin with its default feature 'demo'";

/// The bytes of one file of [`FILES`].
pub(crate) fn file(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}
