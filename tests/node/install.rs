//! Installs and uninstalls the product as its manifests' README files say, but for what an installer fills in.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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

/// Makes what the webhook finds of Linkerd's control plane, and returns the folder of a certificate for it.
pub(crate) async fn control_plane(node: &Node) -> PathBuf {
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
        "identityTrustAnchorsPEM": &anchors,
        "imagePullPolicy": "Never",
        "proxy": {"image": {"name": proxy, "version": tag}},
        "outrigger": {"image": {"name": "outrigger"}},
    });
    let values = json!({"values": values.to_string()});
    create(node, "ConfigMap", "linkerd-config", "data", &values);
    let roots = json!({"ca-bundle.crt": anchors});
    create(node, "ConfigMap", "linkerd-identity-trust-roots", "data", &roots);
    certificates
}

/// Makes an object in the control plane's namespace, of one field.
fn create(node: &Node, kind: &str, name: &str, field: &str, data: &Value) {
    let metadata = json!({"name": name, "namespace": "linkerd"});
    node.apply(&json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, (field): data}));
}

/// Installs the webhook, the start-up taint being gone.
pub(crate) async fn webhook(node: &Node) {
    let certificates = control_plane(node).await;
    let text = |name: &str| fs::read_to_string(certificates.join(name)).expect("it was just made");
    let pair = json!({"tls.crt": text("tls.crt"), "tls.key": text("tls.key")});
    create(node, "Secret", "linkerd-proxy-injector-k8s-tls", "stringData", &pair);
    for file in ["rbac.yaml", "service.yaml", "deployment.yaml"] {
        node.cluster.apply(&format!("webhook-config/{file}"));
    }
    webhook_is_ready(node).await;
    let manifest = repository().join("webhook-config/ha/mutating-webhook-configuration.yaml");
    let manifest = fs::read_to_string(manifest).expect("the manifest is there");
    let filled = node.sandbox.folder().join("webhook-configuration.yaml");
    fs::write(&filled, manifest.replace("CA_BUNDLE", &STANDARD.encode(text("ca.crt")))).expect("a file can be written");
    node.kubectl(&["apply", "--filename", filled.to_str().expect("paths are UTF-8")]);
    webhook_is_called(node).await;
}

/// Waits until both replicas are ready.
pub(crate) async fn webhook_is_ready(node: &Node) {
    eventually("the webhook is ready", async || {
        let path = "/apis/apps/v1/namespaces/linkerd/deployments/linkerd-proxy-injector";
        let deployment = node.read(path).await;
        match deployment["status"]["readyReplicas"] == 2 {
            true => Ok(()),
            false => Err(deployment["status"].to_string()),
        }
    })
    .await;
}

/// Takes webhook, control plane and agent away, with all that they have left on the node.
pub(crate) async fn uninstall(node: &Node) {
    for file in [
        "webhook-config/mutating-webhook-configuration.yaml",
        "webhook-config/rbac.yaml",
    ] {
        delete(node, file);
    }
    node.kubectl(&["delete", "namespace", "linkerd"]);
    no_pod_is_left(node).await;
    uninstall_agent(node).await;
}

/// Waits until no pod is left that was set up with the plugin.
pub(crate) async fn no_pod_is_left(node: &Node) {
    eventually("no pod is left that was set up with the plugin", async || {
        let results = fs::read_dir(node.sandbox.path("/var/lib/cni/results")).expect("the runtime remembers pods");
        let names: Vec<_> = results.flatten().map(|entry| entry.file_name()).collect();
        match names.is_empty() {
            true => Ok(()),
            false => Err(format!("{names:?}")),
        }
    })
    .await;
}

/// The API server learns of a webhook by a watch.
pub(crate) async fn webhook_is_called(node: &Node) {
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
