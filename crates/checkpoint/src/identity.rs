//! A short name for a checkpoint, to tell saved state of one from another's.

use std::fmt;

/// 128 bits that differ between different checkpoints by all odds. It is no defence against
/// somebody who makes two that agree on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(u128);

impl Identity {
    /// The bits, most significant byte first.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The identity that is displayed as this text.
    pub fn parse(text: &str) -> Option<Identity> {
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        let displayed = text.len() == 32 && text.bytes().all(is_digit);
        displayed.then(|| u128::from_str_radix(text, 16).ok().map(Identity))?
    }

    /// The identity with these bits.
    pub fn from_bytes(bytes: [u8; 16]) -> Identity {
        Identity(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}

/// 128-bit FNV-1a: a few lines, the same on every machine, and written down for good.
#[derive(Clone, Debug)]
pub struct IdentityHasher(u128);

const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl IdentityHasher {
    /// A hasher for one purpose; different purposes never agree.
    pub fn new(purpose: &str) -> IdentityHasher {
        let mut hasher = IdentityHasher(OFFSET_BASIS);
        hasher.field(purpose.as_bytes());
        hasher
    }

    /// Adds a field. Its length is added too, so that neighbours cannot trade bytes.
    pub fn field(&mut self, bytes: &[u8]) {
        self.bytes(&(bytes.len() as u64).to_le_bytes());
        self.bytes(bytes);
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// The identity of all that was added.
    pub fn finish(&self) -> Identity {
        Identity(self.0)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(PRIME);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fnv_1a() {
        let mut hasher = IdentityHasher(OFFSET_BASIS);
        hasher.bytes(b"a");
        assert_eq!(hasher.finish().to_string(), "d228cb696f1a8caf78912b704e4a8964");
        let identity = hasher.finish();
        assert_eq!(Identity::from_bytes(identity.to_bytes()), identity);
        assert_eq!(Identity::parse(&identity.to_string()), Some(identity));
        assert_eq!(Identity::parse(&"+".repeat(32)), None);
    }
}
