//! What a web server is told of who asks.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{HeaderValue, InvalidHeaderValue};
use percent_encoding::percent_decode_str;
use reqwest::Url;

/// The header for the name and password in a URL; nothing where there are none.
pub(crate) fn of_url(url: &Url) -> Option<Result<HeaderValue, InvalidHeaderValue>> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut login: Vec<u8> = percent_decode_str(url.username()).collect();
    login.push(b':');
    login.extend(percent_decode_str(url.password().unwrap_or_default()));
    Some(secret(&format!("Basic {}", BASE64_STANDARD.encode(login))))
}

/// The header for a token.
pub(crate) fn of_token(token: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    secret(&format!("Bearer {}", token.trim()))
}

fn secret(value: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(value)?;
    // Left out wherever headers are shown.
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_becomes_a_header_that_is_not_shown() {
        let header = |url: &str| of_url(&Url::parse(url).unwrap()).map(Result::unwrap);
        // The example of RFC 7617.
        let wanted = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
        let given = header("https://Aladdin:open%20sesame@h/").unwrap();
        assert_eq!(given, wanted);
        assert!(!format!("{given:?}").contains("QWxh"));
        assert_eq!(header("https://token@h/").unwrap(), "Basic dG9rZW46");
        assert_eq!(header("https://h/"), None);
    }
}
