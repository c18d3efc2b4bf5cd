//! `NetworkPolicies` and the proxy's inbound port.
//!
//! Traffic to opaque ports, and that of other clusters, arrives on the proxy's own port whatever port was meant: a policy
//! that does not name it drops them, and one that does lets them reach every port behind it.

use super::selector::Selector;
use super::workloads::Judged;
use super::{name, namespace};
use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::inject::Redirection;
use crate::pod::{integer, list, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The name of the port in the proxy's container.
const PORT_NAME: &str = "linkerd-proxy";

/// What policies together say to the ports of one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ports {
    /// A rule admits every port, or none names any.
    Open,
    /// Ports are limited, and the proxy's is not among them.
    WithoutProxy,
    /// Ports are limited, and the proxy's is among them.
    Void,
}

/// Judges `policies` for `workloads` whose proxy listens on `port`.
pub(in crate::cli::check) fn judge(policies: &[Value], workloads: &[Judged], port: u16) -> Vec<Finding> {
    let mut by_namespace: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for policy in policies.iter().filter(|policy| limits_ingress(policy)) {
        by_namespace.entry(namespace(policy)).or_default().push(policy);
    }
    let (mut dropping, mut void): (BTreeMap<_, BTreeSet<_>>, BTreeMap<_, BTreeSet<_>>) = Default::default();
    let mut seen = 0;
    for workload in workloads.iter().filter(|it| it.redirection != Redirection::None) {
        let all = by_namespace
            .get(workload.namespace.as_str())
            .map_or(&[][..], Vec::as_slice);
        let selecting: Vec<_> = all.iter().copied().filter(|policy| selects(policy, workload)).collect();
        seen += usize::from(!selecting.is_empty());
        let found = match ports(&selecting, port) {
            Ports::Open => continue,
            Ports::WithoutProxy => &mut dropping,
            Ports::Void => &mut void,
        };
        for policy in selecting.into_iter().filter(|policy| names_ports(policy)) {
            let place = format!("{}/{}", namespace(policy), name(policy));
            found.entry(place).or_default().insert(workload.workload.as_str());
        }
    }
    let lines = |found: BTreeMap<String, BTreeSet<&str>>| {
        let line = |(policy, workloads): (String, BTreeSet<&str>)| {
            format!("{policy}: {}", workloads.into_iter().collect::<Vec<_>>().join(", "))
        };
        found.into_iter().map(line).collect::<Vec<_>>()
    };
    let mut findings = Vec::new();
    if !dropping.is_empty() {
        let message = format!("{} without {port}: opaque traffic is dropped", limiting(dropping.len()));
        findings.push(Finding::warning(Code::NetworkPolicyWithoutProxyPort, message).with(lines(dropping)));
    }
    if !void.is_empty() {
        let message = format!(
            "{} and admit {port}, behind which every port is reached",
            limiting(void.len())
        );
        findings.push(Finding::warning(Code::NetworkPolicyVoid, message).with(lines(void)));
    }
    if findings.is_empty() {
        let message = match seen {
            0 => "no NetworkPolicy limits what reaches meshed workloads".to_owned(),
            seen => format!("{} meet NetworkPolicies that limit no ports", count(seen, "workload")),
        };
        findings.push(Finding::ok(Code::NetworkPolicies, message));
    }
    findings
}

fn limiting(policies: usize) -> String {
    match policies {
        1 => "1 NetworkPolicy limits ports".to_owned(),
        number => format!("{number} NetworkPolicies limit ports"),
    }
}

/// A policy without `policyTypes` is for ingress.
fn limits_ingress(policy: &Value) -> bool {
    let Some(spec) = policy.get("spec") else {
        return false;
    };
    let mut types = list(spec, "policyTypes").peekable();
    types.peek().is_none() || types.any(|it| it == "Ingress")
}

fn selects(policy: &Value, workload: &Judged) -> bool {
    let selector = policy.pointer("/spec/podSelector").unwrap_or(&Value::Null);
    Selector::new(selector).matches(&workload.labels)
}

fn rules(policy: &Value) -> impl Iterator<Item = &Value> {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    list(spec, "ingress")
}

