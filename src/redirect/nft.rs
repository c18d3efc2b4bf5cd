//! The rules as one native nftables table, spoken to the kernel in its own messages: no program is needed for it.
//!
//! One batch replaces the whole table, so that the kernel shows the old one or the new one and nothing between. This
//! module only makes and reads bytes; `apply` sends them. See the kernel's `nfnetlink.h` and `nf_tables.h`.
//!
//! Table `outrigger`, of family `inet` for both families (Linux 5.2) or `ip` for IPv4 alone:
//!
//! ```text
//! chain prerouting { type nat hook prerouting priority -100; … tcp dport @prerouting_0 return … redirect to :4143 }
//! chain output     { type nat hook output priority -100;     … meta skuid 2102 return … redirect to :4140 }
//! chain fence      { type filter hook output priority 0;     … meta skuid 2102 return … reject }
//! ```
//!
//! The third chain is there where there is a fence. Every list of ports or subnets is a set of intervals, named after its chain and the position of its rule.

mod decode;
mod encode;
mod expression;
mod netlink;
mod set;
mod text;

pub use decode::{DecodeError, Listing};
pub use encode::{create, list_chains, remove, replace};
pub use netlink::{Batch, Message, MessageKind, messages};

use super::rules::{Rule, RuleSet};
use super::{Family, Redirection};

/// The table's name, in every family.
pub const TABLE: &str = "outrigger";

/// The nftables family of the table (`NFPROTO_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableFamily {
    /// `inet`: IPv4 and IPv6.
    Inet,
    /// `ip`: IPv4 alone.
    Ip,
}

impl TableFamily {
    /// Both, in the order in which they are asked about.
    pub const ALL: [Self; 2] = [Self::Inet, Self::Ip];

    const fn number(self) -> u8 {
        match self {
            Self::Inet => 1,
            Self::Ip => 2,
        }
    }

    /// How a port is said to be unreachable: `NFT_REJECT_ICMPX_UNREACH` or `NFT_REJECT_ICMP_UNREACH`, and the code.
    const fn rejection(self) -> (u32, u8) {
        match self {
            Self::Inet => (2, 1),
            Self::Ip => (0, 3),
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.number() == number)
    }

    /// The families of the packets that reach the table.
    pub const fn families(self) -> &'static [Family] {
        match self {
            Self::Inet => &[Family::V4, Family::V6],
            Self::Ip => &[Family::V4],
        }
    }
}

/// The table: its family and its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Which packets reach it.
    pub family: TableFamily,
    /// What it does with them.
    pub rules: RuleSet,
}

impl Table {
    /// The table that a pod wants.
    pub fn new(redirection: &Redirection, family: TableFamily) -> Self {
        Self {
            family,
            rules: redirection.native_rules(family.families()),
        }
    }

    /// Whether both treat every new connection alike.
    pub fn redirects_alike(&self, other: &Self) -> bool {
        self.family == other.family && self.rules.redirects_alike(&other.rules)
    }
}

/// A base chain of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Chain {
    Prerouting,
    Output,
    Fence,
}

impl Chain {
    const ALL: [Self; 3] = [Self::Prerouting, Self::Output, Self::Fence];

    const fn name(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Output => "output",
            Self::Fence => "fence",
        }
    }

    /// The type, as nft and the kernel name it.
    const fn kind(self) -> &'static str {
        match self {
            Self::Prerouting | Self::Output => "nat",
            Self::Fence => "filter",
        }
    }

    /// The hook's name.
    const fn hook_name(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Output | Self::Fence => "output",
        }
    }

    const fn priority(self) -> i32 {
        match self {
            Self::Prerouting | Self::Output => PRIORITY,
            Self::Fence => FENCE_PRIORITY,
        }
    }

    /// The rules of the chain, and whether it is there at all.
    fn rules(self, rules: &RuleSet) -> Option<&[Rule]> {
        match self {
            Self::Prerouting => Some(&rules.inbound),
            Self::Output => Some(&rules.outbound),
            Self::Fence => (!rules.fence.is_empty()).then_some(rules.fence.as_slice()),
        }
    }

    /// The hook's number in `enum nf_inet_hooks`.
    const fn hook(self) -> u32 {
        match self {
            Self::Prerouting => 0,
            Self::Output | Self::Fence => 3,
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|chain| chain.name() == name)
    }

    fn set_name(self, rule: usize) -> String {
        format!("{}_{rule}", self.name())
    }
}

/// Where destination NAT happens at either hook (`NF_IP_PRI_NAT_DST`); iptables' nat table sits there too.
const PRIORITY: i32 = -100;
/// Where packets are filtered (`NF_IP_PRI_FILTER`), after that.
const FENCE_PRIORITY: i32 = 0;

#[cfg(test)]
mod tests;
