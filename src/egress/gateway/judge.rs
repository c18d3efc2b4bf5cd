//! What the policies say to a connection, and what goes with it on its way.

use super::hello::Hello;
use super::originate::Authorities;
use super::pods::Member;
use super::rules::Rules;
use super::{Client, Gateway};
use crate::egress::connection::{Connection, Presented, Traffic};
use crate::egress::host::Host;
use crate::egress::policy::{Policy, Target};
use crate::egress::ruling::{Decision, Outcome, Reason, Ruling};
use crate::egress::spec::{Mode, Protocol, TraceHeaders};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

/// What a connection or a request shows.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) traffic: Traffic,
    pub(super) host: Presented,
    /// Whether the name that is shown may not be the one that is asked for.
    is_encrypted: bool,
}

/// What becomes of it.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) traffic: Traffic,
    pub(super) outcome: Outcome,
    /// Why.
    pub(super) reason: Reason,
    /// The pod that asks; none where its address is nobody's.
    pub(super) member: Option<Arc<Member>>,
    /// The policy that decided, and which of its hosts or addresses.
    pub(super) policy: Option<String>,
    pub(super) rule: Option<String>,
    /// Whether the host may be told to log and metrics.
    pub(super) telemetry: bool,
    pub(super) trace_headers: TraceHeaders,
    pub(super) origination: Option<Origination>,
    /// Where it leads; none where nobody can say.
    pub(super) host: Option<Host>,
    /// Whether what is forbidden to names, the policy allows here: it lists this very address or metadata service.
    pub(super) is_unfenced: bool,
}

/// TLS that the gateway makes.
#[derive(Clone, Debug)]
pub(super) struct Origination {
    pub(super) port: NonZeroU16,
    pub(super) trust: Trusted,
}

/// Whose certificates are taken.
#[derive(Clone, Debug)]
pub(super) enum Trusted {
    /// Those of the gateway's own bundle.
    Bundle,
    Named(Arc<Authorities>),
    /// A policy names them, and they are not there.
    Missing,
}

impl Question {
    pub(super) fn new(traffic: Traffic, host: Presented) -> Self {
        Self {
            traffic,
            host,
            is_encrypted: false,
        }
    }

    pub(super) fn tls(hello: &Hello) -> Self {
        Self {
            traffic: Traffic::Tls,
            host: Presented::of([hello.name.as_deref()]),
            is_encrypted: hello.is_encrypted,
        }
    }
}

impl Verdict {
    /// A refusal that no policy is asked about.
    pub(super) fn refusal(traffic: Traffic, reason: Reason) -> Self {
        Self {
            traffic,
            outcome: Outcome::Denied,
            reason,
            member: None,
            policy: None,
            rule: None,
            telemetry: true,
            trace_headers: TraceHeaders::None,
            origination: None,
            host: None,
            is_unfenced: false,
        }
    }

    /// The same refused for another reason, whatever the policies say.
    pub(super) fn but_refused(self, reason: Reason) -> Self {
        Self {
            outcome: Outcome::Denied,
            reason,
            ..self
        }
    }

    pub(super) fn passes(&self) -> bool {
        self.outcome != Outcome::Denied
    }
}

impl Gateway {
    /// What becomes of what `client` asks. It passes only where it is known as well where it leads.
    pub(super) fn judge(&self, client: &Client, question: &Question) -> Verdict {
        let refuse = |reason| Verdict::refusal(question.traffic, reason);
        let Some((rules, member)) = self.known.source(client.source) else {
            return refuse(Reason::SourceUnknown);
        };
        if let Some(unreadable) = rules.unreadable_in(&member.workload.namespace) {
            return Verdict {
                policy: Some(unreadable.to_string()),
                member: Some(Arc::clone(&member)),
                ..refuse(Reason::PolicyUnreadable)
            };
        }
        let ruling = rules.policies.ruling(&member.workload);
        let mut question = question.clone();
        let mut address = None;
        if question.host == Presented::Nothing {
            match bound(&ruling, client.port, question.traffic == Traffic::Udp) {
                Some(Target::Host(pattern)) => question.host = Presented::of([Some(pattern.to_string().as_str())]),
                Some(Target::Addresses(range)) => address = Some(range.addr()),
                None => {}
            }
        }
        let verdict = verdict(&rules, &ruling, &question, (address, client.port));
        let verdict = Verdict {
            member: Some(Arc::clone(&member)),
            ..verdict
        };
        match (verdict.passes(), &verdict.host) {
            (true, None) => verdict.but_refused(Reason::DestinationUnknown),
            (_, _) => verdict,
        }
    }

