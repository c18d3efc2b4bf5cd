//! Policies as Linkerd's resources: an `EgressNetwork` per range of addresses, and routes of the Gateway API on its ports.
//! For the placement `Gateway` these routes lead to the gateway's Service, and a `NetworkPolicy` closes other ways.
//!
//! What Linkerd makes of them shapes what is made here (its policy controller and proxy, 2.18):
//!
//! - An `EgressNetwork` is for every workload of its namespace. Where a namespace has one, those of the global namespace do
//!   not count there: an operator's policies are compiled into each namespace that has policies of its own.
//! - Of the networks that an address is in, the one with the smallest range counts, with its routes alone: every network of
//!   a namespace gets the routes of all policies that are about its addresses.
//! - On a port of a network one kind of route counts, gRPC before HTTP before TLS before TCP, for every host. With routes of
//!   HTTP, TLS falls under the network's `trafficPolicy`; with those of TLS, what is not TLS is closed.
//! - Of routes of one kind, the one counts that names the host most exactly.
//!
//! So where the allowlist is on, a port that asks for TLS gets routes of TLS, and the rest of it is closed. Where it is off,
//! the rest has to pass: such a port gets routes of HTTP, which send the listed hosts to HTTPS, and TLS passes as it is.
//!
//! What is for the gateway gets routes of TCP, so that it comes there byte for byte: who may reach what is decided there.

mod conditions;
mod fence;
pub mod hindrance;
pub mod kinds;
mod network;
mod plan;
mod route;
pub mod status;

use super::policies::Policies;
use super::policy::{Id, Policy, PolicyError};
use super::spec::Placement;
use ipnet::IpNet;
use network::Network;
use plan::Plan;
use serde_json::Value;
use status::{Programmed, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// The label of everything that is compiled, with its value.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "outrigger-egress");

/// The annotation that names the policy which a route is compiled from.
pub const POLICY: &str = "outrigger.linkerd.io/egress-policy";

/// The namespace whose `EgressNetworks` count in every namespace that has none: the default of Linkerd's value
/// `egress.globalEgressNetworkNamespace`.
pub const GLOBAL_NAMESPACE: &str = "linkerd-egress";

/// What policies are compiled for.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The namespace of `EgressNetworks` that count everywhere.
    pub global_namespace: String,
    /// The `EgressNetworks` that somebody else made: namespace and name.
    pub foreign: BTreeSet<(String, String)>,
    /// Where what is for the gateway is sent; where there is none, it is closed.
    pub gateway: Option<GatewayService>,
    /// The networks of the cluster, which pods reach that have no other way out than the gateway; where none is known, no
    /// `NetworkPolicy` is made.
    pub cluster_networks: Vec<IpNet>,
}

/// What the chart calls the gateway's Service.
pub const GATEWAY_SERVICE: &str = "outrigger-egress-gateway";

/// The Service of the gateway. Its ports have the numbers of those that clients dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayService {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

/// What policies compile to.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// Linkerd's resources, namespace by namespace, networks before their routes, and `NetworkPolicies` after these.
    pub objects: Vec<Value>,
    /// What becomes of each policy, in the order of the policies.
    pub verdicts: Vec<Verdict>,
}

impl Surroundings {
    /// What `objects` tell of them: `EgressNetworks` without our label are somebody else's.
    pub fn read<'v>(
        objects: impl IntoIterator<Item = &'v Value>,
        global_namespace: &str,
        default_namespace: &str,
    ) -> Self {
        let foreign = objects.into_iter().filter_map(|object| {
            let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
            let is_network = text("/kind") == Some("EgressNetwork")
                && text("/apiVersion").is_some_and(|version| version.starts_with("policy.linkerd.io/"));
            let labels = object.pointer("/metadata/labels");
            let is_ours = labels.and_then(|labels| labels.get(MANAGED_BY.0)?.as_str()) == Some(MANAGED_BY.1);
            let namespace = text("/metadata/namespace").unwrap_or(default_namespace).to_owned();
            (is_network && !is_ours).then(|| (namespace, text("/metadata/name").unwrap_or_default().to_owned()))
        });
        Self {
            global_namespace: global_namespace.to_owned(),
            foreign: foreign.collect(),
            ..Self::default()
        }
    }

    /// Those of others in `namespace`, `NAMESPACE/NAME`.
    fn foreign_in(&self, namespace: &str) -> impl Iterator<Item = String> {
        let there = self.foreign.iter().filter(move |(of, _)| of == namespace);
        there.map(|(of, name)| format!("{of}/{name}"))
    }
}

