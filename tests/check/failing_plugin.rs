//! A CNI plugin that has been failing on its nodes, as its pods tell.

use serde_json::json;

use crate::answer::Answer;
use crate::cluster::Namespace;
use crate::deployment;
use crate::installation::{ENFORCE, Installation, post};

#[tokio::test]
async fn nodes_where_the_plugin_has_been_failing_do_not_count() {
    let installation = Installation::new("127.107.0.0/16").await;
    let kubeconfig = installation.kubeconfig();
    let bank = installation.meshed("bank", "baseline").await;
    post(&bank, "apis/apps/v1", "deployments", &deployment("web", &json!({}))).await;
    assert!(Answer::to(&kubeconfig, &[]).has("workloads_admitted"));

    pretend(&installation).await;
    let answer = Answer::to(&kubeconfig, &[]);
    let line = "tenant/pretender: namespace tenant enforces baseline:latest, which refuses pods that mount folders of their node";
    assert_eq!(
        answer.says("cni_disbelieved"),
        format!("warning: 1 DaemonSet is not taken for the plugin\n{line}")
    );
    assert_eq!(answer.faults(), ["cni_disbelieved"], "nor is it a second plugin");

    fail(&installation, "n1").await;
    let said = Answer::to(&kubeconfig, &[]).says("workload_warned");
    assert!(
        said.contains(
            "bank/Deployment/web: cni_failing: the CNI plugin has been failing for 5 minutes on 1 of 2 nodes"
        ),
        "{said}"
    );

    fail(&installation, "n2").await;
    let said = Answer::to(&kubeconfig, &[]).says("workload_refused");
    assert!(
        said.contains("the CNI plugin has been failing for 5 minutes on 2 of 2 nodes"),
        "{said}"
    );
}

/// A DaemonSet of somebody who could not write to nodes says that it is the plugin.
async fn pretend(installation: &Installation) {
    let tenant = Namespace::create_named(&installation.client, "tenant", &[(ENFORCE, "baseline")], &[]).await;
    let mut pretender = deployment(
        "pretender",
        &json!({"volumes": [{"name": "net", "hostPath": {"path": "/etc/cni"}}]}),
    );
    pretender["metadata"]["labels"] = json!({"k8s-app": "linkerd-cni"});
    post(&tenant, "apis/apps/v1", "daemonsets", &pretender).await;
}

/// The plugin's pod on `node` has not been ready for as long as anybody can remember.
async fn fail(installation: &Installation, node: &str) {
    // The server taints a new node as one that is not ready, and a lost node says nothing about the plugin.
    let untainted = json!({"spec": {"taints": null}});
    installation.patch(&format!("/api/v1/nodes/{node}"), &untainted).await;
    let labels = json!({"app.kubernetes.io/name": "outrigger-cni", "linkerd.io/cni-resource": "true"});
    let name = format!("agent-{node}");
    let pods = "/api/v1/namespaces/linkerd-cni/pods";
    let pod = json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "agent", "image": "agent"}]},
    });
    installation.create(pods, &pod).await;
    let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": "2024-01-01T00:00:00Z"});
    let status = json!({"status": {"conditions": [condition]}});
    installation.patch(&format!("{pods}/{name}/status"), &status).await;
}