    /// Whether nobody has to look at what `client` says: all that may be spoken on its port is opaque, and leads to one place.
    pub(super) fn is_opaque(&self, client: &Client) -> bool {
        let Some((rules, member)) = self.known.source(client.source) else {
            return false;
        };
        let ruling = rules.policies.ruling(&member.workload);
        let ports = ruling.policies().iter().flat_map(|policy| &policy.ports);
        let mut ports = ports.filter(|port| port.port == client.port);
        let all_opaque = ports.all(|port| port.protocol.is_opaque());
        all_opaque && bound(&ruling, client.port, false).is_some()
    }
}

/// The one host or address that the policies list on an opaque port.
fn bound<'p>(ruling: &Ruling<'p>, port: NonZeroU16, is_udp: bool) -> Option<&'p Target> {
    let protocol = if is_udp { Protocol::Udp } else { Protocol::Tcp };
    let has_port = |policy: &&&Policy| policy.ports.iter().any(|it| it.port == port && it.protocol == protocol);
    let policies = ruling.policies().iter().filter(has_port);
    let is_one = |target: &&Target| match target {
        Target::Host(pattern) => pattern.is_exact(),
        Target::Addresses(range) => range.prefix_len() == range.max_prefix_len(),
    };
    let mut all = policies.flat_map(|policy| &policy.targets);
    let first = all.next().filter(is_one)?;
    all.all(|other| other == first).then_some(first)
}

fn verdict(
    rules: &Rules,
    ruling: &Ruling<'_>,
    question: &Question,
    (address, port): (Option<IpAddr>, NonZeroU16),
) -> Verdict {
    let connection = Connection {
        host: question.host.clone(),
        address,
        port,
        traffic: question.traffic,
    };
    let decision = ruling.decide(&connection);
    let host = destination(&question.host, address);
    let by_hidden_name = question.is_encrypted.then(|| allowlist_mode(ruling)).flatten();
    let (outcome, reason) = match (by_hidden_name, decision.outcome) {
        (Some(Mode::Enforce), Outcome::Allowed | Outcome::Observed) => (Outcome::Denied, Reason::NameEncrypted),
        (Some(Mode::Observe), Outcome::Allowed) => (Outcome::Observed, Reason::NameEncrypted),
        (_, outcome) => (outcome, decision.reason),
    };
    let policy = decision.policy;
    Verdict {
        traffic: question.traffic,
        outcome,
        reason,
        member: None,
        policy: policy.map(|policy| policy.id.to_string()),
        rule: policy.and_then(|policy| pattern(policy, &question.host, address)),
        telemetry: decision.knobs.telemetry && policy.is_none_or(|policy| policy.telemetry),
        trace_headers: decision.knobs.trace_headers,
        origination: origination(rules, &decision),
        // The gateway stands where pods do not: what its address opens, the author of a namespace may not.
        is_unfenced: decision.reason == Reason::Listed
            && policy.is_some_and(|it| it.id.namespace.is_none() && it.names_exactly(&connection)),
        host,
    }
}

/// How strictly an allowlist is kept, where there is one.
fn allowlist_mode(ruling: &Ruling<'_>) -> Option<Mode> {
    let allowlists = ruling.policies().iter().filter(|policy| policy.allowlist);
    allowlists.map(|policy| policy.mode).max()
}

fn origination(rules: &Rules, decision: &Decision<'_>) -> Option<Origination> {
    let (origination, policy) = (decision.knobs.origination?, decision.policy?);
    let trust = match &origination.ca_certificates {
        None => Trusted::Bundle,
        Some(named) => rules
            .authorities(&policy.id, named)
            .map_or(Trusted::Missing, Trusted::Named),
    };
    Some(Origination {
        port: origination.port,
        trust,
    })
}

fn destination(shown: &Presented, address: Option<IpAddr>) -> Option<Host> {
    match shown {
        Presented::Name(name) => Some(Host::Name(name.clone())),
        Presented::Address(address) => Some(Host::Address(*address)),
        Presented::Nothing => address.map(Host::Address),
        Presented::Malformed | Presented::Disagreeing => None,
    }
}

/// Which of a policy's hosts or addresses is meant.
fn pattern(policy: &Policy, host: &Presented, address: Option<IpAddr>) -> Option<String> {
    let exactness = |target: &&Target| match (target, host) {
        (Target::Host(pattern), Presented::Name(name)) => pattern.covers(name).then(|| (true, pattern.exactness())),
        (Target::Host(_), _) => None,
        (Target::Addresses(range), host) => {
            let named = match host {
                Presented::Address(address) => Some(*address),
                Presented::Name(_) | Presented::Nothing | Presented::Malformed | Presented::Disagreeing => address,
            };
            let is_within = named.is_some_and(|address| range.contains(&address));
            is_within.then(|| (false, (std::cmp::Reverse(false), usize::from(range.prefix_len()))))
        }
    };
    let found = policy.targets.iter().filter(|target| exactness(target).is_some());
    found.max_by_key(exactness).map(ToString::to_string)
}
