//! One policy, read and checked.

use super::host::HostPattern;
use super::spec::{Mode, Operator, Origination, Placement, Port, Protocol, Spec, TlsMode, TraceHeaders, Workloads};
use ipnet::IpNet;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU16;

/// The group of both resources.
pub const GROUP: &str = "outrigger.linkerd.io";
/// Their version.
pub const VERSION: &str = "v1alpha1";
/// The resource of a namespace.
pub const KIND: &str = "EgressPolicy";
/// The operator's resource, which is for every namespace.
pub const CLUSTER_KIND: &str = "ClusterEgressPolicy";

/// RFC 9110, section 4.2.1
pub const HTTP: NonZeroU16 = NonZeroU16::new(80).unwrap();
/// RFC 9110, section 4.2.2
pub const HTTPS: NonZeroU16 = NonZeroU16::new(443).unwrap();

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which one it is.
    pub id: Id,
    /// `metadata.creationTimestamp` (RFC 3339, UTC, as the API server writes it); none of a file.
    pub created: Option<String>,
    /// The workloads that it is for.
    pub workloads: Option<Workloads>,
    /// What it is about.
    pub targets: Vec<Target>,
    /// Ports with what is spoken there; never empty.
    pub ports: Vec<Port>,
    /// Whether what no policy lists is closed.
    pub allowlist: bool,
    /// Whether TLS is asked for; see [`Policy::tls_of`].
    pub tls: Option<TlsMode>,
    /// How the gateway makes TLS of what comes without, if it does.
    pub origination: Option<Origination>,
    /// Whether requests are counted by host.
    pub telemetry: bool,
    /// What becomes of trace headers.
    pub trace_headers: TraceHeaders,
    /// Whether connections are closed.
    pub mode: Mode,
    /// Who enforces it.
    pub placement: Placement,
}

/// Which policy something is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Its namespace; none of a cluster-wide one, which sorts before all others.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// What a policy is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A name or names.
    Host(HostPattern),
    /// An address or addresses.
    Addresses(IpNet),
}

/// Why an object is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {}", faults.join("; "))]
pub struct PolicyError {
    /// What it is called, as far as that is known.
    pub object: String,
    /// What is wrong, a field each.
    pub faults: Vec<String>,
}

impl Policy {
    /// Reads `object`, any value; nothing where it is of another kind.
    ///
    /// An object without a namespace is in `default_namespace`.
    pub fn read(object: &Value, default_namespace: &str) -> Option<Result<Self, PolicyError>> {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let (group, version) = text("/apiVersion")?.split_once('/')?;
        let kind = text("/kind").filter(|kind| [KIND, CLUSTER_KIND].contains(kind))?;
        if group != GROUP {
            return None;
        }
        let name = text("/metadata/name").unwrap_or_default().to_owned();
        let namespace = text("/metadata/namespace").filter(|namespace| !namespace.is_empty());
        let namespace = (kind == KIND).then(|| namespace.unwrap_or(default_namespace).to_owned());
        let id = Id { namespace, name };
        let fail = |faults| {
            Err(PolicyError {
                object: id.to_string(),
                faults,
            })
        };
        if version != VERSION {
            return Some(fail(vec![format!(
                "apiVersion is {group}/{version}, expected {GROUP}/{VERSION}"
            )]));
        }
        if id.name.is_empty() {
            return Some(fail(vec!["metadata.name is missing, expected a name".to_owned()]));
        }
        let created = text("/metadata/creationTimestamp").map(str::to_owned);
        let spec = object.get("spec").cloned().unwrap_or_default();
        let spec: Spec = match serde_path_to_error::deserialize(spec) {
            Ok(spec) => spec,
            Err(error) => {
                let path = match error.path().to_string() {
                    path if path == "." => "spec".to_owned(),
                    path => format!("spec.{path}"),
                };
                return Some(fail(vec![format!("{path}: {}", error.inner())]));
            }
        };
        Some(Self::checked(id, created, spec))
    }

    /// The policy that `spec` makes.
    pub fn checked(id: Id, created: Option<String>, spec: Spec) -> Result<Self, PolicyError> {
        let mut faults = contradictions(&spec);
        let mut targets = Vec::new();
        for (index, host) in spec.hosts.iter().enumerate() {
            match HostPattern::parse(host) {
                Ok(pattern) => targets.push(Target::Host(pattern)),
                Err(error) => faults.push(format!("spec.hosts[{index}]: {error}")),
            }
        }
        for (index, range) in spec.addresses.iter().enumerate() {
            match read_range(range) {
                Ok(range) => targets.push(Target::Addresses(range)),
                Err(fault) => faults.push(format!("spec.addresses[{index}]: {range:?} {fault}")),
            }
        }
        if !faults.is_empty() {
            return Err(PolicyError {
                object: id.to_string(),
                faults,
            });
        }
        let mut ports = spec.ports;
        if ports.is_empty() {
            ports = [HTTP, HTTPS]
                .map(|port| Port {
                    port,
                    protocol: Protocol::Detect,
                })
                .to_vec();
        }
        let tls = spec.tls.unwrap_or_default();
        Ok(Self {
            id,
            created,
            workloads: spec.workloads,
            targets,
            ports,
            allowlist: spec.allowlist.0,
            tls: tls.mode,
            origination: tls.origination,
            telemetry: spec.telemetry.0,
            trace_headers: spec.trace_headers,
            mode: spec.mode,
            placement: spec.placement,
        })
    }

