//! The `NetworkPolicy` that leaves the pods of an enforced allowlist no way out but the gateway.

use super::status::Programmed;
use super::{MANAGED_BY, POLICY, Surroundings, route};
use crate::egress::policy::Policy;
use crate::egress::spec::{Mode, Operator, Placement, Requirement, Selector, Workloads};
use crate::pod::label::{SERVICE_ACCOUNT, label_value};
use serde_json::{Value, json};

/// Where Kubernetes has its name servers, and their label.
const NAME_SERVERS: (&str, &str) = ("kube-system", "kube-dns");

/// The `NetworkPolicy` for the pods of `policy` in a namespace with those policies, where one can be made; else what is to say.
pub(super) fn around(
    policy: &Policy,
    (namespace, here): (&str, &[&Policy]),
    surroundings: &Surroundings,
    found: &mut Programmed,
) -> Option<Value> {
    if !policy.allowlist || policy.mode == Mode::Observe || policy.placement == Placement::Client {
        return None;
    }
    if let Some(why) = objection(policy, (namespace, here), surroundings) {
        match policy.workloads {
            None => found.notes.insert(format!("no NetworkPolicy is made: {why}")),
            // Of some workloads alone no EgressNetwork closes what is not listed.
            Some(_) => found.pending.insert(format!(
                "ports that no policy lists are closed by no NetworkPolicy: {why}"
            )),
        };
        return None;
    }
    let in_namespace = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
    let name_servers = json!({
        "namespaceSelector": in_namespace(NAME_SERVERS.0),
        "podSelector": {"matchLabels": {"k8s-app": NAME_SERVERS.1}},
    });
    let mut ways = vec![
        json!({"to": [name_servers], "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}),
    ];
    let gateway = surroundings.gateway.iter();
    ways.extend(gateway.map(|gateway| json!({"to": [{"namespaceSelector": in_namespace(&gateway.namespace)}]})));
    let networks = surroundings.cluster_networks.iter();
    let networks: Vec<_> = networks
        .map(|network| json!({"ipBlock": {"cidr": network.to_string()}}))
        .collect();
    ways.push(json!({"to": networks}));
    Some(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": route::name_of(&policy.id, &format!("{}\nfence", policy.id)),
            "namespace": namespace,
            "labels": {MANAGED_BY.0: MANAGED_BY.1},
            "annotations": {POLICY: policy.id.to_string()},
        },
        "spec": {
            "podSelector": policy.workloads.as_ref().map_or_else(Selector::default, selector),
            "policyTypes": ["Egress"],
            "egress": ways,
        },
    }))
}

/// The pods of `workloads`: those of service accounts by the label that injection gives them.
fn selector(workloads: &Workloads) -> Selector {
    let mut selector = workloads.pod_selector.clone().unwrap_or_default();
    if !workloads.service_accounts.is_empty() {
        selector.match_expressions.push(Requirement {
            key: SERVICE_ACCOUNT.to_owned(),
            operator: Operator::In,
            values: workloads
                .service_accounts
                .iter()
                .map(|name| label_value(name))
                .collect(),
        });
    }
    selector
}

/// Why none can be made: it would close too much, or says what a `NetworkPolicy` cannot.
fn objection(policy: &Policy, (namespace, here): (&str, &[&Policy]), surroundings: &Surroundings) -> Option<String> {
    if surroundings.cluster_networks.is_empty() {
        return Some("no network of the cluster is given".to_owned());
    }
    if policy.id.namespace.is_none()
        && !here
            .iter()
            .any(|other| other.id.namespace.as_deref() == Some(namespace))
    {
        return Some(format!(
            "{namespace} is for namespaces that have no policies of their own"
        ));
    }
    None
}

/// Says of a policy of the proxies' that pods which a `NetworkPolicy` of `fences` selects go out by the gateway alone.
pub(super) fn note_beside(fences: &[Value], found: &mut Programmed) {
    let names = fences
        .iter()
        .filter_map(|fence| fence.pointer("/metadata/name")?.as_str());
    found.conflicts.extend(names.map(|name| {
        format!("pods that NetworkPolicy {name} selects go out by the gateway alone, and not by this policy")
    }));
}
