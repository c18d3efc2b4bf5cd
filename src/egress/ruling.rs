//! What policies say to one workload, and what becomes of its connections.

use super::connection::{Connection, Presented, Traffic};
use super::metadata;
use super::policies::precedence;
use super::policy::{Policy, Target};
use super::spec::{Mode, Origination, Placement, Port, Protocol, TlsMode, TraceHeaders};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::net::IpAddr;

/// The policies that are for one workload: worked out once, asked for each connection.
#[derive(Clone, Debug)]
pub struct Ruling<'p> {
    policies: Vec<&'p Policy>,
}

/// What becomes of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'p> {
    /// What becomes of it.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// The policy that decided, where one did.
    pub policy: Option<&'p Policy>,
    /// How it goes out, where it does.
    pub knobs: Knobs<'p>,
}

/// What becomes of a connection, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It goes out.
    Allowed,
    /// It goes out, and is recorded as one that would be closed.
    Observed,
    /// It is closed.
    Denied,
}

/// Why; the same word in logs, metrics and `egress check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A policy lists it.
    Listed,
    /// No policy is for the workload.
    NoPolicy,
    /// No policy lists it, and none asks for an allowlist.
    NoAllowlist,
    /// No policy names the host.
    HostNotListed,
    /// No policy lists the address, and the connection shows no name.
    AddressNotListed,
    /// The connection shows neither a name nor an address that is listed.
    NameMissing,
    /// The name is none.
    NameMalformed,
    /// The connection shows two names.
    NamesDisagree,
    /// A policy names the host, and not the port.
    PortNotListed,
    /// The port is for another protocol.
    ProtocolMismatch,
    /// It is not TLS and has to be.
    TlsRequired,
    /// It is TLS, and a protocol is asked for that cannot be seen within.
    ProtocolHidden,
    /// It leads to a metadata service of the cloud, which no policy names exactly.
    MetadataAddress,
    /// The policy that decides cannot be enforced as it is written.
    PolicyRefused,
    /// A policy that may be for it cannot be read.
    PolicyUnreadable,
    /// Its `ClientHello` hides another, so that the name that is shown is not the one that is asked for.
    NameEncrypted,
    /// The request cannot be passed on without doubt about where it ends or what it is.
    RequestMalformed,
    /// It might pass, and nobody can say where to: it shows no name, and no policy lists one destination for its port.
    DestinationUnknown,
    /// The source's address is no pod's.
    SourceUnknown,
    /// The source has as many connections open as it may.
    SourceCrowded,
}

/// How a connection goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs<'p> {
    /// How TLS is made of it, where it comes without and is to be.
    pub origination: Option<&'p Origination>,
    /// Whether its requests are counted by host.
    pub telemetry: bool,
    /// What becomes of trace headers, where they can be seen.
    pub trace_headers: TraceHeaders,
}

impl Knobs<'static> {
    /// Those of what goes out unchanged.
    pub const UNCHANGED: Self = Self {
        origination: None,
        telemetry: true,
        trace_headers: TraceHeaders::Preserve,
    };
}

/// How exactly a policy lists a connection: the greater, the more exactly.
type Closeness = (bool, (Reverse<bool>, usize));

impl<'p> Ruling<'p> {
    pub(super) fn new(policies: Vec<&'p Policy>) -> Self {
        Self { policies }
    }

    /// The policies that are for the workload.
    pub fn policies(&self) -> &[&'p Policy] {
        &self.policies
    }