    /// Whether connections to a port with `protocol` must be TLS: as is written, else for every protocol in which TLS can
    /// be seen and is not unusual.
    pub fn tls_of(&self, protocol: Protocol) -> TlsMode {
        self.tls.unwrap_or(match protocol {
            Protocol::Http | Protocol::Tcp | Protocol::Udp => TlsMode::Optional,
            Protocol::Http2 | Protocol::Grpc | Protocol::Detect => TlsMode::Enforced,
        })
    }
}

/// What the fields of `spec` have against each other. The schema has the same rules (`x-kubernetes-validations`).
fn contradictions(spec: &Spec) -> Vec<String> {
    let opaque = spec.ports.iter().find(|port| port.protocol.is_opaque());
    let visible = spec.ports.iter().find(|port| !port.protocol.is_opaque());
    let tls = spec.tls.as_ref();
    let mut faults = Vec::new();
    let mut fault = |is_wrong: bool, text: String| {
        if is_wrong {
            faults.push(text);
        }
    };
    fault(
        spec.hosts.is_empty() && spec.addresses.is_empty() && !spec.allowlist.0,
        "spec: names no hosts and no addresses, and allowlist is not Enabled: it would do nothing".to_owned(),
    );
    fault(
        !spec.hosts.is_empty() && !spec.addresses.is_empty(),
        "spec: hosts and addresses are for policies of their own: expected one of them".to_owned(),
    );
    let bare = !spec.addresses.is_empty() && (spec.ports.is_empty() || visible.is_some());
    fault(
        bare,
        "spec.ports: addresses show no name: expected ports, each with protocol TCP or UDP".to_owned(),
    );
    if let Some(port) = opaque {
        let word = port.protocol.word();
        fault(
            tls.is_some_and(|tls| tls.mode == Some(TlsMode::Enforced)),
            format!(
                "spec.tls.mode: is Enforced, and nobody looks for TLS on port {} with protocol {word}: expected protocol Detect",
                port.port
            ),
        );
        fault(
            tls.is_some_and(|tls| tls.origination.is_some()),
            format!(
                "spec.tls.origination: port {} has protocol {word}: expected HTTP, HTTP2, GRPC or Detect",
                port.port
            ),
        );
    }
    fault(
        tls.is_some_and(|tls| tls.origination.is_some() && tls.mode == Some(TlsMode::Optional)),
        "spec.tls: with origination everything leaves as TLS: expected mode Enforced, or none".to_owned(),
    );
    let selector = spec.workloads.iter().flat_map(|workloads| &workloads.pod_selector);
    for requirement in selector.flat_map(|selector| &selector.match_expressions) {
        let takes_values = matches!(requirement.operator, Operator::In | Operator::NotIn);
        fault(
            takes_values == requirement.values.is_empty(),
            format!(
                "spec.workloads.podSelector.matchExpressions: {}: values are for the operators In and NotIn, which need some",
                requirement.key
            ),
        );
    }
    let mut seen = BTreeSet::new();
    for Port { port, protocol } in &spec.ports {
        let is_new = seen.insert((*port, protocol.word()));
        fault(
            !is_new,
            format!("spec.ports: {port} with protocol {} stands twice", protocol.word()),
        );
    }
    faults
}

/// Reads an address or a range; one of IPv4 must be written as one.
fn read_range(text: &str) -> Result<IpNet, &'static str> {
    let range = text
        .parse::<IpAddr>()
        .map(IpNet::from)
        .or_else(|_| text.parse::<IpNet>());
    let Ok(range) = range else {
        return Err("is neither an address nor a range such as 203.0.113.0/24");
    };
    let mapped = matches!(range.addr(), IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
    if mapped {
        return Err("is of IPv4, written as of IPv6: expected its IPv4 form");
    }
    if range.trunc() != range {
        return Err("has bits after its prefix: expected the first address of the range");
    }
    Ok(range)
}

impl Id {
    /// Its kind.
    pub fn kind(&self) -> &'static str {
        if self.namespace.is_some() { KIND } else { CLUSTER_KIND }
    }
}

/// `EgressPolicy/shop/github`, or `ClusterEgressPolicy/metadata`: the form in logs and labels of metrics.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{KIND}/{namespace}/{}", self.name),
            None => write!(f, "{CLUSTER_KIND}/{}", self.name),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(pattern) => pattern.fmt(f),
            Self::Addresses(range) if range.prefix_len() == range.max_prefix_len() => range.addr().fmt(f),
            Self::Addresses(range) => range.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