fn names_ports(policy: &Value) -> bool {
    rules(policy).any(|rule| list(rule, "ports").next().is_some())
}

/// What is admitted is the union of all rules of all policies. One without any rule admits nothing, and is meant so.
fn ports(policies: &[&Value], port: u16) -> Ports {
    let mut limited = false;
    let mut admitted = false;
    for rule in policies.iter().copied().flat_map(rules) {
        let mut ports = list(rule, "ports").peekable();
        if ports.peek().is_none() {
            return Ports::Open;
        }
        for entry in ports {
            match admits(entry, port) {
                // A rule for the proxy's port alone limits nothing else.
                true => admitted = true,
                false => limited = true,
            }
        }
    }
    match (limited, admitted) {
        (true, false) => Ports::WithoutProxy,
        (true, true) => Ports::Void,
        (false, _) => Ports::Open,
    }
}

/// Whether an entry of `ports` admits TCP to the proxy's port.
fn admits(entry: &Value, port: u16) -> bool {
    if text(entry, "protocol").is_some_and(|protocol| protocol != "TCP") {
        return false;
    }
    let Some(first) = entry.get("port").filter(|port| !port.is_null()) else {
        return true;
    };
    let port = i64::from(port);
    match (first.as_i64(), integer(entry, "endPort")) {
        (Some(first), Some(last)) => (first..=last).contains(&port),
        (Some(first), None) => first == port,
        (None, _) => first.as_str() == Some(PORT_NAME),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::slice;

    fn policy(name: &str, spec: &Value) -> Value {
        json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec})
    }

    fn with_ports(name: &str, ports: &Value) -> Value {
        policy(name, &json!({"podSelector": {}, "ingress": [{"ports": ports}]}))
    }

    fn judged(policies: &[Value]) -> Vec<(&'static str, Vec<String>)> {
        let workload = Judged {
            redirection: Redirection::Cni,
            labels: json!({"app": "web"}),
            ..Judged::sample("shop", "Deployment/web")
        };
        let findings = judge(policies, &[workload], 4143);
        findings.into_iter().map(|it| (it.code.word(), it.details)).collect()
    }

    #[test]
    fn a_policy_that_limits_ports_drops_what_arrives_on_the_proxys() {
        let only_web = with_ports("only-web", &json!([{"port": 8080, "protocol": "TCP"}]));
        let expected = vec!["shop/only-web: Deployment/web".to_owned()];
        assert_eq!(
            judged(slice::from_ref(&only_web)),
            [("network_policy_without_proxy_port", expected)]
        );
        let open = policy("open", &json!({"podSelector": {}, "ingress": [{"from": []}]}));
        assert_eq!(judged(&[only_web, open])[0].0, "network_policies");
    }

    #[test]
    fn a_policy_with_the_proxys_port_limits_nothing() {
        for ports in [
            json!([{"port": 8080}, {"port": 4143}]),
            json!([{"port": 8080}, {"port": 4000, "endPort": 5000}]),
            json!([{"port": 8080}, {"port": "linkerd-proxy"}]),
        ] {
            assert_eq!(
                judged(&[with_ports("p", &ports)])[0].0,
                "network_policy_void",
                "{ports}"
            );
        }
        let other = with_ports("proxy", &json!([{"port": 4143}]));
        let web = with_ports("web", &json!([{"port": "http"}]));
        let found = judged(&[web, other]);
        assert_eq!((found[0].0, found[0].1.len()), ("network_policy_void", 2));
    }

    #[test]
    fn policies_that_limit_no_ports_of_the_workload_are_nobodys_concern() {
        for spec in [
            json!({"podSelector": {}}),
            json!({"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [{"ports": [{"port": 1}]}]}),
            json!({"podSelector": {}, "policyTypes": ["Egress"], "ingress": [{"ports": [{"port": 1}]}]}),
            json!({"podSelector": {}, "ingress": [{"ports": [{"port": 4143}]}]}),
        ] {
            assert_eq!(judged(&[policy("p", &spec)])[0].0, "network_policies", "{spec}");
        }
        assert_eq!(
            judged(&[with_ports("udp", &json!([{"protocol": "UDP"}]))])[0].0,
            "network_policy_without_proxy_port"
        );
    }
}
