//! Why a spine cannot be had.

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
    #[error("{}: {error}; make the pack again with `deltafin convert`", path.join(MANIFEST).display())]
    Manifest { path: PathBuf, error: Box<PackError> },
    #[error(
        "{}: its manifest says recipe {found} where {wanted} is looked for; put it elsewhere and name \
         it with --spine, or, if that is not so, `deltafin convert --spine {wanted}` mends it",
        path.display()
    )]
    OtherRecipe { path: PathBuf, wanted: Recipe, found: Recipe },
    #[error(
        "{}: made from another checkpoint ({found}, this one is {wanted}); `deltafin convert` makes it \
         again where it is this one's, and else says so", path.display()
    )]
    Source { path: PathBuf, wanted: Identity, found: Identity },
    #[error(
        "{}: no such file, though the pack's manifest names it; `deltafin convert` makes it again",
        path.display()
    )]
    FileGone { path: PathBuf },
    #[error(
        "{}: {found} bytes, the manifest says {wanted}; `deltafin convert` makes it again",
        path.display()
    )]
    Length { path: PathBuf, wanted: u64, found: u64 },
    #[error(
        "{}: damaged between offsets {offset} and {}; `deltafin convert` makes the file again",
        path.display(), offset + len
    )]
    Damaged { path: PathBuf, offset: u64, len: u64 },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
