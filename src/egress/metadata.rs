//! Where clouds hand out a node's identity and credentials. A workload that reaches one of these becomes the node, so they
//! are closed for every workload that any policy is for, unless a policy names them exactly.

use super::host::{HostPattern, Name};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of metadata services of IPv4.
pub const V4: [Ipv4Addr; 5] = [
    // AWS, Azure, Google Cloud, OpenStack, Oracle Cloud, DigitalOcean, Hetzner and others: link-local by convention.
    Ipv4Addr::new(169, 254, 169, 254),
    // AWS: credentials of tasks (Amazon ECS Developer Guide, "Task IAM role").
    Ipv4Addr::new(169, 254, 170, 2),
    // Tencent Cloud (CVM documentation, "Querying instance metadata").
    Ipv4Addr::new(169, 254, 0, 23),
    // Alibaba Cloud (ECS documentation, "Access instance metadata").
    Ipv4Addr::new(100, 100, 100, 200),
    // Azure's WireServer (Microsoft Learn, "What is IP address 168.63.129.16?").
    Ipv4Addr::new(168, 63, 129, 16),
];

/// The same of IPv6.
pub const V6: [Ipv6Addr; 2] = [
    // AWS (Amazon EC2 User Guide, "Access instance metadata").
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    // Google Cloud (Compute Engine documentation, "About VM metadata").
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// Names that lead there.
const NAMES: [&str; 6] = [
    // Google Cloud, same document; the short one is completed by no search domain.
    "metadata.google.internal",
    "metadata.goog",
    "metadata",
    // AWS, same guide.
    "instance-data",
    "instance-data.ec2.internal",
    // Tencent Cloud, same document.
    "metadata.tencentyun.com",
];

/// Whether `address` is one of a metadata service, in whatever way it is wrapped into one of IPv6.
pub fn has_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => V4.contains(&address),
        IpAddr::V6(address) => V6.contains(&address) || embedded(address).is_some_and(|inner| V4.contains(&inner)),
    }
}

/// Whether `name` is one of a metadata service.
pub fn has_name(name: &Name) -> bool {
    NAMES.contains(&name.as_str())
}

/// Whether `pattern` names one of a metadata service, and nothing else.
pub fn is_named_by(pattern: &HostPattern) -> bool {
    pattern.is_exact() && NAMES.contains(&pattern.to_string().as_str())
}

/// The address of IPv4 within one of IPv6: RFC 6052 (NAT64, its well-known prefix), RFC 3056 (6to4), and the compatible form
/// of RFC 4291.
pub(super) fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [prefix @ .., high, low] = address.segments();
    let (high, low) = match prefix {
        [0x64, 0xff9b, 0, 0, 0, 0] | [0, 0, 0, 0, 0, 0] => (high, low),
        [0x2002, high, low, ..] => (high, low),
        _ => return None,
    };
    Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::host::Host;

    #[test]
    fn an_address_is_known_in_every_form() {
        for text in [
            "169.254.169.254",
            "2852039166",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
            "2002:a9fe:a9fe::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "100.100.100.200",
        ] {
            let Ok(Host::Address(address)) = Host::parse(text) else {
                panic!("{text} is an address");
            };
            assert!(has_address(address), "{text}");
        }
        for text in ["169.254.169.253", "fd00:ec2::253", "64:ff9b::1.1.1.1", "::1"] {
            assert!(!has_address(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn a_name_is_known_in_every_form() {
        let known = |text: &str| matches!(Host::parse(text), Ok(Host::Name(name)) if has_name(&name));
        assert!(known("Metadata.Google.Internal.") && known("metadata"));
        assert!(!known("www.metadata.google.internal") && !known("metadata.google.internal.evil.test"));
    }
}
