//! What is asked about: a workload, and a connection that it opens.

use super::host::{Host, Name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU16;

/// Who opens a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The pod's namespace.
    pub namespace: String,
    /// Its service account.
    pub service_account: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A connection, or a request of one, as far as its first bytes show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// What it names as its destination.
    pub host: Presented,
    /// The address that the client dialled, where it is known.
    pub address: Option<IpAddr>,
    /// The port that it dialled.
    pub port: NonZeroU16,
    /// What it speaks.
    pub traffic: Traffic,
}

/// What a connection names as its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presented {
    /// A name.
    Name(Name),
    /// An address.
    Address(IpAddr),
    /// Nothing.
    Nothing,
    /// What is no host.
    Malformed,
    /// Two different hosts.
    Disagreeing,
}

/// What the first bytes of a connection show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Traffic {
    /// HTTP/1.0 or HTTP/1.1 without TLS.
    Http,
    /// HTTP/2 without TLS.
    Http2,
    /// gRPC without TLS: HTTP/2 with the content type `application/grpc`.
    Grpc,
    /// A `ClientHello`; what is within cannot be seen.
    Tls,
    /// Anything else over TCP.
    Tcp,
    /// A datagram.
    Udp,
}

impl Presented {
    /// What the names together say that a connection shows: its SNI and its authority (`Host`, `:authority`), those that
    /// can be seen, without ports.
    ///
    /// Names that differ are no name: whoever believed one of them would let the other through.
    pub fn of<'n>(names: impl IntoIterator<Item = Option<&'n str>>) -> Self {
        let mut said = Self::Nothing;
        for name in names.into_iter().flatten() {
            let next = match Host::parse(name) {
                Ok(Host::Name(name)) => Self::Name(name),
                Ok(Host::Address(address)) => Self::Address(address),
                Err(_) => return Self::Malformed,
            };
            if said != Self::Nothing && said != next {
                return Self::Disagreeing;
            }
            said = next;
        }
        said
    }
}

impl From<Host> for Presented {
    fn from(host: Host) -> Self {
        match host {
            Host::Name(name) => Self::Name(name),
            Host::Address(address) => Self::Address(address),
        }
    }
}

impl Traffic {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Http, Self::Http2, Self::Grpc, Self::Tls, Self::Tcp, Self::Udp];

    /// Its word, for people and in logs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Http2 => "http2",
            Self::Grpc => "grpc",
            Self::Tls => "tls",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_must_agree() {
        let of = |sni, authority| Presented::of([sni, authority]);
        let name = of(Some("example.com"), None);
        assert!(matches!(&name, Presented::Name(name) if name.as_str() == "example.com"));
        assert_eq!(of(Some("EXAMPLE.com."), Some("example.com")), name);
        assert_eq!(of(Some("example.com"), Some("example.net")), Presented::Disagreeing);
        assert_eq!(of(Some("example.com"), Some("1.2.3.4")), Presented::Disagreeing);
        assert_eq!(of(Some("example.com"), Some("a b")), Presented::Malformed);
        assert_eq!(of(None, None), Presented::Nothing);
    }
}
