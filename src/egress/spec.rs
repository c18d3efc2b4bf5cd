//! The resources as they are written: `EgressPolicy` and `ClusterEgressPolicy`, which have the same `spec`.
//!
//! The schema that the API server holds them to is `charts/outrigger/templates/egress/custom-resource-definitions.yaml`; a
//! test holds these types against it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU16;

/// `spec` of either resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// The workloads that it is for; all of the namespace where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<Workloads>,
    /// Names, or wildcards: `example.com`, `*.example.com`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Addresses, or ranges of them (CIDR), for what has no name to be seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Ports; 80 and 443 where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Port>,
    /// Whether connections that no policy lists are closed.
    #[serde(default)]
    pub allowlist: Switch<false>,
    /// What is asked of TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Whether requests are counted by host.
    #[serde(default)]
    pub telemetry: Switch<true>,
    /// What becomes of trace headers.
    #[serde(default)]
    pub trace_headers: TraceHeaders,
    /// Whether connections are closed, or only recorded.
    #[serde(default)]
    pub mode: Mode,
    /// Who enforces it.
    #[serde(default)]
    pub placement: Placement,
}

/// Which workloads a policy is for: those with one of the accounts and with the labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workloads {
    /// Names of service accounts; any where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<String>,
    /// Labels of pods (`meta/v1` `LabelSelector`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<Selector>,
}

/// `meta/v1` `LabelSelector`: all of it must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Selector {
    /// Labels with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// What else is asked of labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
}

/// `meta/v1` `LabelSelectorRequirement`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// What is asked of it.
    pub operator: Operator,
    /// For `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// `meta/v1` `LabelSelectorOperator`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the API's")]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// A port and what is spoken there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its number.
    pub port: NonZeroU16,
    /// What is spoken.
    #[serde(default)]
    pub protocol: Protocol,
}

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// HTTP/1.0 and HTTP/1.1
    #[serde(rename = "HTTP")]
    Http,
    /// HTTP/2, gRPC among it.
    #[serde(rename = "HTTP2")]
    Http2,
    /// gRPC
    #[serde(rename = "GRPC")]
    Grpc,
    /// Anything over TCP; nobody looks inside.
    #[serde(rename = "TCP")]
    Tcp,
    /// Anything over UDP; nobody looks inside.
    #[serde(rename = "UDP")]
    Udp,
    /// Whatever of HTTP, HTTP/2, gRPC and TLS the first bytes show.
    #[default]
    Detect,
}

/// What is asked of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tls {
    /// Whether it must be; enforced where it is missing, but for the protocols `HTTP`, `TCP` and `UDP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<TlsMode>,
    /// The gateway makes TLS of what comes without, where this is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origination: Option<Origination>,
}

/// Whether connections must be TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TlsMode {
    /// With or without.
    Optional,
    /// Without, a connection is closed.
    Enforced,
}

/// How the gateway makes TLS of what comes without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Origination {
    /// The port of the host that it dials.
    #[serde(default = "https")]
    pub port: NonZeroU16,
    /// The authorities whose certificates are taken; those of the system where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_certificates: Option<CaCertificates>,
}

/// A key of a `ConfigMap` with certificates (PEM), in the policy's namespace or, of a cluster-wide one, the gateway's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CaCertificates {
    /// The `ConfigMap`.
    pub config_map: String,
    /// The key.
    #[serde(default = "ca_key")]
    pub key: String,
}

/// Whether something is done; `DEFAULT` says what holds where nothing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Switch<const DEFAULT: bool>(pub bool);

/// What becomes of the headers that carry a trace, where they can be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TraceHeaders {
    /// They go out as they came.
    Preserve,
    /// They go out as <https://www.w3.org/TR/trace-context/> has them, whatever form they came in.
    W3C,
    /// They go out as <https://github.com/openzipkin/b3-propagation> has them, whatever form they came in.
    B3,
    /// They are dropped.
    #[default]
    None,
}

/// Whether connections are closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// What would be closed is recorded and let through.
    Observe,
    /// They are.
    #[default]
    Enforce,
}

/// Who enforces a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Placement {
    /// The proxy in the pod.
    #[default]
    Client,
    /// The gateway that everything goes through which leaves the cluster.
    Gateway,
}

fn https() -> NonZeroU16 {
    super::policy::HTTPS
}

fn ca_key() -> String {
    "ca.crt".to_owned()
}

impl<const DEFAULT: bool> Default for Switch<DEFAULT> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

/// The words of [`Switch`]: no bare `On`, which YAML 1.1 takes for `true`.
#[derive(Serialize, Deserialize)]
enum Word {
    Enabled,
    Disabled,
}

impl<const DEFAULT: bool> Serialize for Switch<DEFAULT> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let word = if self.0 { Word::Enabled } else { Word::Disabled };
        word.serialize(serializer)
    }
}

impl<'de, const DEFAULT: bool> Deserialize<'de> for Switch<DEFAULT> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(matches!(Word::deserialize(deserializer)?, Word::Enabled)))
    }
}

impl Selector {
    /// Whether `labels` are as it asks.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let equal = self
            .match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value));
        equal && self.match_expressions.iter().all(|it| it.holds(labels))
    }
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            Operator::In => listed,
            Operator::NotIn => !listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl Protocol {
    /// Its word in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Http2 => "HTTP2",
            Self::Grpc => "GRPC",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Detect => "Detect",
        }
    }

    /// Whether nobody looks inside.
    pub fn is_opaque(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp)
    }
}
