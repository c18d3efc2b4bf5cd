//! Network namespaces: entering one, and what IPv6 there is in it.

use super::ApplyError;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

/// The addresses of this *thread's* namespace; `/proc/net` would be that of the process's first thread.
const IPV6_ADDRESSES: &str = "/proc/thread-self/net/if_inet6";

/// Does `work` in the network namespace at `path`, on a thread of its own that ends with it.
///
/// # Errors
/// Where there is no such namespace or it may not be entered.
pub fn inside<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> Result<T, ApplyError> {
    let error = |why| ApplyError::Namespace {
        path: path.to_owned(),
        why,
    };
    let enter = || -> io::Result<()> {
        #[expect(clippy::disallowed_methods, reason = "a namespace is a file")]
        let namespace = fs::File::open(path)?;
        Ok(move_into_link_name_space(
            namespace.as_fd(),
            Some(LinkNameSpaceType::Network),
        )?)
    };
    let entered = std::thread::scope(|scope| scope.spawn(|| enter().map(|()| work())).join());
    entered
        .unwrap_or_else(|_panic| Err(io::Error::other("the work in it panicked")))
        .map_err(error)
}

/// Whether the kernel has IPv6; it may be switched off for every device all the same.
pub fn has_ipv6() -> bool {
    ipv6_addresses().is_some()
}

/// Whether a device other than the loop-back has an IPv6 address that is not link-local.
pub fn has_ipv6_address() -> bool {
    ipv6_addresses().unwrap_or_default().lines().any(|line| {
        let mut fields = line.split_whitespace();
        // Address, device index, prefix length, scope, flags, device. Scope 00 is global.
        fields.nth(3) == Some("00") && fields.nth(1) != Some("lo")
    })
}

#[expect(clippy::disallowed_methods, reason = "the kernel tells its addresses here")]
fn ipv6_addresses() -> Option<String> {
    fs::read_to_string(IPV6_ADDRESSES).ok()
}
