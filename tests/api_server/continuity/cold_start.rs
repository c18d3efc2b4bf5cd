//! A cluster that starts again with everything in etcd, nothing running, and a registration that fails closed.

use std::process::Command;

use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::LIMIT;
use super::deployment::Deployment;
use crate::announce;
use crate::cluster::service::entries;
use crate::cluster::{Cluster, Namespace, Process, UNASKED, Verb, built, call, create, poll};
use crate::mesh;
use crate::scene::INJECT;

#[tokio::test]
async fn after_a_cold_start_kube_system_comes_up_then_we_do_then_whoever_waits_for_us() {
    let mut deployment = Deployment::install().await;
    let client = deployment.client.clone();
    assert_eq!(entries(&client).await[0]["failurePolicy"], "Fail");
    arrange(&client).await;

    // Everything goes, for longer than the certificate was good.
    deployment.lose_replicas();
    deployment.expire().await;
    deployment.restart_api_server().await;
    let logs = TempDir::new().unwrap();
    let controllers = start_controllers(&deployment.cluster, &logs);

    let mut started = Vec::new();
    for (namespace, workload, replicas) in [
        ("kube-system", "coredns", 2),
        ("kube-system", "kube-proxy", 1),
        ("linkerd-cni", "linkerd-cni", 1),
        ("linkerd", "linkerd-proxy-injector", 3),
    ] {
        let pods = made(&client, namespace, workload, replicas).await;
        let pods = pods.unwrap_or_else(|| panic!("{workload} is not created: {}", controllers.log_tail()));
        assert!(pods.iter().all(|pod| mesh::redirection(pod).is_none()), "{pods:#?}");
        started.push(format!("{replicas} of {workload}"));
    }
    let refused = poll(LIMIT, async || refusal(&client).await)
        .await
        .expect("web is refused");
    assert!(
        refused.contains("failed calling webhook \"linkerd-proxy-injector.linkerd.io\""),
        "{refused}"
    );
    assert_eq!(pods_of(&client, "shop", "web").await.len(), 0);

    // One of our pods runs.
    deployment.add_replica().await;
    let pods = made(&client, "shop", "web", 2).await;
    let pods = pods.unwrap_or_else(|| panic!("web is not created: {}", controllers.log_tail()));
    assert!(
        pods.iter().all(|pod| mesh::redirection(pod) == Some("cni")),
        "{pods:#?}"
    );
    announce(&format!(
        "pods that controllers created after a cold start with failurePolicy Fail: {}, without the webhook; 2 of web, with a \
         proxy, once it was there",
        started.join(", ")
    ));
}

/// Writes what the cluster consists of; nobody makes pods of it yet.
async fn arrange(client: &Client) {
    for name in ["linkerd-cni", "shop"] {
        let (labels, annotations) = match name {
            "shop" => (&[][..], &[INJECT][..]),
            _ => (&[UNASKED][..], &[][..]),
        };
        Namespace::create_named(client, name, labels, annotations).await;
    }
    create(client, "/api/v1/nodes", &json!({"metadata": {"name": "node-0"}})).await;
    for (namespace, kind, name, class) in [
        ("kube-system", "deployments", "coredns", "system-cluster-critical"),
        ("kube-system", "daemonsets", "kube-proxy", "system-node-critical"),
        ("linkerd-cni", "daemonsets", "linkerd-cni", "system-node-critical"),
        ("shop", "deployments", "web", ""),
    ] {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/{kind}");
        create(client, &path, &workload(kind, name, class)).await;
    }
}

fn workload(kind: &str, name: &str, class: &str) -> Value {
    let labels = json!({"app": name});
    let mut spec = json!({"containers": [{"name": name, "image": name}], "priorityClassName": class});
    if kind == "daemonsets" {
        spec["hostNetwork"] = true.into();
        spec["tolerations"] = json!([{"operator": "Exists"}]);
    }
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let mut workload = json!({
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    });
    if kind == "deployments" {
        workload["spec"]["replicas"] = 2.into();
    }
    workload
}

/// Those who make pods of workloads.
fn start_controllers(cluster: &Cluster, logs: &TempDir) -> Process {
    let programs = built("node").unwrap_or_else(|message| panic!("{message}"));
    let mut command = Command::new(programs.join("kube-controller-manager"));
    let file = |flag: &str, name: &str| format!("--{flag}={}", cluster.file(name).display());
    command
        .arg(format!("--kubeconfig={}", cluster.kubeconfig().display()))
        .args(["--leader-elect=false", "--secure-port=0"])
        .arg(file("service-account-private-key-file", "service-account.key"))
        .arg(file("root-ca-file", "apiserver.crt"));
    Process::spawn("kube-controller-manager", &mut command, logs.path())
}

/// The pods of a workload, whose names begin with its name.
async fn pods_of(client: &Client, namespace: &str, workload: &str) -> Vec<Value> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let list = call(client, Verb::Get, &path, None).await.unwrap().body;
    let mut pods = list["items"].as_array().unwrap().clone();
    pods.retain(|pod| pod["metadata"]["name"].as_str().unwrap().starts_with(workload));
    pods
}

/// The same once there are so many.
async fn made(client: &Client, namespace: &str, workload: &str, replicas: usize) -> Option<Vec<Value>> {
    let made = async || {
        let pods = pods_of(client, namespace, workload).await;
        (pods.len() == replicas).then_some(pods)
    };
    poll(LIMIT, made).await
}

/// Why the ReplicaSet of `web` has no pods.
async fn refusal(client: &Client) -> Option<String> {
    let sets = "/apis/apps/v1/namespaces/shop/replicasets";
    let list = call(client, Verb::Get, sets, None).await.unwrap().body;
    let conditions = list["items"][0]["status"]["conditions"].as_array()?.clone();
    let failure = conditions
        .iter()
        .find(|condition| condition["type"] == "ReplicaFailure")?;
    failure["message"].as_str().map(str::to_owned)
}
