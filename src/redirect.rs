//! The rules that send a pod's traffic through its proxy: written once, for the init container and for the CNI plugin.
//!
//! Where a pod asks for it, they also close the ways around the proxy: the fence.
//!
//! The rules are data. They are rendered for `iptables-restore` and for one native nftables table, and parsed back from
//! what the kernel shows, so that a second run changes nothing and a check needs no second description. Everything here
//! is pure but for [`apply`], the only module that opens sockets or starts programs.
//!
//! This room never touches a rule that is not its own.

pub mod apply;
pub mod iptables;
pub mod nft;

mod fence;
mod ports;
mod rules;
mod subnets;

pub use fence::{Connection, Fence, name_servers, name_servers_of};
pub use ports::{ParsedPorts, PortError, PortList, PortListError, PortRange};
pub use rules::{Matches, Redirection, Rule, RuleSet, Target};
pub use subnets::{Family, Subnet, SubnetError, SubnetList};
