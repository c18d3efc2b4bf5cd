//! Which network namespace of the node is whose: a pod is found by its address.

use crate::redirect::apply;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Addresses of *this thread's* namespace.
const IPV4: &str = "/proc/thread-self/net/fib_trie";
const IPV6: &str = "/proc/thread-self/net/if_inet6";

/// A network namespace, and its addresses but for loop-back and link-local ones.
pub(super) type Namespace = (PathBuf, HashSet<IpAddr>);

/// The namespaces that are bound in `folder`, each once. One that cannot be entered, because it is going away, is passed
/// over, and so is that of this process.
pub(super) fn bound_in(folder: &Path) -> Vec<Namespace> {
    #[expect(clippy::disallowed_methods, reason = "namespaces are files")]
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut seen = HashSet::from([identity(Path::new("/proc/self/ns/net"))]);
    let paths = entries.map(|entry| entry.path());
    let fresh = paths.filter(|path| seen.insert(identity(path)));
    fresh
        .filter_map(|path| {
            let addresses = apply::inside(&path, addresses).ok()?;
            Some((path, addresses))
        })
        .collect()
}

/// The namespace of the pod with `addresses`; `None` where several have one of them, for whoever has `NET_ADMIN` in a pod
/// gives it what addresses he likes, a neighbour's among them.
pub(super) fn of_addresses<'a>(namespaces: &'a [Namespace], addresses: &[IpAddr]) -> Option<&'a Path> {
    let mut found = namespaces
        .iter()
        .filter(|(_, own)| addresses.iter().any(|address| own.contains(address)));
    let (path, _) = found.next()?;
    found.next().is_none().then_some(path)
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn addresses() -> HashSet<IpAddr> {
    #[expect(clippy::disallowed_methods, reason = "the kernel tells its addresses here")]
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    let found = ipv4(&text(IPV4)).into_iter().chain(ipv6(&text(IPV6)));
    found.filter(|address| !address.is_loopback()).collect()
}

/// The local addresses of a routing table: each leaf is an address, and under it what it is for.
fn ipv4(table: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut leaf: Option<IpAddr> = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(leaf);
        }
    }
    found
}

/// Addresses of devices; scope 20 is link-local (`IPV6_ADDR_LINKLOCAL`).
fn ipv6(table: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let mut fields = line.split_whitespace();
        let address = u128::from_str_radix(fields.next()?, 16).ok()?;
        (fields.nth(2)? != "20").then(|| Ipv6Addr::from(address).into())
    };
    table.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let table = "Main:\n  +-- 10.244.0.0/24 2 0 2\n     |-- 10.244.0.0\n        /24 link UNICAST\n     |-- 10.244.0.7\n        \
                     /32 host LOCAL\n     |-- 10.244.0.255\n        /32 link BROADCAST\n";
        assert_eq!(ipv4(table), ["10.244.0.7".parse::<IpAddr>().unwrap()]);
        let table = "00000000000000000000000000000001 01 80 10 80       lo\nfd000000000000000000000000000007 02 40 00 80     eth0\n\
                     fe8000000000000000000000000000aa 02 40 20 80     eth0\n";
        assert_eq!(
            ipv6(table),
            ["::1".parse::<IpAddr>().unwrap(), "fd00::7".parse().unwrap()]
        );
        assert!(ipv4("nonsense\n").is_empty() && ipv6("xyz\n\n").is_empty());
    }
}
