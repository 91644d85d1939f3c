//! What requests to a bucket are signed with: SHA-256 and its HMAC, in Rust.

use hmac::{Hmac, Mac as _};
use object_store::client::{
    CryptoProvider, DigestAlgorithm, DigestContext, HmacContext, Signer, SigningAlgorithm,
};
use object_store::{Error, Result};
use sha2::{Digest as _, Sha256};

/// Signs.
#[derive(Debug)]
pub(crate) struct Signing;

/// A digest that is being made, and what it came to.
struct Digesting(Sha256, Vec<u8>);

/// The same with a secret.
struct Authenticating(Hmac<Sha256>, Vec<u8>);

fn unknown(what: &str) -> Error {
    Error::NotSupported { source: format!("{what} is not known here").into() }
}

impl CryptoProvider for Signing {
    fn digest(&self, algorithm: DigestAlgorithm) -> Result<Box<dyn DigestContext>> {
        match algorithm {
            DigestAlgorithm::Sha256 => Ok(Box::new(Digesting(Sha256::new(), Vec::new()))),
            _ => Err(unknown("this digest")),
        }
    }

    fn hmac(&self, algorithm: DigestAlgorithm, secret: &[u8]) -> Result<Box<dyn HmacContext>> {
        match algorithm {
            DigestAlgorithm::Sha256 => {
                let hmac = Hmac::new_from_slice(secret).map_err(|_| unknown("this secret"))?;
                Ok(Box::new(Authenticating(hmac, Vec::new())))
            }
            _ => Err(unknown("this digest")),
        }
    }

    fn sign(&self, _: SigningAlgorithm, _: &[u8]) -> Result<Box<dyn Signer>> {
        Err(unknown("signing with a private key"))
    }
}

impl DigestContext for Digesting {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finish(&mut self) -> Result<&[u8]> {
        self.1 = self.0.clone().finalize().to_vec();
        Ok(&self.1)
    }
}

impl HmacContext for Authenticating {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finish(&mut self) -> Result<&[u8]> {
        self.1 = self.0.clone().finalize().into_bytes().to_vec();
        Ok(&self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::hex;

    /// The second case of RFC 4231, and the digest of nothing.
    #[test]
    fn known_answers() {
        let mut hmac = Signing.hmac(DigestAlgorithm::Sha256, b"Jefe").unwrap();
        hmac.update(b"what do ya want ");
        hmac.update(b"for nothing?");
        let wanted = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(hmac.finish().unwrap()), wanted);
        let mut digest = Signing.digest(DigestAlgorithm::Sha256).unwrap();
        digest.update(b"");
        let wanted = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex(digest.finish().unwrap()), wanted);
    }
}
