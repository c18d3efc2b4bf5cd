//! Routes of the Gateway API on ports of an `EgressNetwork`.

use super::{GatewayService, MANAGED_BY, POLICY};
use crate::egress::host::HostPattern;
use crate::egress::policy::{HTTP, HTTPS, Id};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::num::NonZeroU16;

/// Routes of one policy on ports of one network.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) policy: Id,
    pub(super) network: String,
    pub(super) kind: Kind,
    /// None where the kind has none.
    pub(super) hosts: Vec<HostPattern>,
    pub(super) ports: Vec<NonZeroU16>,
}

/// What a route is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `HTTPRoute`
    Http {
        /// Requests are sent to HTTPS, and do not leave.
        redirects: bool,
        drops_trace: bool,
    },
    /// `GRPCRoute`
    Grpc { drops_trace: bool },
    /// `TLSRoute`
    Tls,
    /// `TCPRoute`
    Tcp,
    /// `TCPRoute` that leads to the gateway: to the port of the same number.
    Gateway(GatewayService),
}

/// The headers that carry a trace: those of the W3C's Trace Context, and of B3 in one header or in many.
const TRACE_HEADERS: [&str; 8] = [
    "traceparent",
    "tracestate",
    "b3",
    "x-b3-traceid",
    "x-b3-spanid",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-b3-flags",
];

/// How many host names a route may have (Gateway API).
const HOSTNAMES: usize = 16;

/// How much of a policy's name a route's name repeats: with the rest of it a name stays below the 253 characters that it may
/// have.
const NAME: usize = 200;

impl Kind {
    /// The kind of the resource.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Http { .. } => "HTTPRoute",
            Self::Grpc { .. } => "GRPCRoute",
            Self::Tls => "TLSRoute",
            Self::Tcp | Self::Gateway(_) => "TCPRoute",
        }
    }

    /// The kind, and where routes of it lead if not to where they were sent.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Gateway(_) => "TCPRoute to the gateway",
            Self::Http { .. } | Self::Grpc { .. } | Self::Tls | Self::Tcp => self.name(),
        }
    }

    pub(super) fn is_to_gateway(&self) -> bool {
        matches!(self, Self::Gateway(_))
    }

    /// The version that Linkerd reads.
    fn version(&self) -> &'static str {
        match self {
            Self::Http { .. } | Self::Grpc { .. } => "v1",
            Self::Tls | Self::Tcp | Self::Gateway(_) => "v1alpha2",
        }
    }

    fn redirects(&self) -> bool {
        matches!(self, Self::Http { redirects: true, .. })
    }
}

impl Route {
    /// Whether `other` is the same on another port. Those that redirect, and those to the gateway, name their port.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_same = self.policy == other.policy && self.network == other.network && self.kind == other.kind;
        is_same && self.hosts == other.hosts && !self.kind.redirects() && !self.kind.is_to_gateway()
    }

    /// The resources: several where there are more hosts than a route may have.
    pub(super) fn objects(&self, namespace: &str) -> Vec<Value> {
        if self.hosts.is_empty() {
            return vec![self.object(namespace, &[])];
        }
        self.hosts
            .chunks(HOSTNAMES)
            .map(|hosts| self.object(namespace, hosts))
            .collect()
    }

    fn object(&self, namespace: &str, hosts: &[HostPattern]) -> Value {
        let parents: Vec<_> = self.ports.iter().map(|port| self.parent(*port)).collect();
        let mut spec = Map::new();
        spec.insert("parentRefs".to_owned(), parents.into());
        if !hosts.is_empty() {
            let names: Vec<_> = hosts.iter().map(|host| Value::from(host.to_string())).collect();
            spec.insert("hostnames".to_owned(), names.into());
        }
        spec.insert("rules".to_owned(), json!([self.rule()]));
        json!({
            "apiVersion": format!("gateway.networking.k8s.io/{}", self.kind.version()),
            "kind": self.kind.name(),
            "metadata": {
                "name": self.name(hosts),
                "namespace": namespace,
                "labels": {MANAGED_BY.0: MANAGED_BY.1},
                "annotations": {POLICY: self.policy.to_string()},
            },
            "spec": spec,
        })
    }

    fn parent(&self, port: NonZeroU16) -> Value {
        json!({"group": "policy.linkerd.io", "kind": "EgressNetwork", "name": self.network, "port": port})
    }

    fn rule(&self) -> Value {
        let backend = json!([{"group": "policy.linkerd.io", "kind": "EgressNetwork", "name": self.network}]);
        let drops_trace = match &self.kind {
            Kind::Http { redirects: true, .. } => return json!({"filters": [self.redirect()]}),
            Kind::Http { drops_trace, .. } | Kind::Grpc { drops_trace } => *drops_trace,
            Kind::Tls | Kind::Tcp => false,
            Kind::Gateway(service) => return json!({"backendRefs": [self.backend(service)]}),
        };
        if !drops_trace {
            return json!({"backendRefs": backend});
        }
        let filter = json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": TRACE_HEADERS}});
        json!({"filters": [filter], "backendRefs": backend})
    }

    fn backend(&self, GatewayService { name, namespace }: &GatewayService) -> Value {
        json!({"group": "", "kind": "Service", "name": name, "namespace": namespace, "port": self.ports.first()})
    }

    fn redirect(&self) -> Value {
        let port = self
            .ports
            .first()
            .map_or(HTTPS, |port| if *port == HTTP { HTTPS } else { *port });
        json!({"type": "RequestRedirect", "requestRedirect": {"scheme": "https", "port": port, "statusCode": 301}})
    }

    /// A name that tells people the policy, and is different for each route.
    fn name(&self, hosts: &[HostPattern]) -> String {
        let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        let all = format!(
            "{}\n{}\n{:?}\n{:?}\n{hosts:?}",
            self.policy, self.network, self.kind, self.ports
        );
        name_of(&self.policy, &all)
    }
}

/// The name of what is made of a policy: it tells people the policy, and is another for each of `all`.
pub(super) fn name_of(policy: &Id, all: &str) -> String {
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(all));
    let digest = u32::from_be_bytes([a, b, c, d]);
    let policy: String = policy.name.chars().take(NAME).collect();
    format!("outrigger-{}-{digest:08x}", policy.trim_end_matches(['.', '-']))
}