    /// What becomes of `connection`.
    pub fn decide(&self, connection: &Connection) -> Decision<'p> {
        // A policy that is enforced is not weakened by another that observes.
        let Some(mode) = self.policies.iter().map(|policy| policy.mode).max() else {
            return pass(Reason::NoPolicy);
        };
        if connection.host == Presented::Disagreeing {
            return close(Reason::NamesDisagree, mode, None);
        }
        let listing = self.listing(connection);
        if connection.leads_to_metadata()
            && !listing
                .as_ref()
                .is_some_and(|(policy, _)| policy.names_exactly(connection))
        {
            return close(Reason::MetadataAddress, mode, None);
        }
        if let Some((policy, ports)) = listing {
            return match policy.objection(&ports, connection.traffic) {
                Some(reason) => close(reason, policy.mode, Some(policy)),
                None => Decision {
                    outcome: Outcome::Allowed,
                    reason: Reason::Listed,
                    policy: Some(policy),
                    knobs: policy.knobs(connection.traffic),
                },
            };
        }
        let allowlists = self.policies.iter().filter(|policy| policy.allowlist);
        match allowlists.map(|policy| policy.mode).max() {
            Some(mode) => close(self.why_unlisted(connection), mode, None),
            None => pass(Reason::NoAllowlist),
        }
    }

    /// The policy that decides about `connection`, with its entries for the port.
    fn listing(&self, connection: &Connection) -> Option<(&'p Policy, Vec<Port>)> {
        let candidates = self.policies.iter().filter(|policy| !policy.is_silent());
        let candidates = candidates.filter_map(|policy| {
            let closeness = policy.closeness(connection)?;
            let is_udp = connection.traffic == Traffic::Udp;
            let strictness = policy.strictness(connection.port, is_udp)?;
            let ports = policy.entries(connection.port, is_udp).collect();
            Some((closeness, precedence(strictness, policy), *policy, ports))
        });
        let first = candidates.max_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)))?;
        Some((first.2, first.3))
    }

    /// Why nothing lists `connection`.
    fn why_unlisted(&self, connection: &Connection) -> Reason {
        let mut about = self
            .policies
            .iter()
            .filter(|policy| policy.closeness(connection).is_some());
        if let Some(first) = about.next() {
            let is_refused = first.is_silent() && about.all(|policy| policy.is_silent());
            return if is_refused {
                Reason::PolicyRefused
            } else {
                Reason::PortNotListed
            };
        }
        match (&connection.host, connection.address) {
            (Presented::Name(_) | Presented::Disagreeing, _) => Reason::HostNotListed,
            (Presented::Malformed, _) => Reason::NameMalformed,
            (Presented::Address(_), _) => Reason::AddressNotListed,
            (Presented::Nothing, _) => Reason::NameMissing,
        }
    }
}

impl Policy {
    /// How exactly it lists the destination, whatever the port.
    fn closeness(&self, connection: &Connection) -> Option<Closeness> {
        let closeness = |target: &Target| match (target, &connection.host) {
            (Target::Host(pattern), Presented::Name(name)) => pattern.covers(name).then(|| (true, pattern.exactness())),
            (Target::Host(_), _) => None,
            (Target::Addresses(range), _) => {
                let closeness = (false, (Reverse(false), usize::from(range.prefix_len())));
                connection.is_within(*range).then_some(closeness)
            }
        };
        self.targets.iter().filter_map(closeness).max()
    }

    /// Whether it means the destination and no other.
    pub(in crate::egress) fn names_exactly(&self, connection: &Connection) -> bool {
        self.targets.iter().any(|target| match (target, &connection.host) {
            // The name of a metadata service, and not some name with the address of one.
            (Target::Host(pattern), Presented::Name(name)) => pattern.covers(name) && metadata::is_named_by(pattern),
            (Target::Host(_), _) => false,
            (Target::Addresses(range), _) => {
                range.prefix_len() == range.max_prefix_len() && connection.is_within(*range)
            }
        })
    }

    /// What it has against `traffic` on a port with these entries, one of which has to fit.
    fn objection(&self, ports: &[Port], traffic: Traffic) -> Option<Reason> {
        if self.placement == Placement::Gateway && !self.refusals().is_empty() {
            return Some(Reason::PolicyRefused);
        }
        let objections: Vec<_> = ports
            .iter()
            .map(|port| self.objection_of(port.protocol, traffic))
            .collect();
        if objections.contains(&None) {
            return None;
        }
        // The entry that came closest says most.
        objections.into_iter().flatten().max()
    }

    fn objection_of(&self, protocol: Protocol, traffic: Traffic) -> Option<Reason> {
        let is_tls = traffic == Traffic::Tls;
        let fits = match protocol {
            Protocol::Tcp => traffic != Traffic::Udp,
            Protocol::Udp => traffic == Traffic::Udp,
            Protocol::Detect => !matches!(traffic, Traffic::Tcp | Traffic::Udp),
            Protocol::Http => is_tls || traffic == Traffic::Http,
            Protocol::Http2 => is_tls || matches!(traffic, Traffic::Http2 | Traffic::Grpc),
            Protocol::Grpc => is_tls || traffic == Traffic::Grpc,
        };
        if !fits {
            return Some(Reason::ProtocolMismatch);
        }
        if is_tls && !protocol.is_opaque() && protocol != Protocol::Detect {
            return Some(Reason::ProtocolHidden);
        }
        let needs_tls = self.tls_of(protocol) == TlsMode::Enforced && self.origination.is_none();
        (needs_tls && !is_tls).then_some(Reason::TlsRequired)
    }

