//! Egress control by host name: which hosts outside of the cluster a workload may reach, and how.
//!
//! 1. [`Policy`] is one resource, read and checked: the hosts or addresses that it is about, and the knobs.
//! 2. [`Policies`] are all of them, an operator's and those of each namespace, merged by one order of precedence.
//! 3. [`Ruling`] is what they say to one workload; it decides about connections, with a reason.
//! 4. [`compile::compile`] turns them into what Linkerd's proxies enforce, and says of each policy what comes of it.
//!
//! This room never does I/O, but for its part `gateway`. Whoever enforces a decision, shows it or writes it down asks here, so that all agree.

pub mod compile;
pub mod connection;
#[cfg(feature = "egress-gateway")]
pub mod gateway;
pub mod host;
pub mod learn;
pub mod metadata;
pub mod policies;
pub mod policy;
pub mod record;
pub mod ruling;
pub mod spec;
pub mod support;

pub use connection::{Connection, Presented, Traffic, Workload};
pub use host::Host;
pub use policies::Policies;
pub use policy::Policy;
pub use ruling::{Decision, Outcome, Reason, Ruling};
