//! What each placement can enforce of a policy, and why it refuses the rest. `docs/egress.md` has the same as a table.
//!
//! A policy that cannot be enforced as it is written is refused as a whole: a part of it would be another policy.

use super::policy::{HTTP, HTTPS, Policy, Target};
use super::spec::{Placement, Port, Protocol, TlsMode, TraceHeaders};
use std::fmt;

/// Why a placement refuses a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In a word; the reason of the condition `Accepted`.
    pub reason: RefusalReason,
    /// What is refused, and what would be right.
    pub message: String,
}

/// Why a placement refuses a policy, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalReason {
    /// The object is no policy.
    Invalid,
    /// It selects workloads, and Linkerd's `EgressNetwork` is for a whole namespace.
    SelectorUnsupported,
    /// The proxy does not see UDP.
    UdpUnsupported,
    /// The protocol is not told apart from another.
    ProtocolUnsupported,
    /// The protocol cannot be seen within TLS.
    ProtocolHidden,
    /// The host cannot be seen in what is opaque.
    HostHidden,
    /// A port cannot be open for TLS and for what is not TLS.
    OptionalTlsUnsupported,
    /// Nobody makes TLS of what comes without.
    OriginationUnsupported,
    /// Requests are counted in any case.
    TelemetryUnsupported,
    /// Trace headers are dropped or left alone, not translated.
    TraceTranslationUnsupported,
    /// Trace headers cannot be seen within TLS.
    TraceHeadersHidden,
}

impl Policy {
    /// Whether it counts although it may be refused: the gateway closes what it cannot enforce, and proxies keep an allowlist
    /// that is for every workload.
    pub(super) fn closes_when_refused(&self) -> bool {
        self.placement == Placement::Gateway || self.allowlist && self.workloads.is_none()
    }

    /// Whether nothing of it counts but its allowlist: the proxies have no route for what it lists.
    pub(super) fn is_silent(&self) -> bool {
        self.placement == Placement::Client && self.closes_when_refused() && !self.refusals().is_empty()
    }

