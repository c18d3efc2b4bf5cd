//! The accounts that the webhook, the probe and the egress controller run as: the service accounts of the chart, with no other
//! rights.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Cluster, Namespace, Verb, call};

/// The user that the egress controller's service account is.
pub(super) const CONTROLLER: &str = "system:serviceaccount:linkerd:outrigger-egress-controller";

/// The namespace of the control plane, which the webhook is part of.
pub(super) const NAMESPACE: &str = "linkerd";

const NAME: &str = "linkerd-proxy-injector";

/// The user that the service account is.
pub(super) const USER: &str = "system:serviceaccount:linkerd:linkerd-proxy-injector";

/// The user that the probe's service account is.
pub(super) const PROBE: &str = "system:serviceaccount:linkerd:outrigger-probe";

/// Makes the account, with its namespace where that is not there, and a kubeconfig with a token of it.
pub(super) async fn create(cluster: &Cluster) -> PathBuf {
    let client = cluster.client().await;
    let labels = [("config.linkerd.io/admission-webhooks", "disabled")];
    let there = call(&client, Verb::Get, &format!("/api/v1/namespaces/{NAMESPACE}"), None).await;
    if !there.expect("the API server answers").accepted() {
        Namespace::create_named(&client, NAMESPACE, &labels, &[]).await;
    }
    cluster.apply("webhook-config/rbac.yaml");
    kubeconfig(cluster, NAMESPACE, NAME).await
}

/// A kubeconfig with a token of the account `name` of `namespace`.
pub(super) async fn kubeconfig(cluster: &Cluster, namespace: &str, name: &str) -> PathBuf {
    let client = cluster.client().await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let reply = call(&client, Verb::Create, &path, Some(&request)).await;
    let reply = reply.expect("the API server answers");
    let token = reply.body.pointer("/status/token").and_then(Value::as_str);
    let token = token.unwrap_or_else(|| panic!("no token of {name}: {}", reply.body));
    cluster.write_kubeconfig(&format!("{namespace}-{name}.kubeconfig"), token)
}
