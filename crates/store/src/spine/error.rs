//! Why a spine cannot be had.

use std::fmt;
use std::path::PathBuf;

use deltafin_checkpoint::pack::{MANIFEST, PackError};
use deltafin_checkpoint::{Identity, Recipe};
use thiserror::Error;

use crate::{OpenError, StoreError};

/// A spine that cannot be had as asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum SpineError {
    #[error(
        "{}: there is no {recipe} spine; make it with `deltafin convert --spine {recipe} --model {}`",
        path.display(), model.display()
    )]
    NoPack { path: PathBuf, recipe: Recipe, model: PathBuf },
    #[error(
        "{}: the released spine is not here, only its {held} pack, which setup made of it; \
         `deltafin setup --spine bf16 --model {}` fetches it again, and --spine {held} runs",
        model.display(), model.display()
    )]
    Freed { model: PathBuf, held: Recipe },
    #[error(
        "{}: the {recipe} pack is not there, and the released spine was freed when it was made; \
         `deltafin verify --repair {}` brings both back", path.display(), model.display()
    )]
    PackGone { path: PathBuf, recipe: Recipe, model: PathBuf },
    #[error("{source_name}: an {recipe} spine can only lie beside a checkpoint that is a folder")]
    NoFolder { source_name: String, recipe: Recipe },
    #[error(
        "{}: there is no spine pack; give auto, bf16, int8, or the folder of a pack that \
         `deltafin convert` made", path.display()
    )]
    NotAPack { path: PathBuf },
    #[error("{}: {error}; {remedy}", path.join(MANIFEST).display())]
    Manifest { path: PathBuf, error: Box<PackError>, remedy: Remedy },
    #[error(
        "{}: its manifest says recipe {found} where {wanted} is looked for; put it elsewhere and name \
         it with --spine, or, if that is not so, `deltafin convert --spine {wanted}` mends it",
        path.display()
    )]
    OtherRecipe { path: PathBuf, wanted: Recipe, found: Recipe },
    #[error(
        "{}: made from another checkpoint ({found}, this one is {wanted}); {}", path.display(),
        source_words(remedy)
    )]
    Source { path: PathBuf, wanted: Identity, found: Identity, remedy: Remedy },
    #[error("{}: no such file, though the pack's manifest names it; {remedy}", path.display())]
    FileGone { path: PathBuf, remedy: Remedy },
    #[error("{}: {found} bytes, the manifest says {wanted}; {remedy}", path.display())]
    Length { path: PathBuf, wanted: u64, found: u64, remedy: Remedy },
    #[error("{}: damaged between offsets {offset} and {}; {remedy}", path.display(), offset + len)]
    Damaged { path: PathBuf, offset: u64, len: u64, remedy: Remedy },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What makes a pack good that is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// It is made again, from what was released.
    Convert,
    /// It is made again, from what was released and comes again for that: nothing but the pack is here.
    Repair {
        /// The checkpoint's folder.
        model: PathBuf,
    },
    /// Nothing that this program does: a later one made it.
    Newer,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::Convert => f.write_str("`deltafin convert` makes it again"),
            Remedy::Repair { model } => {
                write!(f, "`deltafin verify --repair {}` makes it again", model.display())
            }
            Remedy::Newer => f.write_str("use the version of this program that made it"),
        }
    }
}

fn source_words(remedy: &Remedy) -> String {
    match remedy {
        Remedy::Repair { .. } => format!("remove it, then {remedy}"),
        Remedy::Convert | Remedy::Newer => {
            "`deltafin convert` makes it again where it is this one's, and else says so".to_owned()
        }
    }
}

impl SpineError {
    /// The same of a pack that setup repairs, for a folder has nothing else of its spine: where there is one.
    pub(super) fn mended_by_repair(mut self, model: Option<PathBuf>) -> SpineError {
        use SpineError::{Damaged, FileGone, Length, Manifest, Source};
        if let Manifest { remedy, .. }
        | Source { remedy, .. }
        | FileGone { remedy, .. }
        | Length { remedy, .. }
        | Damaged { remedy, .. } = &mut self
            && let Some(model) = model
            && *remedy == Remedy::Convert
        {
            *remedy = Remedy::Repair { model };
        }
        self
    }
}
