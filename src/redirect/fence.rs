//! The fence: rules of the filter table's output hook that close the ways around the proxy.
//!
//! They are asked after redirection, so that what is bound for the proxy is known by then. What is open: connections that
//! were let through when they began, and answers; the proxy's user; what was redirected to the proxy; the loop-back
//! device, but not the proxy's own ports there; ports and subnets that are skipped; DNS over UDP to the pod's name servers;
//! and what IPv6 needs to find its neighbours. All else is rejected, whatever its protocol.

use super::rules::{Matches, Rule, Target};
use super::{Family, PortRange, Redirection, Subnet, SubnetError, SubnetList};
use ipnet::IpNet;
use std::net::IpAddr;

/// What a fence leaves open beside what the redirection skips.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    /// The pod's name servers, which it may ask over UDP; over TCP they are asked by way of the proxy.
    pub name_servers: SubnetList,
}

/// What is known about the connection that a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Packets of it went through before, or it is an error about one of those.
    Known,
    /// Its destination was changed, which only redirection to the proxy does.
    Redirected,
}

const DNS: u16 = 53;

/// What the kernel itself sends so that IPv6 works: multicast listener reports and neighbour discovery, but no router's
/// advertisement (RFC 2710, 3810, 4861). Programs cannot send these without `NET_RAW`, which no rule here holds anyway.
const NEIGHBOURS: [u8; 6] = [131, 132, 133, 135, 136, 143];

impl Redirection {
    /// The fence as iptables takes it: a rule a subnet. What matches `around` is skipped by redirection.
    pub(super) fn iptables_fence(&self, around: &[Rule], family: Family) -> Vec<Rule> {
        let servers = |fence: &Fence| {
            let servers = fence.name_servers.of(family);
            // A prefix length of 0 asks nothing, and iptables does not show it.
            let nets = |server: &Subnet| Some(server.net()).filter(|net| net.prefix_len() > 0);
            servers.map(|server| nets(server).into_iter().collect()).collect()
        };
        self.fence(servers, around, &[family])
    }

    /// The fence as one nftables table takes it: a rule a list.
    pub(super) fn native_fence(&self, around: &[Rule], families: &[Family]) -> Vec<Rule> {
        let servers = |fence: &Fence| {
            let of = |&family| IpNet::aggregate(&fence.name_servers.of(family).map(Subnet::net).collect());
            families.iter().map(of).filter(|nets| !nets.is_empty()).collect()
        };
        self.fence(servers, around, families)
    }

    fn fence(
        &self,
        servers: impl FnOnce(&Fence) -> Vec<Vec<IpNet>>,
        around: &[Rule],
        families: &[Family],
    ) -> Vec<Rule> {
        let Some(fence) = &self.fence else {
            return Vec::new();
        };
        let pass = |matches, comment: &str| Rule::new(matches, Target::Return, comment);
        let known = Matches {
            connection: Some(Connection::Known),
            ..Matches::default()
        };
        let mut rules = vec![pass(known, "fence-known-connections")];
        rules.extend(self.proxy_uid.map(|uid| {
            let matches = Matches {
                uid: Some(uid),
                ..Matches::default()
            };
            pass(matches, "fence-proxy-user-id")
        }));
        rules.push(pass(self.redirected(), "fence-redirected-to-proxy"));
        rules.push(Rule::new(self.proxy_ports(), Target::Reject, "fence-proxy-ports"));
        let loopback = Matches {
            loopback: true,
            ..Matches::default()
        };
        rules.push(pass(loopback, "fence-loopback"));
        rules.extend_from_slice(around);
        rules.extend(servers(fence).into_iter().map(|to| {
            let matches = Matches {
                udp_port: Some(DNS),
                to,
                ..Matches::default()
            };
            pass(matches, "fence-name-servers")
        }));
        let neighbours = NEIGHBOURS.iter().filter(|_| families.contains(&Family::V6));
        rules.extend(neighbours.map(|&kind| {
            let matches = Matches {
                icmpv6: Some(kind),
                ..Matches::default()
            };
            pass(matches, "fence-ipv6-neighbours")
        }));
        rules.push(Rule::new(Matches::default(), Target::Reject, "fence-closed"));
        rules
    }

    /// What the output hook of the table before has sent to the proxy.
    fn redirected(&self) -> Matches {
        Matches {
            tcp: true,
            ports: vec![PortRange::single(self.outbound_port)],
            connection: Some(Connection::Redirected),
            ..Matches::default()
        }
    }

