//! The ranges of addresses that a namespace's traffic is told apart by.

use super::MANAGED_BY;
use crate::egress::metadata;
use crate::egress::policy::{Policy, Target};
use crate::egress::spec::Mode;
use ipnet::IpNet;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// An `EgressNetwork`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) name: String,
    pub(super) range: Range,
    /// Whether what no route matches is closed.
    is_closed: bool,
}

/// Which addresses a network is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Range {
    /// All outside of the cluster.
    Outside,
    /// The metadata services that no policy names by address.
    Metadata(Vec<IpAddr>),
    /// Those of a policy.
    Listed(IpNet),
}

impl Network {
    /// The networks of a namespace with these policies.
    pub(super) fn all(policies: &[&Policy]) -> Vec<Self> {
        let is_closed = is_closed(policies);
        let listed: BTreeSet<_> = policies.iter().flat_map(|policy| ranges(policy)).collect();
        let metadata = metadata::V4
            .map(IpAddr::from)
            .into_iter()
            .chain(metadata::V6.map(IpAddr::from));
        let metadata: Vec<_> = metadata
            .filter(|address| !listed.contains(&IpNet::from(*address)))
            .collect();
        let network = |name: String, range, is_closed| Self { name, range, is_closed };
        let mut all = vec![network("outrigger-outside".to_owned(), Range::Outside, is_closed)];
        if !metadata.is_empty() {
            let is_enforced = for_all(policies).any(|policy| policy.mode == Mode::Enforce);
            let range = Range::Metadata(metadata);
            all.push(network("outrigger-metadata".to_owned(), range, is_enforced));
        }
        all.extend(listed.into_iter().map(|range| {
            let name = format!("outrigger-{range}").replace(['.', ':', '/'], "-");
            network(name, Range::Listed(range), is_closed)
        }));
        all
    }

    /// The resource.
    pub(super) fn object(&self, namespace: &str) -> Value {
        let mut spec = Map::new();
        let policy = if self.is_closed { "Deny" } else { "Allow" };
        spec.insert("trafficPolicy".to_owned(), policy.into());
        let ranges: Vec<_> = match &self.range {
            Range::Outside => Vec::new(),
            Range::Metadata(addresses) => addresses.iter().copied().map(IpNet::from).collect(),
            Range::Listed(range) => vec![*range],
        };
        if !ranges.is_empty() {
            let networks: Vec<_> = ranges.iter().map(|range| json!({"cidr": range.to_string()})).collect();
            spec.insert("networks".to_owned(), networks.into());
        }
        json!({
            "apiVersion": "policy.linkerd.io/v1alpha1",
            "kind": "EgressNetwork",
            "metadata": {"name": self.name, "namespace": namespace, "labels": {MANAGED_BY.0: MANAGED_BY.1}},
            "spec": spec,
        })
    }

    /// Whether what `target` means may be at its addresses.
    pub(super) fn is_for(&self, target: &Target) -> bool {
        match (target, &self.range) {
            (Target::Host(pattern), Range::Metadata(_)) => metadata::is_named_by(pattern),
            (Target::Host(_), Range::Outside) => true,
            (Target::Host(_), Range::Listed(range)) => !is_metadata(*range),
            (Target::Addresses(_), Range::Outside | Range::Metadata(_)) => false,
            (Target::Addresses(range), Range::Listed(own)) => range == own || range.contains(own) && !is_metadata(*own),
        }
    }
}

/// Whether what no policy of these lists is closed.
pub(super) fn is_closed(policies: &[&Policy]) -> bool {
    for_all(policies).any(|policy| policy.allowlist && policy.mode == Mode::Enforce)
}

/// Those that are for every workload: a network is, and nothing is widened to that.
fn for_all<'p>(policies: &[&'p Policy]) -> impl Iterator<Item = &'p Policy> {
    policies.iter().copied().filter(|policy| policy.workloads.is_none())
}

fn ranges(policy: &Policy) -> impl Iterator<Item = IpNet> {
    policy.targets.iter().filter_map(|target| match target {
        Target::Addresses(range) => Some(*range),
        Target::Host(_) => None,
    })
}

fn is_metadata(range: IpNet) -> bool {
    range.prefix_len() == range.max_prefix_len() && metadata::has_address(range.addr())
}
