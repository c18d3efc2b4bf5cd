//! An address beyond the loop-back device to which this pod has a route, where the usual ones have none.
//!
//! Connections are redirected only after they have found a route, so a pod without a default route must be tried with a
//! neighbour: it need not exist.

use crate::redirect::Family;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Addresses to try: those that documents use (RFC 5737, RFC 3849) and so nobody has, then neighbours.
pub(super) fn candidates(family: Family) -> Vec<IpAddr> {
    match family {
        Family::V4 => {
            let neighbours = read("/proc/thread-self/net/route")
                .lines()
                .filter_map(neighbour_v4)
                .collect::<Vec<_>>();
            [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2))]
                .into_iter()
                .chain(neighbours)
                .collect()
        }
        Family::V6 => {
            let neighbours = read("/proc/thread-self/net/ipv6_route")
                .lines()
                .filter_map(neighbour_v6)
                .collect::<Vec<_>>();
            [IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2))]
                .into_iter()
                .chain(neighbours)
                .collect()
        }
    }
}

/// Whether a connection to `address` would leave through a device other than the loop-back: its own addresses do not.
pub(super) fn is_elsewhere(address: IpAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    // Connecting a datagram socket only looks up the route.
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() != address && !source.ip().is_loopback())
}

/// Device, destination, gateway, flags, three more, mask; numbers are hexadecimal and in the byte order of the machine.
fn neighbour_v4(line: &str) -> Option<IpAddr> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = |index: usize| {
        u32::from_str_radix(fields.get(index)?, 16)
            .ok()
            .map(|raw| u32::from_be_bytes(raw.to_ne_bytes()))
    };
    let (network, mask) = (number(1)?, number(7)?);
    // The highest address but one: the highest is for broadcasts, the lowest is often the gateway's.
    let host = (!mask).checked_sub(1).filter(|&host| host > 0)?;
    (network != 0).then(|| Ipv4Addr::from(network | host).into())
}

/// Destination, its prefix length, source, its prefix length, next hop, four more, device.
fn neighbour_v6(line: &str) -> Option<IpAddr> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let network = u128::from_str_radix(fields.first()?, 16).ok()?;
    let length = u32::from_str_radix(fields.get(1)?, 16).ok()?;
    let address = Ipv6Addr::from(network | 0xfffe);
    let usable = network != 0 && length <= 112 && fields.last() != Some(&"lo");
    (usable && !address.is_unicast_link_local() && !address.is_multicast()).then_some(address.into())
}

#[expect(clippy::disallowed_methods, reason = "the kernel tells its routes here")]
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
