//! Ids that must not be mixed up.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The id with this zero-based number.
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// The zero-based number.
            pub const fn number(self) -> u32 {
                self.0
            }

            /// The zero-based number, to index a slice with.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A decoder layer, counted from 0.
    LayerId
}
id! {
    /// A routed expert of a layer, counted from 0.
    ExpertId
}
