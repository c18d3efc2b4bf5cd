//! A cluster default and an exemption of Pod Security, which no API shows.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{Cluster, Namespace, Options, poll};
use crate::prober::{Prober, finding, install, until_found};
use crate::scene::{INJECT, PLAIN, Scene};
use crate::{LIMIT, create_nodes, pod, until};

/// The API server's own configuration: `baseline` everywhere but in the namespace `exempt`.
fn baseline_by_default() -> Options {
    let configuration = json!({
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": "baseline"},
        "exemptions": {"namespaces": ["exempt"]},
    });
    Options {
        admission: Some(json!({
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration",
            "plugins": [{"name": "PodSecurity", "configuration": configuration}],
        })),
        ..Options::default()
    }
}

#[tokio::test]
async fn a_default_that_no_label_shows_is_found_out_and_heeded() {
    let cluster = Cluster::start(baseline_by_default()).await.unwrap();
    let scene = Scene::in_cluster(&cluster, PLAIN).await;
    create_nodes(&scene.client).await;
    let plain = scene.namespace("plain", &[], &[INJECT]).await;
    let exempt = Namespace::create_named(&scene.client, "exempt", &[scene.registration.label()], &[INJECT]).await;
    // Without a probe nobody can know: the pod gets what the API server then refuses.
    let refused = async || {
        let reply = plain.try_pod(&pod()).await;
        (reply.code == 403 && reply.message().contains("violates PodSecurity \"baseline:latest\"")).then_some(())
    };
    poll(LIMIT, refused)
        .await
        .expect("the pod is refused for what injection added");

    install(&cluster);
    let mut prober = Prober::start(&cluster, PLAIN).await;
    let held = until(&plain, "cni", &scene.webhook).await;
    assert_eq!(held["spec"]["nodeSelector"], json!({"cni": "yes"}));
    until_found(&scene.client, &prober, "exempt", |finding| {
        finding["init-container"]["verdict"] == "admitted"
    })
    .await;
    until(&exempt, "init-container", &scene.webhook).await;
    let found = finding(&scene.client, &plain.name).await;
    let said = &found["init-container"];
    assert_eq!(
        (&said["by"], &said["policy"]),
        (&json!("pod-security"), &json!("baseline:latest"))
    );
    assert_eq!((prober.until("/ready", "ok").await.0, prober.ended()), (200, None));

    explained(&cluster, &plain.name);
    contradicted(&scene, &plain).await;
}

/// `explain` shows what was found out, from the cluster and from a saved ConfigMap.
fn explained(cluster: &Cluster, namespace: &str) {
    let folder = TempDir::new().unwrap();
    let app = folder.path().join("app.yaml");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": pod()["spec"]}}});
    fs::write(&app, deployment.to_string()).unwrap();
    let explain = |flags: &[&str]| -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
        let output = command
            .args(["explain", "-o", "json", "-f"])
            .arg(folder.path())
            .args(flags)
            .output()
            .unwrap();
        let list: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        list[0].clone()
    };
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let live = explain(&["--kubeconfig", &kubeconfig]);
    assert_eq!(live["redirection"], "cni", "{live}");
    let saved = |kind: &str, name: &str, namespaced: &[&str]| {
        let output = cluster.kubectl([&["get", kind, name, "-o", "json"], namespaced].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::write(folder.path().join(format!("{kind}.json")), output.stdout).unwrap();
    };
    saved("namespace", namespace, &[]);
    saved("configmap", "outrigger-probe-findings", &["-n", "linkerd"]);
    let offline = explain(&["--cni", "all"]);
    for entry in [&live, &offline] {
        let trace = entry["trace"].to_string();
        assert!(
            trace.contains("probe: found ") && trace.contains(" ago: init-container: refused by pod-security"),
            "{trace}"
        );
        let policies = entry["policies"].as_array().unwrap();
        assert!(policies.iter().any(|policy| policy["by"] == "probe"), "{policies:?}");
    }
}

/// What the operator configures is confirmed, or contradicted with a warning and a metric.
async fn contradicted(scene: &Scene, namespace: &Namespace) {
    const CONTRADICTIONS: &str = "outrigger_admission_warnings_total{warning=\"probe_contradicts\"}";
    let warned = async || {
        let reply = namespace.try_pod(&pod()).await;
        reply
            .warnings
            .iter()
            .any(|warning| warning.starts_with("probe_contradicts: "))
    };
    let configured = |level: &str| format!("{PLAIN}outrigger: {{podSecurity: {{defaults: {{enforce: {level}}}}}}}\n");
    assert!(!warned().await);
    assert!(scene.webhook.metric(CONTRADICTIONS).await < 1.0);
    scene.webhook.write_values(&configured("restricted"));
    poll(LIMIT, async || warned().await.then_some(()))
        .await
        .expect("a warning");
    assert!(scene.webhook.metric(CONTRADICTIONS).await > 0.0);
    scene.webhook.write_values(&configured("baseline"));
    poll(LIMIT, async || (!warned().await).then_some(()))
        .await
        .expect("what is right is not warned of");
    until(namespace, "cni", &scene.webhook).await;
}
