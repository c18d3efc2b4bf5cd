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
    let is_kept = policy.allowlist && policy.mode == Mode::Enforce && policy.placement == Placement::Gateway;
    let gateway = surroundings.gateway.as_ref().filter(|_| is_kept)?;
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
    let networks: Vec<_> = surroundings
        .cluster_networks
        .iter()
        .map(|network| json!({"ipBlock": {"cidr": network.to_string()}}))
        .collect();
    let in_namespace = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
    let name_servers = json!({
        "namespaceSelector": in_namespace(NAME_SERVERS.0),
        "podSelector": {"matchLabels": {"k8s-app": NAME_SERVERS.1}},
    });
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
            "egress": [
                {"to": [name_servers], "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
                {"to": [{"namespaceSelector": in_namespace(&gateway.namespace)}]},
                {"to": networks},
            ],
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
    let direct = here.iter().find(|other| other.placement == Placement::Client);
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
    direct.map(|other| format!("{} goes out past the gateway", other.id))
}
