//! Connections that nobody can listen to: the cryptography for them, and whether this processor has it.

use std::sync::Once;

use reqwest::Url;

use crate::FetchError;

/// Sees to it that connections can be made safe, where they are to be.
pub(crate) fn secure(origin: &Url) -> Result<(), FetchError> {
    static ONCE: Once = Once::new();
    if !is_possible(origin) {
        return Err(FetchError::NoCryptography);
    }
    ONCE.call_once(|| {
        // Fails where this process has chosen already, which is as good.
        let _ = rustls_graviola::default_provider().install_default();
    });
    Ok(())
}

/// Whether this machine can talk to a server in the way that its address asks for.
pub(crate) fn is_possible(to: &Url) -> bool {
    to.scheme() != "https" || can_encrypt()
}

/// Whether this processor has what the cryptography is made of.
#[cfg(target_arch = "x86_64")]
pub fn can_encrypt() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("aes") && has!("pclmulqdq") && has!("bmi1") && has!("adx") && has!("avx2")
}

/// Whether this processor has what the cryptography is made of.
#[cfg(target_arch = "aarch64")]
pub fn can_encrypt() -> bool {
    use std::arch::is_aarch64_feature_detected as has;
    has!("aes") && has!("pmull") && has!("sha2")
}
