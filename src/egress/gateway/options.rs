//! What a gateway is started with.

use crate::cluster::Access;
use ipnet::IpNet;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

/// What a gateway is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where connections come in.
    pub ports: Vec<Port>,
    /// Where probes and metrics are answered.
    pub admin_listen: SocketAddr,
    /// Where policies, pods, and the ConfigMaps that policies name come from.
    pub facts: FactSource,
    /// The namespace of objects that name none, and of the ConfigMaps of cluster-wide policies.
    pub namespace: String,
    /// Certificates of authorities whom the gateway trusts where it begins TLS itself, PEM; read again when they change.
    pub trust_bundle: Option<PathBuf>,
    /// The list of name servers; read again when it changes.
    pub resolv_conf: PathBuf,
    /// The networks of the cluster, into which no name may lead.
    pub internal: Vec<IpNet>,
    /// How many connections may be open.
    pub limits: Limits,
    /// How long things may take.
    pub timings: Timings,
}

/// Where policies, pods and ConfigMaps come from.
#[derive(Clone, Debug)]
pub enum FactSource {
    /// Manifests; read again when they change.
    Files(Vec<PathBuf>),
    /// An API server.
    Server(Access),
}

/// A port that clients dial, and the address where what they send there comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The port that clients meant.
    pub meant: NonZeroU16,
    /// Where it comes in.
    pub address: SocketAddr,
    /// Whether datagrams come in there, instead of connections.
    pub is_udp: bool,
}

/// How many connections may be open.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In all. Further clients wait in the queue of the port.
    pub connections: usize,
    /// Of one source. Further ones are closed.
    pub per_source: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            per_source: 2048,
        }
    }
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// How often files are compared.
    pub reload: Duration,
    /// How long a source is waited for that no watch has told of yet.
    pub news: Duration,
    /// For a client to say enough to tell what it speaks. One that lets the server speak first waits as long, unless its port
    /// is declared as opaque.
    pub detect: Duration,
    /// For the head of a request, and between two requests of HTTP/1.1.
    pub head: Duration,
    /// For a connection to each address of a server, and for a TLS handshake over it.
    pub connect: Duration,
    /// How long a connection may be silent in both directions; twice as long where one side has said everything.
    pub idle: Duration,
    /// The same for datagrams between two addresses.
    pub datagrams: Duration,
    /// Between the first signal and the moment when no more connections are accepted.
    pub linger: Duration,
    /// For connections that are open after that.
    pub drain: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            reload: Duration::from_secs(10),
            // A watch tells within a second, also where the server is busy.
            news: Duration::from_secs(2),
            detect: Duration::from_secs(5),
            head: Duration::from_secs(60),
            connect: Duration::from_secs(5),
            // That of Linkerd's proxy for connections that nobody uses is shorter; TCP keep-alive of Linux begins after two hours.
            idle: Duration::from_secs(60 * 60),
            // RFC 4787, section 4.3, asks for two minutes.
            datagrams: Duration::from_secs(2 * 60),
            linger: Duration::from_secs(3),
            drain: Duration::from_secs(30),
        }
    }
}

/// A text that is no port with an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no port with an address: expected PORT=ADDR, as in 443=:4143")]
pub struct PortError(String);

impl Port {
    /// Reads `443=:4143`: connections to port 443 come in on port 4143 of every address of the node.
    ///
    /// # Errors
    /// Where it is none.
    pub fn tcp(text: &str) -> Result<Self, PortError> {
        let error = || PortError(text.to_owned());
        let (meant, address) = text.split_once('=').ok_or_else(error)?;
        Ok(Self {
            meant: meant.parse().map_err(|_number| error())?,
            address: crate::webhook::options::address(address).map_err(|_address| error())?,
            is_udp: false,
        })
    }

    /// The same for datagrams.
    ///
    /// # Errors
    /// Where it is none.
    pub fn udp(text: &str) -> Result<Self, PortError> {
        Self::tcp(text).map(|port| Self { is_udp: true, ..port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_read_with_where_it_comes_in() {
        let port = Port::tcp("443=:4143").unwrap();
        assert_eq!(
            (port.meant.get(), port.address.to_string(), port.is_udp),
            (443, "[::]:4143".to_owned(), false)
        );
        assert!(Port::udp("53=127.0.0.1:5353").unwrap().is_udp);
        for text in ["443", "443=", "0=:4143", "65536=:1", "=:1", "443=4143"] {
            assert_eq!(Port::tcp(text), Err(PortError(text.to_owned())));
        }
    }
}
