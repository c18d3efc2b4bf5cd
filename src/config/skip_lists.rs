//! Ports and subnets that pass the proxy by: entries that are none are dropped by name, and a list of nothing else is
//! left for `linkerd-init` to refuse, since without it everything would be redirected that its author wanted skipped.

use super::problem::{Consequence, misfits};
use super::values::Values;
use super::{Config, Installation};
use crate::redirect::{PortList, PortRange, Subnet};

/// A list, with the entries that are none.
struct Sifted {
    /// What is left; nothing where no entry is one.
    kept: Option<String>,
    fault: String,
}

/// Where a list is.
type Field = fn(&mut Values) -> &mut String;

impl Config {
    /// Whether what containers send passes the proxy by, to whatever port.
    pub fn skips_all_outbound(&self) -> bool {
        let ports = PortList::parse(&self.values.proxy_init.ignore_outbound_ports);
        ports.is_ok_and(|ports| {
            let merged = ports.list.merged();
            // There is no port 0.
            merged
                .first()
                .is_some_and(|all| all.first() <= 1 && all.last() == u16::MAX)
        })
    }

    /// Drops what is no port from the lists of ports, and what is no subnet from the list of subnets.
    pub(super) fn sift_skip_lists(&mut self, installation: &Installation) {
        let init = &self.values.proxy_init;
        // An empty entry is a comma too many.
        let port = |entry: &str| entry.is_empty() || entry.parse::<PortRange>().is_ok();
        let subnet = |entry: &str| entry.parse::<Subnet>().is_ok();
        let (ports, subnets) = ("a port or a range of ports", "a subnet such as 10.0.0.0/8");
        let lists: [(&str, Field, Option<Sifted>); 3] = [
            (
                "proxyInit.ignoreInboundPorts",
                |values| &mut values.proxy_init.ignore_inbound_ports,
                sift(&init.ignore_inbound_ports, port, ports),
            ),
            (
                "proxyInit.ignoreOutboundPorts",
                |values| &mut values.proxy_init.ignore_outbound_ports,
                sift(&init.ignore_outbound_ports, port, ports),
            ),
            (
                "proxyInit.skipSubnets",
                |values| &mut values.proxy_init.skip_subnets,
                sift(&init.skip_subnets, subnet, subnets),
            ),
        ];
        for (key, field, sifted) in lists {
            let Some(Sifted { kept, fault }) = sifted else { continue };
            let consequence = match kept {
                None => Consequence::Kept,
                Some(kept) => {
                    *field(self.changed()) = kept;
                    Consequence::Ignored
                }
            };
            self.report(installation, key, fault, consequence);
        }
    }
}

/// Looks for junk in a list; nothing where there is none.
fn sift(list: &str, valid: impl Fn(&str) -> bool, expected: &str) -> Option<Sifted> {
    if list.is_empty() {
        return None;
    }
    let (kept, junk): (Vec<_>, Vec<_>) = list.split(',').partition(|entry| valid(entry));
    match kept.iter().all(|entry| entry.is_empty()) {
        true => Some(Sifted {
            kept: None,
            fault: misfits(&list.split(',').collect::<Vec<_>>(), expected),
        }),
        false if junk.is_empty() => None,
        false => Some(Sifted {
            kept: Some(kept.join(",")),
            fault: misfits(&junk, expected),
        }),
    }
}