/// Compiles every policy, and says what becomes of all of them. Where there is no gateway, what is for it closes.
pub fn compile(policies: &Policies, surroundings: &Surroundings) -> Compiled {
    // What is refused has no routes, and closes as far as it can.
    let counting = policies.enforceable();
    // Between placements the port decides: who has it enforces the policies of both.
    let of = |placement| {
        let compiled = counting.iter().filter(|policy| !policy.is_silent());
        Policies::new(compiled.filter(|policy| policy.placement == placement).cloned())
    };
    // The gateway's ports first: what goes past it would be out of its sight.
    let placements = [Placement::Gateway, Placement::Client].map(of);
    let mut spaces = counting.namespaces();
    let cluster_wide = || counting.iter().filter(|policy| policy.id.namespace.is_none());
    if cluster_wide().next().is_some() {
        spaces.insert(&surroundings.global_namespace);
    }
    let mut compiled = Compiled::default();
    let mut outcomes = BTreeMap::new();
    for namespace in spaces {
        let all: Vec<_> = counting.of_namespace(namespace).collect();
        let objects = compile_in(namespace, &all, &placements, surroundings, &mut outcomes);
        compiled.objects.extend(objects);
    }
    // A foreign network in a namespace that has none of ours keeps the global ones away.
    let own = counting.namespaces();
    let beside = surroundings.foreign.iter().filter(|(of, _)| !own.contains(of.as_str()));
    let beside: Vec<_> = beside.map(|(of, name)| format!("{of}/{name}")).collect();
    for policy in cluster_wide().filter(|policy| !policy.is_silent()) {
        let outcome = outcomes.entry(policy.id.clone()).or_default();
        outcome.foreign.extend(beside.iter().cloned());
    }
    let verdict = |policy: &Policy| Verdict::of(policy, &outcomes.remove(&policy.id).unwrap_or_default());
    compiled.verdicts = policies.iter().map(verdict).collect();
    compiled
}

/// The objects of `namespace`, where `all` count; adds what becomes of each of `placements` there to `outcomes`.
fn compile_in(
    namespace: &str,
    all: &[&Policy],
    placements: &[Policies],
    surroundings: &Surroundings,
    outcomes: &mut BTreeMap<Id, Programmed>,
) -> Vec<Value> {
    let networks = Network::all(all);
    let mut plan = Plan::new(all, surroundings.gateway.as_ref());
    let mut fences = Vec::new();
    for of_placement in placements {
        for policy in of_placement.of_namespace(namespace) {
            let mut found = plan.add(of_placement, policy, namespace, &networks);
            match policy.placement {
                Placement::Gateway => fences.extend(fence::around(policy, (namespace, all), surroundings, &mut found)),
                Placement::Client => fence::note_beside(&fences, &mut found),
            }
            found.foreign.extend(surroundings.foreign_in(namespace));
            outcomes.entry(policy.id.clone()).or_default().merge(namespace, found);
        }
    }
    let mut objects: Vec<_> = networks.iter().map(|network| network.object(namespace)).collect();
    objects.extend(plan.routes(namespace));
    objects.extend(fences);
    objects
}

impl Compiled {
    /// Adds what is to say of objects that are no policies.
    pub fn refuse(&mut self, errors: impl IntoIterator<Item = PolicyError>) {
        self.verdicts
            .extend(errors.into_iter().map(|error| Verdict::invalid(&error)));
    }
}

#[cfg(test)]
mod tests;
