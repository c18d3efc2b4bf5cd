//! Installs and uninstalls the product as its manifests' README files say, but for what an installer fills in.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::cluster::{Verb, call, repository};
use crate::eventually;
use crate::image::PROXY;
use crate::node::{NAME, Node, condition};
use crate::pods::{application, namespace};

/// The agent's manifests, in the order of their README.
const AGENT: [&str; 4] = ["namespace.yaml", "rbac.yaml", "node-restriction.yaml", "daemonset.yaml"];

/// Installs the agent.
pub(crate) async fn agent(node: &Node) {
    for file in AGENT {
        node.cluster.apply(&format!("cni-config/{file}"));
    }
    agent_is_ready(node).await;
}

/// Waits until the agent's pod is the one that its DaemonSet means now, and ready.
pub(crate) async fn agent_is_ready(node: &Node) {
    eventually("the agent is ready", async || {
        let set = node
            .read("/apis/apps/v1/namespaces/linkerd-cni/daemonsets/outrigger-cni")
            .await;
        let status = &set["status"];
        let current = status["observedGeneration"] == set["metadata"]["generation"];
        let counts = ["desiredNumberScheduled", "updatedNumberScheduled", "numberReady"].map(|count| &status[count]);
        match current && counts.iter().all(|count| **count == 1) {
            true => Ok(()),
            false => Err(status.to_string()),
        }
    })
    .await;
}

/// Waits until there is no agent.
pub(crate) async fn agent_is_gone(node: &Node) {
    eventually("the agent is gone", async || {
        let pods = node.read("/api/v1/namespaces/linkerd-cni/pods").await;
        let pods = pods["items"].as_array().ok_or("the API server does not answer")?;
        if pods.is_empty() {
            Ok(())
        } else {
            Err(format!("{pods:?}"))
        }
    })
    .await;
}

/// Takes the agent away: first the DaemonSet, and the rest once its pods are gone.
pub(crate) async fn uninstall_agent(node: &Node) {
    delete(node, "cni-config/daemonset.yaml");
    agent_is_gone(node).await;
    for file in AGENT.iter().rev().skip(1) {
        delete(node, &format!("cni-config/{file}"));
    }
}

/// Installs the webhook, the start-up taint being gone.
pub(crate) async fn webhook(node: &Node) {
    let labels = json!({
        "linkerd.io/is-control-plane": "true",
        "config.linkerd.io/admission-webhooks": "disabled",
        "pod-security.kubernetes.io/enforce": "restricted",
    });
    namespace(node, "linkerd", &labels, &json!({})).await;
    let certificates = node.sandbox.folder().join("tls");
    let mut certs = Command::new(env!("CARGO_BIN_EXE_outrigger"));
    certs.arg("certs").arg("--out").arg(&certificates);
    certs.args(["--force", "--dns", "linkerd-proxy-injector.linkerd.svc"]);
    let output = certs.output().expect("outrigger runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let anchors = fs::read_to_string(certificates.join("ca.crt")).expect("it was just made");
    let (proxy, tag) = PROXY;
    let values = json!({
        "linkerdVersion": "edge-26.11.1",
        "identityTrustAnchorsPEM": anchors,
        "imagePullPolicy": "Never",
        "proxy": {"image": {"name": proxy, "version": tag}},
        "outrigger": {"image": {"name": "outrigger"}},
    });
    let config_map = |name: &str, data: Value| {
        let metadata = json!({"name": name, "namespace": "linkerd"});
        node.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}));
    };
    config_map("linkerd-config", json!({"values": values.to_string()}));
    config_map("linkerd-identity-trust-roots", json!({"ca-bundle.crt": anchors}));
    for file in ["rbac.yaml", "secret.yaml", "service.yaml", "deployment.yaml"] {
        node.cluster.apply(&format!("webhook-config/{file}"));
    }
    eventually("the webhook is ready", async || {
        let path = "/apis/apps/v1/namespaces/linkerd/deployments/linkerd-proxy-injector";
        let deployment = node.read(path).await;
        match deployment["status"]["readyReplicas"] == 2 {
            true => Ok(()),
            false => Err(deployment["status"].to_string()),
        }
    })
    .await;
    node.cluster
        .apply("webhook-config/ha/mutating-webhook-configuration.yaml");
    webhook_is_called(node).await;
}

/// The API server learns of a webhook by a watch.
async fn webhook_is_called(node: &Node) {
    namespace(node, "called", &json!({}), &json!({"linkerd.io/inject": "enabled"})).await;
    let pod = json!({"metadata": {"name": "called"}, "spec": application("called")});
    eventually("the webhook is called", async || {
        let client = node.cluster.client().await;
        let reply = call(
            &client,
            Verb::Create,
            "/api/v1/namespaces/called/pods?dryRun=All",
            Some(&pod),
        )
        .await;
        let reply = reply.map_err(|error| error.to_string())?;
        match reply.body.to_string().contains("linkerd-proxy") {
            true => Ok(()),
            false => Err(reply.body.to_string()),
        }
    })
    .await;
}

/// Waits until the start-up taint is gone.
pub(crate) async fn taint_is_gone(node: &Node) {
    eventually("the start-up taint is gone", async || {
        let object = node.read(&format!("/api/v1/nodes/{NAME}")).await;
        let taints = object["spec"]["taints"].to_string();
        match condition(&object, "Ready") && !taints.contains("outrigger.linkerd.io") {
            true => Ok(()),
            false => Err(taints),
        }
    })
    .await;
}

/// Deletes the objects of a file, a path in the repository.
pub(crate) fn delete(node: &Node, file: &str) {
    let file = repository().join(file);
    node.kubectl(&["delete", "--filename", file.to_str().expect("paths are UTF-8")]);
}
