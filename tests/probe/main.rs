//! The probe and the webhook on a real API server: what no API tells is found out, and decides.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation is how a test fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "the control plane is real processes and their files"
)]

#[expect(dead_code, unused_imports, reason = "the other test targets use the rest")]
#[path = "../cluster/cluster.rs"]
mod cluster;
#[expect(dead_code, reason = "the other test targets use the rest")]
#[path = "../api_server/mesh.rs"]
mod mesh;
#[expect(dead_code, reason = "the other test targets use the rest")]
#[path = "../api_server/scene.rs"]
mod scene;

mod bad_input;
mod defaults;
mod installed;
mod others;
mod prober;
mod validator;

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use crate::cluster::{Namespace, Webhook, create, plugin, poll};

/// A probe notices a change within seconds, asks once and writes a second later.
const LIMIT: Duration = Duration::from_secs(240);

/// A pod with one container that breaks no policy; the label is for those who ask for it.
fn pod() -> Value {
    let context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let of_pod = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"team": "shop"}},
        "spec": {"securityContext": of_pod, "containers": [{"name": "web", "image": "web", "securityContext": context}]},
    })
}

/// A node that Linkerd's CNI plugin is meant for, and one that it is not: `linkerd-init` comes first, and the plugin where
/// that is refused.
async fn create_nodes(client: &Client) {
    for (name, labels) in [
        ("covered", json!({"kubernetes.io/os": "linux", "cni": "yes"})),
        ("bare", json!({"kubernetes.io/os": "linux"})),
    ] {
        let node = json!({"metadata": {"name": name, "labels": labels}});
        create(client, "/api/v1/nodes", &node).await;
    }
    // Its pods mount folders of the node, whatever the cluster's default is.
    let level = [("pod-security.kubernetes.io/enforce", "privileged")];
    let namespace = Namespace::create_named(client, "linkerd-cni", &level, &[]).await;
    let daemon_set = plugin(false, &json!({"nodeSelector": {"cni": "yes"}}));
    let reply = namespace.post("apis/apps/v1", "daemonsets", &daemon_set).await;
    assert_eq!(reply.code, 201, "{}", reply.body);
}

/// Waits until a pod in `namespace` is admitted with `redirection`.
async fn until(namespace: &Namespace, redirection: &str, webhook: &Webhook) -> Value {
    let admitted = async || {
        let tried = namespace.try_pod(&pod()).await;
        (mesh::redirection(&tried.body) == Some(redirection)).then_some(tried.body)
    };
    if let Some(body) = poll(LIMIT, admitted).await {
        return body;
    }
    let last = namespace.try_pod(&pod()).await;
    panic!(
        "no {redirection} in {}: {}\n{:?}\n{}",
        namespace.name,
        last.body,
        last.warnings,
        webhook.log()
    );
}