    /// Everything that its placement cannot enforce.
    pub fn refusals(&self) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        let mut refuse = |reason, message: &str| {
            let message = message.to_owned();
            refusals.push(Refusal { reason, message });
        };
        if self.placement == Placement::Client {
            self.refuse_on_client(&mut refuse);
        }
        let names_hosts = self.targets.iter().any(|target| matches!(target, Target::Host(_)));
        for port in self.ports.iter().filter(|_| names_hosts) {
            if let Some((reason, message)) = self.refusal_of_port(*port) {
                refuse(
                    reason,
                    &format!("port {}, protocol {}: {message}", port.port, port.protocol.word()),
                );
            }
        }
        let translates = matches!(self.trace_headers, TraceHeaders::W3C | TraceHeaders::B3);
        let passes_tls_through = self.placement == Placement::Gateway
            && self.origination.is_none()
            && self
                .ports
                .iter()
                .any(|port| self.tls_of(port.protocol) == TlsMode::Enforced);
        if translates && passes_tls_through {
            refuse(
                RefusalReason::TraceHeadersHidden,
                "traceHeaders cannot be translated within the application's TLS: expected None or Preserve, or tls.origination",
            );
        }
        refusals
    }

    fn refuse_on_client(&self, refuse: &mut impl FnMut(RefusalReason, &str)) {
        if self.workloads.is_some() {
            refuse(
                RefusalReason::SelectorUnsupported,
                "workloads: an EgressNetwork is for every workload of a namespace, and is not widened to that: expected none, or \
                 placement Gateway",
            );
        }
        if self.ports.iter().any(|port| port.protocol == Protocol::Udp) {
            refuse(
                RefusalReason::UdpUnsupported,
                "ports: the proxy does not see UDP: expected placement Gateway, or a NetworkPolicy",
            );
        }
        if self.origination.is_some() {
            refuse(
                RefusalReason::OriginationUnsupported,
                "tls.origination: the proxy makes no TLS for other hosts: expected placement Gateway",
            );
        }
        if !self.telemetry {
            refuse(
                RefusalReason::TelemetryUnsupported,
                "telemetry is Disabled: the proxy counts every request: expected Enabled, or placement Gateway",
            );
        }
        if let TraceHeaders::W3C | TraceHeaders::B3 = self.trace_headers {
            refuse(
                RefusalReason::TraceTranslationUnsupported,
                "traceHeaders: routes drop headers and do not translate them: expected None or Preserve, or placement Gateway",
            );
        }
    }

    /// Whether it is about a single host.
    fn names_one_host(&self) -> bool {
        matches!(&self.targets[..], [Target::Host(pattern)] if pattern.is_exact())
    }

    fn refusal_of_port(&self, Port { port, protocol }: Port) -> Option<(RefusalReason, &'static str)> {
        let tls = self.tls_of(protocol);
        let is_client = self.placement == Placement::Client;
        match protocol {
            // It resolves the name itself, and dials that: the port leads there and nowhere else.
            Protocol::Tcp | Protocol::Udp if !is_client && self.names_one_host() => None,
            Protocol::Tcp | Protocol::Udp => Some((
                RefusalReason::HostHidden,
                "it shows no host, so that the port would be open for every host: expected addresses in the place of hosts, or a \
                 single host with placement Gateway",
            )),
            Protocol::Http | Protocol::Http2 | Protocol::Grpc
                if tls == TlsMode::Enforced && self.origination.is_none() =>
            {
                Some((
                    RefusalReason::ProtocolHidden,
                    "it cannot be seen within the application's TLS: expected protocol Detect, tls.mode Optional, or \
                     tls.origination with placement Gateway",
                ))
            }
            Protocol::Http2 if is_client => Some((
                RefusalReason::ProtocolUnsupported,
                "the proxy's routes take HTTP/1.1 as well: expected HTTP or GRPC, or placement Gateway",
            )),
            Protocol::Detect if is_client && tls == TlsMode::Optional && ![HTTP, HTTPS].contains(&port) => Some((
                RefusalReason::OptionalTlsUnsupported,
                "the proxy looks on a port for names of HTTP or for names of TLS: expected tls.mode Enforced, protocol HTTP, or \
                 placement Gateway",
            )),
            Protocol::Http | Protocol::Http2 | Protocol::Grpc | Protocol::Detect => None,
        }
    }
}

