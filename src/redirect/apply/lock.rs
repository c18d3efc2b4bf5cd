//! One run at a time in a network namespace.

use std::io::{ErrorKind, Read as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// An abstract socket: its name belongs to the network namespace, needs no file, and goes with the process that holds it.
const NAME: &str = "outrigger-redirect";

/// Held until dropped.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held, never used")] UnixListener);

/// Waits for the other runs in this network namespace, `at_most` so long.
///
/// `None` where that is impossible or takes too long: each write is one commit anyway, and a pod's start must not hang
/// on somebody who took the name.
pub(super) fn acquire(at_most: Duration) -> Option<Lock> {
    let address = SocketAddr::from_abstract_name(NAME).ok()?;
    let deadline = Instant::now() + at_most;
    loop {
        match UnixListener::bind_addr(&address) {
            Ok(listener) => return Some(Lock(listener)),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(_) => return None,
        }
        let left = deadline.checked_duration_since(Instant::now())?;
        wait(&address, left);
    }
}

/// Waits until the holder's socket is closed, by whatever end of the holder.
fn wait(address: &SocketAddr, at_most: Duration) {
    let Ok(mut stream) = UnixStream::connect_addr(address) else {
        // Between the holder's bind and its listen, or after its end.
        std::thread::yield_now();
        return;
    };
    if stream
        .set_read_timeout(Some(at_most.max(Duration::from_millis(1))))
        .is_ok()
    {
        // Nothing is ever written: the read ends with the holder, or with the time.
        let _ended = stream.read(&mut [0]);
    }
}
