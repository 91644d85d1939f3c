//! Bytes from elsewhere to proven files.
//!
//! [`install`] brings the files of a [`Source`] into a folder. Whenever it ends, by whatever means, what
//! is there under its own name is what the source announced, byte for byte, and the next call goes on from
//! where it was: at most the pieces in flight are fetched again.
//!
//! ```text
//! Source ──► Remote ──► Listing ──► for each file: cut into pieces ──► ranged reads, many at once
//!            (hub, mirror)                          │                    │ retried, continued at the byte
//!                                                   ▼                    ▼
//!                    NAME ◄── proof by digest ◄── NAME.part  +  map: which pieces are here, their digests
//! ```
//!
//! [`verify`] reads what is here against the digests that were noted when it came, and [`repair`] takes
//! damaged pieces back and fetches those alone.
//!
//! Of a checkpoint whose experts come when they are needed, a [`Plan`] fetches those that are likely to be, before.
//!
//! Futures live behind [`install`] and [`list`]: callers see ordinary functions, and a [`Watch`] that is told
//! how far it has come.
#![forbid(unsafe_code)]

mod adopted;
mod ahead;
mod anew;
mod bring;
mod bucket;
#[cfg(test)]
mod corpora;
mod cut;
mod error;
mod fault;
mod folder;
mod glance;
mod hub;
mod install;
mod kept;
mod lanes;
mod layered;
mod layers;
mod leftover;
mod line;
mod listing;
mod login;
mod map;
mod mark;
mod mirror;
mod noted;
mod origin;
mod packed;
mod part;
mod patience;
mod piece;
mod proof;
mod prospect;
mod readable;
mod record;
mod remote;
mod repair;
mod room;
mod secrecy;
mod sight;
mod signing;
mod source;
mod stray;
mod streamed;
mod transfer;
mod verify;
mod wanted;
mod watch;

pub use ahead::{Amount, Coming, Likely, Plan, Share, room_ahead};
pub use error::{FetchError, Replaced};
pub use folder::{check_seen, installed_from, is_finished, is_installed, is_streamed, taken_bytes};
pub use glance::{Glimpse, glance};
pub use hub::cached;
pub use install::{Installed, Missing, Order, Outlook, install, list};
pub use kept::Kept;
pub use layered::Layout;
pub use layers::begun_layers;
pub use leftover::{Leftover, Leftovers, Use, Within};
pub use listing::{Listing, RemoteFile};
pub use noted::with_notes;
pub use packed::{Forecast, Spine};
pub use patience::Patience;
pub use proof::Proof;
pub use prospect::{Prospect, Standing, standing};
pub use readable::read_through;
pub use repair::repair;
pub use secrecy::can_encrypt;
pub use sight::{Lookout, Sighting, sight};
pub use source::Source;
pub use streamed::{Streaming, inspect_streamed, open_streamed};
pub use verify::{Damage, Verified, give_up, verify, verify_packs};
pub use wanted::Wanted;
pub use watch::{Event, Watch};
