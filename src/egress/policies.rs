//! All policies, merged: an operator's hold in every namespace, beside those of the namespace itself.
//!
//! Of the policies that list a connection one decides, by this order:
//!
//! 1. the one that names the host most exactly: an exact name before a wildcard, more labels before fewer, a name before
//!    addresses, a longer prefix before a shorter one;
//! 2. the stricter one (see [`Strictness`]);
//! 3. the older one; what has no age, as in a file, is youngest;
//! 4. a cluster-wide one; then by namespace and name.
//!
//! Only the last three are conflicts, for there two policies say different things of the very same hosts.

use super::connection::Workload;
use super::policy::{Id, Policy, Target};
use super::ruling::Ruling;
use super::spec::{Mode, Port, Protocol, TlsMode, TraceHeaders, Workloads};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::num::NonZeroU16;

/// All policies, in the order of precedence but for the first rule, which depends on the connection.
#[derive(Clone, Debug, Default)]
pub struct Policies(Vec<Policy>);

/// How strict a policy is about a port: the greater, the stricter. The fields count in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strictness {
    mode: Mode,
    tls: TlsMode,
    /// Whether the protocol is said.
    protocol: bool,
    trace_headers: u8,
    telemetry: bool,
}

/// That another policy says something else of the same hosts and ports, and comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The policy that decides.
    pub winner: Id,
    /// What both are about.
    pub target: Target,
    /// The port.
    pub port: NonZeroU16,
    /// Why the other comes first.
    pub because: Because,
    /// Whether the other one decides for every workload that this one is for.
    pub for_all: bool,
}

/// Why a policy comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It is stricter.
    Stricter,
    /// It is older.
    Older,
    /// It is cluster-wide.
    ClusterWide,
    /// Its name sorts first.
    Name,
}

impl Policies {
    /// These policies.
    pub fn new(policies: impl IntoIterator<Item = Policy>) -> Self {
        let mut all: Vec<_> = policies.into_iter().collect();
        all.sort_by(|a, b| seniority(a).cmp(&seniority(b)));
        Self(all)
    }

    /// All of them: older ones first, then cluster-wide ones, then by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Policy> {
        self.0.iter()
    }

    /// Those that count: those that are enforced as they are written, and those that are refused and close what they list.
    #[must_use]
    pub fn enforceable(&self) -> Self {
        let counts = |policy: &&Policy| policy.refusals().is_empty() || policy.closes_when_refused();
        let all = self.iter().filter(counts);
        Self(all.cloned().collect())
    }

    /// Those that hold in `namespace`.
    pub fn of_namespace<'p>(&'p self, namespace: &str) -> impl Iterator<Item = &'p Policy> {
        let holds = move |policy: &&Policy| policy.id.namespace.as_deref().is_none_or(|it| it == namespace);
        self.0.iter().filter(holds)
    }

    /// The namespaces that have policies of their own.
    pub fn namespaces(&self) -> BTreeSet<&str> {
        self.0
            .iter()
            .filter_map(|policy| policy.id.namespace.as_deref())
            .collect()
    }

    /// What they say to `workload`.
    pub fn ruling(&self, workload: &Workload) -> Ruling<'_> {
        let policies = self.of_namespace(&workload.namespace);
        Ruling::new(policies.filter(|policy| policy.selects(workload)).collect())
    }

    /// Which policies decide, in `namespace`, about hosts and ports of `policy` in its stead.
    pub fn conflicts(&self, policy: &Policy, namespace: &str) -> Vec<Conflict> {
        let mut found = Vec::new();
        for target in &policy.targets {
            for port in &policy.ports {
                let others = self.of_namespace(namespace).filter(|other| other.id != policy.id);
                let is_udp = port.protocol == Protocol::Udp;
                let rivals = others.filter_map(|other| {
                    let because = other.overrides(policy, target, *port)?;
                    let strictness = other.strictness(port.port, is_udp)?;
                    Some((precedence(strictness, other), other, because))
                });
                let first = rivals.max_by(|a, b| a.0.cmp(&b.0));
                found.extend(first.map(|(_, winner, because)| Conflict {
                    winner: winner.id.clone(),
                    target: target.clone(),
                    port: port.port,
                    because,
                    for_all: winner.workloads.is_none() || winner.workloads == policy.workloads,
                }));
            }
        }
        found
    }
}