    /// The ports at which the proxy takes redirected connections, dialled by name within the pod: whoever does that is
    /// neither the proxy nor redirected, and wants the proxy to take the connection for something else.
    fn proxy_ports(&self) -> Matches {
        let ports = [self.inbound_port, self.outbound_port];
        let ports: super::PortList = ports.into_iter().map(PortRange::single).collect();
        Matches {
            loopback: true,
            tcp: true,
            ports: ports.merged(),
            ..Matches::default()
        }
    }
}

/// Reads a list of name servers, as an annotation or flag writes it: addresses and subnets, separated by commas.
///
/// # Errors
/// At the first entry that is neither.
pub fn name_servers(text: &str) -> Result<SubnetList, SubnetError> {
    let whole = |entry: &str| match entry.trim().parse::<IpAddr>() {
        Ok(address) => IpNet::from(address).to_string(),
        Err(_no_address) => entry.to_owned(),
    };
    let entries: Vec<String> = text.split(',').map(whole).collect();
    SubnetList::read(entries.iter().map(String::as_str))
}

/// The name servers of a `resolv.conf`: the first three, as the C library takes them (resolv.conf(5), `MAXNS`).
pub fn name_servers_of(resolv_conf: &str) -> SubnetList {
    let address = |line: &str| -> Option<IpAddr> {
        let mut words = line.split_whitespace();
        if words.next()? != "nameserver" {
            return None;
        }
        // A link-local address may name its device.
        words.next()?.split('%').next()?.parse().ok()
    };
    let addresses = resolv_conf.lines().filter_map(address).take(3);
    let list: Vec<String> = addresses.map(|address| IpNet::from(address).to_string()).collect();
    SubnetList::read(list.iter().map(String::as_str)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::rules::tests::usual;
    use super::*;

    fn comments(rules: &[Rule]) -> Vec<&str> {
        let comments = rules.iter().map(|rule| rule.comment.as_str());
        comments
            .filter_map(|comment| comment.strip_prefix("proxy-init/"))
            .collect()
    }

    #[test]
    fn without_a_fence_nothing_is_closed() {
        assert_eq!(usual().iptables_rules(Family::V4).fence, []);
        assert_eq!(usual().native_rules(&[Family::V4, Family::V6]).fence, []);
    }

    #[test]
    fn everything_else_is_rejected_last() {
        let fenced = Redirection {
            fence: Some(Fence {
                name_servers: name_servers("10.96.0.10, fd00::a,10.96.0.11").unwrap(),
            }),
            ..usual()
        };
        let v4 = fenced.iptables_rules(Family::V4);
        assert_eq!(
            comments(&v4.fence),
            [
                "fence-known-connections",
                "fence-proxy-user-id",
                "fence-redirected-to-proxy",
                "fence-proxy-ports",
                "fence-loopback",
                "fence-name-servers",
                "fence-name-servers",
                "fence-closed"
            ]
        );
        assert_eq!(v4.fence.last().unwrap().matches, Matches::default());
        assert_eq!(v4.outbound, usual().iptables_rules(Family::V4).outbound);
        let v6 = fenced.iptables_rules(Family::V6).fence;
        assert_eq!(v6.len(), v4.fence.len() - 1 + NEIGHBOURS.len());
        let native = fenced.native_rules(&[Family::V4]).fence;
        assert_eq!(native.len(), v4.fence.len() - 1);
    }

    #[test]
    fn name_servers_are_read_from_where_the_c_library_reads_them() {
        let text = "# nameserver 1.1.1.1\nsearch a.b\nnameserver 10.96.0.10\n nameserver\tfe80::1%eth0 x\nnameserver junk\n\
                    nameserver 10.0.0.1\nnameserver 10.0.0.2\n";
        assert_eq!(
            name_servers_of(text).to_string(),
            "10.96.0.10/32,fe80::1/128,10.0.0.1/32"
        );
        assert!(name_servers_of("").is_empty());
        assert!(name_servers("10.96.0.10,dns").is_err());
        assert_eq!(
            name_servers("10.0.0.0/8,fd00::a").unwrap().to_string(),
            "10.0.0.0/8,fd00::a/128"
        );
        assert!(name_servers("").unwrap().is_empty());
    }
}
