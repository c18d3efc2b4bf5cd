//! The way to a server: which addresses a name may lead to, and connections to them.

use crate::egress::metadata;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

/// Addresses that are tried of one name, in their order: more would let a name with many dead ones hold a client up.
const TRIED: usize = 4;

/// NAT64 of a network's own (RFC 8215): where in it the address of IPv4 lies is that network's affair.
const LOCAL_TRANSLATION: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48);

/// "This network" (RFC 1122) and what is reserved (RFC 1112): nobody's address.
const NOBODYS: [Ipv4Net; 2] = [
    Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 8),
    Ipv4Net::new_assert(Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// What no name may lead to.
#[derive(Clone, Debug, Default)]
pub(super) struct Fence {
    /// The networks of the cluster's pods, Services and nodes.
    pub(super) internal: Vec<IpNet>,
}

/// Why a connection could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("no address of it answers: {0}")]
    Unreachable(io::Error),
    #[error("it has no address that may be connected to: {address} is {kind}")]
    Fenced { address: IpAddr, kind: &'static str },
}

impl Fence {
    /// What kind of address it is, where no name may lead to it.
    pub(super) fn holds(&self, address: IpAddr) -> Option<&'static str> {
        let address = address.to_canonical();
        if let Some(kind) = special(address) {
            return Some(kind);
        }
        if self.internal.iter().any(|network| network.contains(&address)) {
            return Some("one of the cluster");
        }
        let IpAddr::V6(outer) = address else { return None };
        self.holds(IpAddr::V4(metadata::embedded(outer)?))
    }

    /// Those of `addresses` that may be connected to, which `own` is none of.
    ///
    /// # Errors
    /// Where there are none of them.
    pub(super) fn pass(&self, addresses: Vec<IpAddr>, own: IpAddr) -> Result<Vec<IpAddr>, DialError> {
        let mut held = None;
        let mut passed = addresses;
        let of_own = |address: &IpAddr| (*address == own).then_some("the gateway's own");
        passed.retain(|address| match self.holds(*address).or_else(|| of_own(address)) {
            None => true,
            Some(kind) => {
                held = Some((*address, kind));
                false
            }
        });
        match (passed.is_empty(), held) {
            (true, Some((address, kind))) => Err(DialError::Fenced { address, kind }),
            (_, _) => Ok(passed),
        }
    }
}

fn special(address: IpAddr) -> Option<&'static str> {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let is_nobodys = match address {
        IpAddr::V4(address) => NOBODYS.iter().any(|network| network.contains(&address)),
        IpAddr::V6(address) => address.is_unspecified() || LOCAL_TRANSLATION.contains(&address),
    };
    if address.is_loopback() {
        Some("a loopback address")
    } else if metadata::has_address(address) {
        Some("a cloud's metadata address")
    } else if is_link_local {
        Some("a link-local address")
    } else if address.is_multicast() {
        Some("a multicast address")
    } else if is_nobodys {
        Some("nobody's address")
    } else {
        None
    }
}

/// Connects to the first of `addresses` that answers within `patience` each.
///
/// # Errors
/// With what the last one said.
pub(super) async fn connect(addresses: &[IpAddr], port: u16, patience: Duration) -> Result<TcpStream, DialError> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses.iter().take(TRIED) {
        let address = SocketAddr::new(*address, port);
        match timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    debug!(%error, "TCP_NODELAY not set");
                }
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(late) => last = late.into(),
        }
        debug!(%address, error = %last, "no connection");
    }
    Err(DialError::Unreachable(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[test]
    fn a_name_does_not_lead_into_the_cluster_or_the_machine() {
        let internal = ["10.96.0.0/12", "10.244.0.0/16", "fd00:10::/32"];
        let fence = Fence {
            internal: internal.map(|network| network.parse().unwrap()).to_vec(),
        };
        for (address, kind) in [
            ("127.0.0.1", "loopback"),
            ("::1", "loopback"),
            ("::ffff:127.0.0.2", "loopback"),
            ("169.254.169.254", "metadata"),
            ("169.254.1.1", "link-local"),
            ("fe80::1", "link-local"),
            ("fd00:ec2::254", "metadata"),
            ("100.100.100.200", "metadata"),
            ("168.63.129.16", "metadata"),
            ("0.0.0.0", "nobody's"),
            ("0.1.2.3", "nobody's"),
            ("::", "nobody's"),
            ("255.255.255.255", "nobody's"),
            ("224.0.0.1", "multicast"),
            ("ff02::1", "multicast"),
            ("10.96.0.1", "of the cluster"),
            ("fd00:10::1", "of the cluster"),
            ("::ffff:10.244.3.4", "of the cluster"),
            ("64:ff9b::a9fe:a9fe", "metadata"),
            ("64:ff9b:1::a9fe:a9fe", "nobody's"),
            ("64:ff9b:1:ffff::8c52:7006", "nobody's"),
            ("2002:0a60:0001::1", "of the cluster"),
            ("::a9fe:a9fe", "metadata"),
        ] {
            let found = fence.holds(address.parse().unwrap());
            assert!(found.is_some_and(|found| found.contains(kind)), "{address}: {found:?}");
        }
        for address in ["140.82.112.6", "10.0.0.1", "2606:50c0::1", "64:ff9b::8c52:7006"] {
            assert_eq!(fence.holds(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn a_name_with_one_good_address_leads_there_alone() {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let fence = Fence::default();
        let own: IpAddr = "192.0.2.2".parse().unwrap();
        let passed = fence.pass(
            addresses(&["127.0.0.1", "192.0.2.1", "169.254.169.254", "192.0.2.2"]),
            own,
        );
        assert_eq!(passed.unwrap(), addresses(&["192.0.2.1"]));
        let error = fence.pass(vec![own], own).unwrap_err().to_string();
        assert!(error.ends_with("192.0.2.2 is the gateway's own"), "{error}");
        let error = fence.pass(addresses(&["127.0.0.1"]), own).unwrap_err().to_string();
        assert!(error.ends_with("127.0.0.1 is a loopback address"), "{error}");
    }

    #[tokio::test]
    async fn the_next_address_is_tried_where_one_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let addresses: Vec<IpAddr> = vec!["127.0.0.99".parse().unwrap(), "127.0.0.1".parse().unwrap()];
        let patience = Duration::from_secs(20);
        let stream = connect(&addresses, port, patience).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap().ip(), addresses[1]);
        let error = connect(&addresses[..1], port, patience).await.unwrap_err();
        assert!(matches!(error, DialError::Unreachable(_)), "{error}");
    }
}
