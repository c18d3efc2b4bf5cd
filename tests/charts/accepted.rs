//! What the charts render is accepted by real API servers, and its pods by what they enforce.

use std::fs;

use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{Cluster, Edition, Namespace, Options, shared};
use crate::helm::{helm, template};
use crate::options::ALL;

/// Kinds that no server has of itself.
const FOREIGN: [&str; 6] = [
    "Certificate",
    "Issuer",
    "PodMonitor",
    "PrometheusRule",
    "SecurityContextConstraints",
    "ServiceMonitor",
];

/// The namespaces that objects of the options are in.
const NAMESPACES: [&str; 6] = ["linkerd", "linkerd-cni", "mesh", "cni", "shop", "bank"];

/// The objects of `text`, but for `kinds`.
pub(crate) fn objects(text: &str, kinds: &[&str]) -> Vec<Value> {
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    objects.retain(|object| kinds.iter().all(|kind| object["kind"] != *kind));
    objects
}

/// Applies `objects` with the flags of `kubectl apply`; the server has to take all of them without a word.
pub(crate) fn apply(cluster: &Cluster, objects: &[Value], flags: &[&str]) -> usize {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("list.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    fs::write(&file, list.to_string()).unwrap();
    let mut arguments = vec!["apply", "--filename", file.to_str().unwrap()];
    arguments.extend(flags);
    let output = cluster.kubectl(&arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    // That they are going away nobody can help who has them.
    let mut unexpected = said
        .lines()
        .filter(|line| !line.contains("PodSecurityPolicy is deprecated"));
    assert!(output.status.success() && unexpected.next().is_none(), "{said}");
    String::from_utf8_lossy(&output.stdout).lines().count()
}

async fn create_namespaces(client: &Client) {
    for name in NAMESPACES {
        Namespace::create_named(client, name, &[], &[]).await;
    }
}

#[tokio::test]
async fn the_newest_server_takes_every_object() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    create_namespaces(&cluster.client().await).await;
    // The namespaces are there.
    let kinds: Vec<_> = FOREIGN
        .iter()
        .chain(&["PodSecurityPolicy", "Namespace"])
        .copied()
        .collect();
    let mut count = 0;
    for options in &ALL {
        let text = template(options.chart, options.namespace, options.minor, options.helm);
        let wanted = objects(&text, &kinds);
        let accepted = apply(&cluster, &wanted, &["--dry-run=server"]);
        assert_eq!(accepted, wanted.len(), "{:?}", options.command());
        count += accepted;
    }
    assert!(count > 200, "{count}");
}

#[tokio::test]
async fn kubernetes_1_24_takes_every_object_that_is_for_it() {
    let cluster = Cluster::start(Options {
        edition: Edition::PodSecurityPolicy,
        ..Options::default()
    });
    let cluster = cluster.await.unwrap();
    create_namespaces(&cluster.client().await).await;
    for options in ALL.iter().filter(|options| options.minor <= 24) {
        let text = template(options.chart, options.namespace, options.minor, options.helm);
        let wanted = objects(&text, &FOREIGN);
        assert!(text.contains("kind: PodSecurityPolicy"), "{:?}", options.command());
        let accepted = apply(&cluster, &wanted, &["--dry-run=server"]);
        assert_eq!(accepted, wanted.len(), "{:?}", options.command());
    }
}

/// The pods that the objects of `text` consist of or make: each with a name.
pub(crate) fn pods(text: &str) -> Vec<Value> {
    let mut pods = Vec::new();
    for object in objects(text, &[]) {
        let mut pod = match object["kind"].as_str().unwrap() {
            "Pod" => json!({"metadata": {"labels": object["metadata"]["labels"]}, "spec": object["spec"]}),
            "Deployment" | "DaemonSet" => object["spec"]["template"].clone(),
            _ => continue,
        };
        pod["metadata"]["name"] = object["metadata"]["name"].clone();
        pods.push(pod);
    }
    pods
}

#[tokio::test]
async fn every_pod_of_the_webhooks_namespace_is_restricted_clean() {
    let client = shared().await.client().await;
    let mut count = 0;
    for options in ALL.iter().filter(|options| options.chart == "outrigger") {
        let release = format!("1.{}", options.minor);
        // With those of `helm test`.
        let mut arguments = vec![
            "template",
            options.chart,
            options.chart,
            "--namespace",
            options.namespace,
        ];
        arguments.extend(["--kube-version", &release]);
        arguments.extend(options.helm);
        let rendered = String::from_utf8(helm(&arguments).stdout).unwrap();
        let labels = [("pod-security.kubernetes.io/enforce", "restricted")];
        let namespace = Namespace::create(&client, "clean", &labels, &[]).await;
        for pod in pods(&rendered) {
            let account = json!({"metadata": {"name": pod["spec"]["serviceAccountName"]}});
            namespace.post("api/v1", "serviceaccounts", &account).await;
            let mut pod = pod;
            if pod["spec"]["priorityClassName"] == "important" {
                pod["spec"].as_object_mut().unwrap().remove("priorityClassName");
            }
            let reply = namespace.create_pod(&pod).await;
            assert_eq!(reply.code, 201, "{:?}: {}", options.command(), reply.message());
            assert_eq!(reply.warnings, [""; 0]);
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
}