/// What policies are compared by that name a host equally exactly: the greater comes first.
pub(super) type Precedence<'p> = (Strictness, Reverse<(bool, Option<&'p str>, &'p Id)>);

/// The place of `policy`, which is so strict about a port.
pub(super) fn precedence(strictness: Strictness, policy: &Policy) -> Precedence<'_> {
    (strictness, Reverse(seniority(policy)))
}

/// The smaller comes first.
fn seniority(policy: &Policy) -> (bool, Option<&str>, &Id) {
    (policy.created.is_none(), policy.created.as_deref(), &policy.id)
}

impl Policy {
    /// Whether it is for `workload`, which is in a namespace where it holds.
    pub fn selects(&self, workload: &Workload) -> bool {
        let Some(Workloads {
            service_accounts,
            pod_selector,
        }) = &self.workloads
        else {
            return true;
        };
        let has_account = service_accounts.is_empty() || service_accounts.contains(&workload.service_account);
        let labels = pod_selector.as_ref();
        has_account && labels.is_none_or(|labels| labels.matches(&workload.labels))
    }

    /// Its entries for `port`, of UDP or of what goes over TCP.
    pub(super) fn entries(&self, port: NonZeroU16, is_udp: bool) -> impl Iterator<Item = Port> {
        let fits = move |it: &Port| it.port == port && (it.protocol == Protocol::Udp) == is_udp;
        self.ports.iter().copied().filter(fits)
    }

    /// How strict it is about `port`; nothing where it does not list that.
    pub(super) fn strictness(&self, port: NonZeroU16, is_udp: bool) -> Option<Strictness> {
        self.entries(port, is_udp)
            .map(|it| self.strictness_of(it.protocol))
            .max()
    }

    fn strictness_of(&self, protocol: Protocol) -> Strictness {
        Strictness {
            mode: self.mode,
            tls: self.tls_of(protocol),
            protocol: protocol != Protocol::Detect,
            trace_headers: match self.trace_headers {
                TraceHeaders::None => 2,
                TraceHeaders::W3C | TraceHeaders::B3 => 1,
                TraceHeaders::Preserve => 0,
            },
            telemetry: self.telemetry,
        }
    }

    /// Why it decides about `target` on the port of `entry`, one of `other`'s, in the stead of that; nothing where it does
    /// not, or says the same.
    fn overrides(&self, other: &Self, target: &Target, entry: Port) -> Option<Because> {
        let is_udp = entry.protocol == Protocol::Udp;
        let ours = self
            .strictness(entry.port, is_udp)
            .filter(|_| self.targets.contains(target))?;
        let theirs = other.strictness(entry.port, is_udp)?;
        let says_the_same = self.entries(entry.port, is_udp).any(|it| it.protocol == entry.protocol)
            && ours == theirs
            && self.trace_headers == other.trace_headers
            && self.origination == other.origination;
        if says_the_same || precedence(ours, self) < precedence(theirs, other) {
            return None;
        }
        let age = |policy: &Self| policy.created.clone();
        Some(if ours > theirs {
            Because::Stricter
        } else if age(self) != age(other) {
            Because::Older
        } else if self.id.namespace.is_none() && other.id.namespace.is_some() {
            Because::ClusterWide
        } else {
            Because::Name
        })
    }
}

impl std::fmt::Display for Because {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stricter => "is stricter",
            Self::Older => "is older",
            Self::ClusterWide => "is cluster-wide",
            Self::Name => "comes first by name",
        })
    }
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            winner,
            target,
            port,
            because,
            for_all,
        } = self;
        let whom = if *for_all {
            ""
        } else {
            " for the workloads that it selects"
        };
        write!(f, "{target} port {port}: {winner} decides{whom}, for it {because}")
    }
}

#[cfg(test)]
mod tests;
