//! Origins of web pages, in the one spelling in which browsers send them.

/// As a browser names it: lower case, without a slash at the end and without the port that its scheme has anyway.
/// `*` stands for all, `null` for pages without an origin.
///
/// # Errors
/// What is no origin, and what one looks like.
pub(super) fn origin(typed: &str) -> Result<String, String> {
    if ["*", "null"].contains(&typed) {
        return Ok(typed.to_owned());
    }
    let lower = typed.to_ascii_lowercase();
    let Some((scheme, rest)) = lower.split_once("://") else {
        return Err(told("it has no scheme"));
    };
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if !scheme.starts_with(|c: char| c.is_ascii_lowercase()) || !scheme.bytes().all(is_scheme) {
        return Err(told("its scheme is none"));
    }
    let place = rest.strip_suffix('/').unwrap_or(rest);
    if place.contains(['/', '?', '#', '@', '\\', ',']) {
        return Err(told("an origin has no path and no user"));
    }
    if !place.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(told("it has blanks or characters that are not ASCII"));
    }
    let (host, port) =
        parted(place).ok_or_else(|| told("it has no host, or a port that is none"))?;
    let usual = match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    Ok(match port.filter(|port| Some(*port) != usual) {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    })
}

/// Host and port; nothing where one of them is none. Colons within brackets belong to an address.
fn parted(place: &str) -> Option<(&str, Option<u16>)> {
    let after = place.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match place[after..].split_once(':') {
        Some((middle, port)) => (&place[..after + middle.len()], Some(port)),
        None => (place, None),
    };
    if host.is_empty() || (host.starts_with('[') && !host.ends_with(']')) {
        return None;
    }
    match port {
        Some(digits) => Some((host, Some(digits.parse().ok()?))),
        None => Some((host, None)),
    }
}

fn told(reason: &str) -> String {
    format!("{reason}: give one such as http://localhost:3000, or '*'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_clear_is_spelt_as_browsers_do() {
        for (typed, sent) in [
            ("*", "*"),
            ("null", "null"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://localhost:3000/", "http://localhost:3000"),
            ("HTTPS://Example.COM:443", "https://example.com"),
            ("http://a:80/", "http://a"),
            ("http://a:443", "http://a:443"),
            ("http://[::1]:080", "http://[::1]"),
            ("http://[::1]", "http://[::1]"),
            ("chrome-extension://abc", "chrome-extension://abc"),
        ] {
            assert_eq!(origin(typed).as_deref(), Ok(sent), "{typed}");
        }
    }

    #[test]
    fn what_no_browser_would_send_is_refused() {
        for typed in [
            "",
            "localhost:3000",
            "http://",
            "http://a/b",
            "http://a b",
            " http://a",
            "http://a:",
            "http://a:99999",
            "http://a, http://b",
            "http://u@a",
            "://a",
            "http://a//",
            "http://[::1",
            "http://é",
            "**",
        ] {
            assert!(origin(typed).is_err(), "{typed}");
        }
    }
}
