//! Which routes the ports of networks get.

use super::GatewayService;
use super::network::{Network, is_closed};
use super::route::{Kind, Route};
use super::status::Programmed;
use crate::egress::policies::{Conflict, Policies};
use crate::egress::policy::{HTTP, HTTPS, Id, Policy, Target};
use crate::egress::spec::{Mode, Placement, Port, Protocol, TlsMode, TraceHeaders};
use serde_json::Value;
use std::collections::BTreeMap;
use std::num::NonZeroU16;

/// The routes of a namespace, under construction.
#[derive(Debug)]
pub(super) struct Plan<'s> {
    /// Whether what no policy of the namespace lists is closed.
    is_closed: bool,
    gateway: Option<&'s GatewayService>,
    routes: Vec<Route>,
    /// What a port of a network is for, and the policy that said so first.
    taken: BTreeMap<(String, NonZeroU16), (&'static str, Id)>,
}

impl<'s> Plan<'s> {
    /// No routes yet, of a namespace with these policies.
    pub(super) fn new(policies: &[&Policy], gateway: Option<&'s GatewayService>) -> Self {
        Self {
            is_closed: is_closed(policies),
            gateway,
            routes: Vec::new(),
            taken: BTreeMap::new(),
        }
    }

    /// Adds the routes of `policy`, one of those `of_placement`; older policies are added first, for of two that want routes of
    /// different kinds on a port the first gets it.
    pub(super) fn add(
        &mut self,
        of_placement: &Policies,
        policy: &Policy,
        namespace: &str,
        networks: &[Network],
    ) -> Programmed {
        let conflicts = of_placement.conflicts(policy, namespace);
        let mut found = Programmed::default();
        for entry in &policy.ports {
            let is_left = |target: &&Target| !conflicts.iter().any(|it| it.is_about(target, *entry));
            let targets: Vec<_> = policy.targets.iter().filter(is_left).collect();
            found.left_to_others += policy.targets.len() - targets.len();
            if targets.is_empty() {
                continue;
            }
            let Some(kind) = self.kind_of(policy, *entry, &mut found) else {
                continue;
            };
            for network in networks {
                let own: Vec<_> = targets.iter().filter(|target| network.is_for(target)).collect();
                if own.is_empty() {
                    continue;
                }
                let hosts = own.into_iter().filter_map(|target| match target {
                    Target::Host(pattern) if policy.placement == Placement::Client => Some(pattern.clone()),
                    Target::Host(_) | Target::Addresses(_) => None,
                });
                let wanted = Route {
                    policy: policy.id.clone(),
                    network: network.name.clone(),
                    kind: kind.clone(),
                    hosts: hosts.collect(),
                    ports: vec![entry.port],
                };
                self.take(wanted, &mut found);
            }
        }
        found.conflicts.extend(conflicts.iter().map(Conflict::to_string));
        found
    }

    /// Takes the port of `wanted` in its network, where that is free or has routes of the same kind.
    fn take(&mut self, wanted: Route, found: &mut Programmed) {
        let kind = wanted.kind.word();
        for port in wanted.ports.clone() {
            let place = (wanted.network.clone(), port);
            let taken = self.taken.entry(place).or_insert_with(|| (kind, wanted.policy.clone()));
            if taken.0 != kind {
                found.conflicts.insert(format!(
                    "port {port}: {} has routes of the kind {} there, beside which Linkerd reads none of the kind {kind}",
                    taken.1, taken.0
                ));
                found.missing += 1;
                return;
            }
            if wanted.kind.is_to_gateway() && taken.1 != wanted.policy {
                // It has everything of that port already.
                found.routes += 1;
                return;
            }
        }
        found.routes += 1;
        match self.routes.iter_mut().find(|it| it.is_like(&wanted)) {
            Some(route) => route.ports.extend(wanted.ports),
            None => self.routes.push(wanted),
        }
    }

    /// The kind of route that a port gets.
    fn kind_of(&self, policy: &Policy, entry: Port, found: &mut Programmed) -> Option<Kind> {
        match (policy.placement, self.gateway) {
            (Placement::Client, _) => kind_of(policy, entry, self.is_closed, found),
            (Placement::Gateway, Some(_)) if entry.protocol == Protocol::Udp => {
                found.pending.insert(format!(
                    "port {}: the proxy does not see UDP: it comes to the gateway by rules on the node alone",
                    entry.port
                ));
                None
            }
            (Placement::Gateway, Some(gateway)) => Some(Kind::Gateway(gateway.clone())),
            (Placement::Gateway, None) => {
                found
                    .pending
                    .insert("there is no gateway, and what is for it is not let out".to_owned());
                None
            }
        }
    }

    /// The resources.
    pub(super) fn routes(&self, namespace: &str) -> impl Iterator<Item = Value> {
        self.routes.iter().flat_map(move |route| route.objects(namespace))
    }
}

/// The kind of route that a port gets which the proxy enforces.
fn kind_of(policy: &Policy, entry: Port, is_closed: bool, found: &mut Programmed) -> Option<Kind> {
    let Port { port, protocol } = entry;
    let drops_trace = policy.trace_headers == TraceHeaders::None;
    let is_enforced = policy.tls_of(protocol) == TlsMode::Enforced;
    let http = |redirects| Some(Kind::Http { redirects, drops_trace });
    match protocol {
        Protocol::Tcp => Some(Kind::Tcp),
        Protocol::Grpc if is_closed => Some(Kind::Grpc { drops_trace }),
        Protocol::Grpc => {
            found.missing += 1;
            found.conflicts.insert(format!(
                "port {port}: beside routes of gRPC Linkerd takes everything there for gRPC, whatever the host: expected \
                 allowlist Enabled"
            ));
            None
        }
        Protocol::Http => {
            let other = if is_closed {
                "HTTP/2 without TLS is"
            } else {
                "HTTP/2 and TLS are"
            };
            found.notes.insert(format!("port {port}: {other} let through as well"));
            http(false)
        }
        Protocol::Detect if is_closed && (port == HTTPS || is_enforced && port != HTTP) => {
            if policy.mode == Mode::Observe || !is_enforced {
                found
                    .notes
                    .insert(format!("port {port}: what is not TLS is closed there"));
            }
            if drops_trace {
                found.notes.insert(format!(
                    "port {port}: trace headers cannot be seen within TLS, and stay"
                ));
            }
            Some(Kind::Tls)
        }
        Protocol::Detect => {
            if is_closed {
                found.notes.insert(format!("port {port}: TLS is closed there"));
            }
            http(is_enforced && policy.mode == Mode::Enforce)
        }
        // Those are refused.
        Protocol::Http2 | Protocol::Udp => None,
    }
}

impl Conflict {
    fn is_about(&self, target: &Target, entry: Port) -> bool {
        self.target == *target && self.port == entry.port
    }
}