    fn knobs(&self, traffic: Traffic) -> Knobs<'_> {
        let is_visible = matches!(traffic, Traffic::Http | Traffic::Http2 | Traffic::Grpc);
        Knobs {
            origination: self.origination.as_ref().filter(|_| is_visible),
            telemetry: self.telemetry,
            trace_headers: self.trace_headers,
        }
    }
}

impl Connection {
    /// Whether it leads into `range`: by the address that was dialled where that is known, whatever the connection says.
    fn is_within(&self, range: IpNet) -> bool {
        let leads_to = self.address.or_else(|| self.named_address());
        leads_to.is_some_and(|address| range.contains(&address.to_canonical()))
    }

    fn named_address(&self) -> Option<IpAddr> {
        match self.host {
            Presented::Address(address) => Some(address),
            Presented::Name(_) | Presented::Nothing | Presented::Malformed | Presented::Disagreeing => None,
        }
    }

    fn leads_to_metadata(&self) -> bool {
        let by_name = matches!(&self.host, Presented::Name(name) if metadata::has_name(name));
        let addresses = [self.address, self.named_address()];
        by_name || addresses.into_iter().flatten().any(metadata::has_address)
    }
}

fn pass(reason: Reason) -> Decision<'static> {
    Decision {
        outcome: Outcome::Allowed,
        reason,
        policy: None,
        knobs: Knobs::UNCHANGED,
    }
}

fn close(reason: Reason, mode: Mode, policy: Option<&Policy>) -> Decision<'_> {
    Decision {
        outcome: match mode {
            Mode::Enforce => Outcome::Denied,
            Mode::Observe => Outcome::Observed,
        },
        reason,
        policy,
        knobs: Knobs::UNCHANGED,
    }
}

impl Outcome {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Observed => "observed",
            Self::Denied => "denied",
        }
    }
}

coded! { Reason, self: Self => &'static str {
    Self::Listed => "listed",
    Self::NoPolicy => "no_policy",
    Self::NoAllowlist => "no_allowlist",
    Self::HostNotListed => "host_not_listed",
    Self::AddressNotListed => "address_not_listed",
    Self::NameMissing => "name_missing",
    Self::NameMalformed => "name_malformed",
    Self::NamesDisagree => "names_disagree",
    Self::PortNotListed => "port_not_listed",
    Self::ProtocolMismatch => "protocol_mismatch",
    Self::TlsRequired => "tls_required",
    Self::ProtocolHidden => "protocol_hidden",
    Self::MetadataAddress => "metadata_address",
    Self::PolicyRefused => "policy_refused",
    Self::PolicyUnreadable => "policy_unreadable",
    Self::NameEncrypted => "name_encrypted",
    Self::RequestMalformed => "request_malformed",
    Self::DestinationUnknown => "destination_unknown",
    Self::SourceUnknown => "source_unknown",
    Self::SourceCrowded => "source_crowded",
} }

impl Reason {
    /// What it means, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Listed => "a policy lists it",
            Self::NoPolicy => "no policy is for this workload, so that nothing changes for it",
            Self::NoAllowlist => "no policy lists it, and none has allowlist: Enabled, so that it passes unchanged",
            Self::HostNotListed => "no policy names this host, and what is not listed is closed",
            Self::AddressNotListed => "no policy lists this address, and what is not listed is closed",
            Self::NameMissing => "it shows no name, and what is not listed is closed",
            Self::NameMalformed => "what it shows is no name, and what is not listed is closed",
            Self::NamesDisagree => "it shows two names",
            Self::PortNotListed => "a policy names this host, and not this port; what is not listed is closed",
            Self::ProtocolMismatch => "the policy has another protocol for this port",
            Self::TlsRequired => "the policy asks for TLS",
            Self::ProtocolHidden => "the policy asks for a protocol that cannot be seen within TLS",
            Self::MetadataAddress => {
                "it leads to a metadata service of the cloud, which is closed unless a policy names it exactly"
            }
            Self::PolicyRefused => "the policy that decides cannot be enforced as it is written",
            Self::PolicyUnreadable => "a policy that may be for it cannot be read",
            Self::NameEncrypted => "its hello hides another name, and what is not listed is closed",
            Self::RequestMalformed => "the request cannot be passed on without doubt about what it is",
            Self::DestinationUnknown => "it shows no name, and no policy lists one destination for its port",
            Self::SourceUnknown => "its source is no pod",
            Self::SourceCrowded => "its source has too many connections open",
        }
    }
}

#[cfg(test)]
mod tests;
