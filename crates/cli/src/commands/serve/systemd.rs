//! What systemd gives and is told. Without it, nothing happens here.

use std::env;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;

use listenfd::ListenFd;

/// The port that systemd holds for us, if it does.
pub(super) fn listener() -> io::Result<Option<TcpListener>> {
    ListenFd::from_env().take_tcp_listener(0)
}

/// Tells the supervisor where we are, if there is one that wants to know. One that cannot be
/// reached is no reason to stop serving; it has a deadline of its own.
pub(super) fn notify(state: &str) {
    let Some(address) = env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()) else {
        return;
    };
    let _ = send(&address, state);
}

fn send(address: &std::ffi::OsStr, state: &str) -> io::Result<usize> {
    let socket = UnixDatagram::unbound()?;
    #[cfg(target_os = "linux")]
    if let Some(name) = std::os::unix::ffi::OsStrExt::as_bytes(address).strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt as _;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return socket.send_to_addr(state.as_bytes(), &address);
    }
    socket.send_to(state.as_bytes(), address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_hears_it_under_both_kinds_of_address() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let heard = |socket: UnixDatagram| {
            let mut bytes = [0; 64];
            let length = socket.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..length].to_vec()).unwrap()
        };
        let socket = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "READY=1").unwrap();
        assert_eq!(heard(socket), "READY=1");
        assert!(send(folder.path().join("nobody").as_os_str(), "READY=1").is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_abstract_name_begins_with_an_at_sign() {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("deltafin-test-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        send(format!("@{name}").as_ref(), "STOPPING=1").unwrap();
        let mut bytes = [0; 64];
        assert_eq!(socket.recv(&mut bytes).unwrap(), 10);
    }
}
