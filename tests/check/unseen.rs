//! What no API tells shows in a dry run.

use serde_json::json;

use crate::answer::Answer;
use crate::cluster::Namespace;
use crate::installation::{INJECT, Installation};

#[tokio::test]
async fn a_default_of_the_cluster_shows_in_a_dry_run() {
    let admission = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurity", "configuration": {
            "apiVersion": "pod-security.admission.config.k8s.io/v1",
            "kind": "PodSecurityConfiguration",
            "defaults": {"enforce": "baseline"},
        }}],
    });
    let installation = Installation::in_cluster("127.106.0.0/16", Some(admission)).await;
    // Without a plugin the init container is all that is left.
    let output = installation
        .cluster
        .kubectl(["--namespace", "linkerd-cni", "delete", "daemonset", "outrigger-cni"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    installation.meshed("open", "privileged").await;
    Namespace::create_named(&installation.client, "plain", &[], &[INJECT]).await;

    let answer = Answer::until(&installation.kubeconfig(), &[], "dry_run_injection_refused").await;
    assert_eq!(
        (answer.status, answer.faults()),
        (Some(1), vec!["dry_run_injection_refused"])
    );
    let said = answer.says("dry_run_injection_refused");
    assert!(
        said.starts_with("failed: a plain pod in plain is refused for what injection added: "),
        "{said}"
    );
    assert!(
        said.contains("violates PodSecurity \"baseline:latest\"") && said.contains("linkerd-init"),
        "{said}"
    );
    assert_eq!(
        answer.says("dry_run_injected"),
        "ok: a pod in open is injected, with init-container\n"
    );

    // Once the values say it, nothing is left that fits, and it is said beforehand.
    let values = "linkerdVersion: edge-26.11.1\noutrigger: {podSecurity: {defaults: {enforce: baseline}}}\n";
    let path = "/api/v1/namespaces/linkerd/configmaps/linkerd-config";
    installation.patch(path, &json!({"data": {"values": values}})).await;
    let answer = Answer::to(&installation.kubeconfig(), &[]);
    assert!(!answer.has("dry_run_injection_refused"), "{answer:#?}");
}