coded! { RefusalReason, self: Self => &'static str {
    Self::Invalid => "Invalid",
    Self::SelectorUnsupported => "SelectorUnsupported",
    Self::UdpUnsupported => "UdpUnsupported",
    Self::ProtocolUnsupported => "ProtocolUnsupported",
    Self::ProtocolHidden => "ProtocolHidden",
    Self::HostHidden => "HostHidden",
    Self::OptionalTlsUnsupported => "OptionalTlsUnsupported",
    Self::OriginationUnsupported => "OriginationUnsupported",
    Self::TelemetryUnsupported => "TelemetryUnsupported",
    Self::TraceTranslationUnsupported => "TraceTranslationUnsupported",
    Self::TraceHeadersHidden => "TraceHeadersHidden",
} }

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn reasons(spec: Value) -> Vec<&'static str> {
        let mut object = json!({
            "apiVersion": "outrigger.linkerd.io/v1alpha1", "kind": "EgressPolicy",
            "metadata": {"name": "a", "namespace": "shop"},
        });
        object["spec"] = spec;
        let policy = Policy::read(&object, "default")
            .unwrap()
            .unwrap_or_else(|error| panic!("{error}"));
        policy.refusals().iter().map(|refusal| refusal.reason.code()).collect()
    }

    /// A spec on port 8443, without and with origination, or as it is for its placement.
    fn on(placement: &str, protocol: &str, tls: &Value) -> Value {
        json!({
            "hosts": ["a.example"], "ports": [{"port": 8443, "protocol": protocol}], "tls": tls, "placement": placement,
        })
    }

    /// The table of `docs/egress.md`, protocol by TLS by placement.
    #[test]
    fn protocols_and_tls() {
        let (optional, enforced) = (json!({"mode": "Optional"}), json!({"mode": "Enforced"}));
        for (protocol, tls, client, gateway) in [
            ("HTTP", &optional, "", ""),
            ("HTTP", &enforced, "ProtocolHidden", "ProtocolHidden"),
            ("HTTP2", &optional, "ProtocolUnsupported", ""),
            ("HTTP2", &enforced, "ProtocolHidden", "ProtocolHidden"),
            ("GRPC", &optional, "", ""),
            ("GRPC", &enforced, "ProtocolHidden", "ProtocolHidden"),
            ("Detect", &optional, "OptionalTlsUnsupported", ""),
            ("Detect", &enforced, "", ""),
            ("TCP", &optional, "HostHidden", ""),
            ("UDP", &optional, "UdpUnsupported HostHidden", ""),
        ] {
            assert_eq!(
                reasons(on("Client", protocol, tls)).join(" "),
                client,
                "{protocol} {tls} Client"
            );
            assert_eq!(
                reasons(on("Gateway", protocol, tls)).join(" "),
                gateway,
                "{protocol} {tls} Gateway"
            );
        }
        for protocol in ["HTTP", "HTTP2", "GRPC", "Detect"] {
            let origination = json!({"origination": {}});
            assert_eq!(reasons(on("Gateway", protocol, &origination)), [""; 0], "{protocol}");
            assert!(
                reasons(on("Client", protocol, &origination)).contains(&"OriginationUnsupported"),
                "{protocol}"
            );
        }
    }

    #[test]
    fn an_opaque_port_of_the_gateway_leads_to_one_host() {
        for hosts in [json!(["a.example", "b.example"]), json!(["*.a.example"])] {
            let mut spec = on("Gateway", "TCP", &json!({}));
            spec["hosts"] = hosts;
            assert_eq!(reasons(spec), ["HostHidden"]);
        }
    }

    #[test]
    fn other_knobs() {
        let with = |placement: &str, key: &str, value: Value| {
            let mut spec = json!({"hosts": ["a.example"], "placement": placement});
            spec[key] = value;
            reasons(spec).join(" ")
        };
        for (key, value, client, gateway) in [
            (
                "workloads",
                json!({"serviceAccounts": ["web"]}),
                "SelectorUnsupported",
                "",
            ),
            ("allowlist", json!("Enabled"), "", ""),
            ("telemetry", json!("Enabled"), "", ""),
            ("telemetry", json!("Disabled"), "TelemetryUnsupported", ""),
            ("traceHeaders", json!("None"), "", ""),
            ("traceHeaders", json!("Preserve"), "", ""),
            (
                "traceHeaders",
                json!("W3C"),
                "TraceTranslationUnsupported",
                "TraceHeadersHidden",
            ),
            (
                "traceHeaders",
                json!("B3"),
                "TraceTranslationUnsupported",
                "TraceHeadersHidden",
            ),
            ("mode", json!("Observe"), "", ""),
            ("tls", json!({"mode": "Optional"}), "", ""),
        ] {
            assert_eq!(with("Client", key, value.clone()), client, "{key} {value} Client");
            assert_eq!(with("Gateway", key, value.clone()), gateway, "{key} {value} Gateway");
        }
        let mut originating = json!({"hosts": ["a.example"], "placement": "Gateway", "tls": {"origination": {}}});
        originating["traceHeaders"] = "B3".into();
        assert_eq!(reasons(originating), [""; 0]);
        let addresses = |protocol: &str, placement: &str| {
            let ports = json!([{"port": 5432, "protocol": protocol}]);
            reasons(json!({"addresses": ["192.0.2.1"], "ports": ports, "placement": placement})).join(" ")
        };
        assert_eq!(
            addresses("TCP", "Client") + &addresses("TCP", "Gateway") + &addresses("UDP", "Gateway"),
            ""
        );
        assert_eq!(addresses("UDP", "Client"), "UdpUnsupported");
    }
}
