//! Under which name a request reaches us.
//!
//! Promises: a request of HTTP/1.1 has one host and no more, and that is a name or an address with or without a port.
//! Where only this machine is to reach us, all names that a request has for us are this machine's: a page elsewhere can
//! give its own name our address.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::Request;
use axum::http::Version;
use axum::http::header::HOST;

use super::ApiError;

/// Whether the request may have come under its name.
pub(super) fn check(request: &Request, loopback: bool) -> Result<(), ApiError> {
    let hosts: Vec<_> = request.headers().get_all(HOST).iter().collect();
    let given = match hosts[..] {
        [] => None,
        [one] => Some(one.to_str().map_err(|_| malformed())?).filter(|host| !host.is_empty()),
        _ => return Err(ApiError::host("there are several Host headers: send one")),
    };
    // A target that has a host of its own is what counts; the header is to be no other machine's all the same.
    let target = request.uri().authority().map(|authority| authority.as_str());
    if given.is_none() && request.version() >= Version::HTTP_11 {
        return Err(ApiError::host("the Host header is missing: send the address of this server"));
    }
    for host in target.into_iter().chain(given) {
        let name = name(host).ok_or_else(malformed)?;
        if loopback && !is_loopback(name) {
            let message =
                "this server answers to localhost only: use http://127.0.0.1 as the address";
            return Err(ApiError::origin(message.to_owned()));
        }
    }
    Ok(())
}

fn malformed() -> ApiError {
    ApiError::host("the Host header is no host: send a name or an address, and a port")
}

/// The name or address of a host, without its port; nothing if it is neither.
fn name(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            (address, port)
        }
        None => {
            let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
            let is_one =
                |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte);
            (!name.is_empty() && name.bytes().all(is_one)).then_some(())?;
            (name, port)
        }
    };
    let is_port = |digits: &str| {
        digits.bytes().all(|byte| byte.is_ascii_digit())
            && (digits.is_empty() || digits.parse::<u16>().is_ok())
    };
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

/// `localhost`, a name below it, or a loopback address.
fn is_loopback(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let address = name.parse::<IpAddr>().map(|address| address.to_canonical());
    name == "localhost"
        || name.ends_with(".localhost")
        || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_s_names_are_loopback() {
        let is_ours = |host| name(host).is_some_and(is_loopback);
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "localhost.",
            "localhost:",
            "a.localhost",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:80",
            "[::1]",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_ours(host), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "10.0.0.1", "[::2]", "127.0.0.1.nip.io"]
        {
            assert!(name(host).is_some() && !is_ours(host), "{host}");
        }
    }

    #[test]
    fn what_is_no_host_is_none() {
        for host in [
            "",
            ":80",
            "localhost/x",
            "x@localhost",
            "local host",
            "localhost:80:80",
            "localhost:x",
            "localhost:65536",
            "localhost:+1",
            "::1",
            "[::1",
            "[::1]x",
            "[::1]:x",
            "[localhost]",
            "localh\u{f6}st",
        ] {
            assert_eq!(name(host), None, "{host}");
        }
    }
}
