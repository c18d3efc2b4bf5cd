//! Loopback ports that stay ours from the moment they are chosen.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A free loopback port, held by a socket that is bound but never listens.
///
/// A port that is looked up, released and then given to a server can be taken by somebody else in between. Linux lets a
/// second socket bind and listen while the first only holds the port, where both set `SO_REUSEADDR`, as the listeners
/// of Go, of the standard library and of tokio do (`socket(7)`). So a server can come, go and come again.
#[derive(Debug)]
pub(crate) struct Port {
    held: TcpSocket,
}

impl Port {
    pub(crate) fn reserve() -> Self {
        Self::reserve_on(Ipv4Addr::LOCALHOST)
    }

    /// A free port on `address`, which is of 127.0.0.0/8.
    pub(crate) fn reserve_on(address: Ipv4Addr) -> Self {
        Self::hold(SocketAddr::from((address, 0)))
    }

    fn hold(address: SocketAddr) -> Self {
        let held = TcpSocket::new_v4().expect("a TCP socket can be made");
        held.set_reuseaddr(true).expect("SO_REUSEADDR can be set");
        held.bind(address).expect("a loopback port is free");
        Self { held }
    }

    /// The same port, held once more. Nobody listens on it yet.
    pub(crate) fn again(&self) -> Self {
        Self::hold(self.address())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.held.local_addr().expect("a bound socket has an address")
    }

    pub(crate) fn number(&self) -> u16 {
        self.address().port()
    }
}
