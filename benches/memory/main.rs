//! Resident memory of the webhook while it watches a real API server with 1,000 namespaces and 100 nodes, at the start and
//! after 10,000 reviews from all of them.
//!
//! Budget: 20 MB. The webhook runs in every cluster, twice or more, and Linkerd's injector takes several times as much to
//! watch the same. A process that keeps growing, or that lets its allocator keep what one burst took, shows here. The exit
//! status is 1 above the budget.
//!
//! The API server and etcd are those of the tests (`tests/assets/build`).
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a bench that cannot run must fail"
)]
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench runs programs and prints what it measured"
)]
#![expect(
    dead_code,
    unused_imports,
    reason = "the control plane of the tests can do more than is needed here"
)]

#[path = "../measure/client.rs"]
mod client;
#[path = "../../tests/cluster/cluster.rs"]
mod cluster;
#[path = "../measure/process.rs"]
mod process;
#[path = "../measure/review.rs"]
mod review;
#[path = "../measure/server.rs"]
mod server;

use client::Connection;
use cluster::{Cluster, Options, Verb, call};
use futures::StreamExt;
use kube::Client;
use process::memory;
use review::review;
use serde_json::{Value, json};
use server::{Files, Server};
use std::process::ExitCode;

/// The budget, in bytes.
const BUDGET: u64 = 20_000_000;

/// Namespaces of the API server: a large cluster.
const NAMESPACES: usize = 1000;

/// Its nodes.
const NODES: usize = 100;

/// Reviews between the two readings.
const REVIEWS: usize = 10_000;

/// Connections that the reviews come by, in turns: one of each API server of a large control plane.
const CONNECTIONS: usize = 3;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    fill(&client).await;
    let kubeconfig = cluster.webhook_kubeconfig().await;
    let files = Files::new().unwrap();
    let webhook = Server::webhook(&files, |command| {
        command.arg("--kubeconfig").arg(kubeconfig);
    });
    let webhook = webhook.unwrap();

    println!("resident memory in MB, with {NAMESPACES} namespaces and {NODES} nodes");
    println!("{:<22} {:>6} {:>10}", "", "all", "anonymous");
    read(webhook.id(), "at the start");
    ask(&webhook, &files.authority);
    let resident = read(webhook.id(), &format!("after {REVIEWS} reviews"));
    let kept = resident <= BUDGET;
    println!(
        "budget: {} MB: {}",
        BUDGET / 1_000_000,
        if kept { "kept" } else { "exceeded" }
    );
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Creates the namespaces, the nodes, and the CNI plugin on all of them.
async fn fill(client: &Client) {
    let create = |(path, object): (&'static str, Value)| async move {
        let reply = call(client, Verb::Create, path, Some(&object)).await.unwrap();
        assert!(reply.accepted(), "{}", reply.body);
    };
    let namespaces = (0..NAMESPACES).map(|index| ("/api/v1/namespaces", namespace(index)));
    let nodes = (0..NODES).map(|index| ("/api/v1/nodes", node(index)));
    let plugin = [("/apis/apps/v1/namespaces/kube-system/daemonsets", plugin())];
    futures::stream::iter(namespaces.chain(nodes).chain(plugin))
        .for_each_concurrent(8, create)
        .await;
}

fn namespace(index: usize) -> Value {
    let labels = json!({"team": format!("team-{}", index % 50), "pod-security.kubernetes.io/enforce": "baseline"});
    let annotations = json!({"linkerd.io/inject": "enabled"});
    json!({"metadata": {"name": format!("scale-{index}"), "labels": labels, "annotations": annotations}})
}

/// A node with the labels that a cloud gives it.
fn node(index: usize) -> Value {
    let name = format!("node-{index}");
    let zone = format!("region-1{}", ["a", "b", "c"][index % 3]);
    let labels = json!({
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": "standard-8",
        "beta.kubernetes.io/os": "linux",
        "failure-domain.beta.kubernetes.io/region": "region-1",
        "failure-domain.beta.kubernetes.io/zone": zone,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "standard-8",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": zone,
    });
    json!({"metadata": {"name": name, "labels": labels}})
}

fn plugin() -> Value {
    let labels = json!({"k8s-app": "linkerd-cni"});
    let container = json!({"name": "install-cni", "image": "registry.example.com/cni:1"});
    let spec = json!({"tolerations": [{"operator": "Exists"}], "containers": [container]});
    json!({
        "metadata": {"name": "linkerd-cni", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    })
}

/// Has a pod of each namespace reviewed, again and again.
fn ask(webhook: &Server, authority: &str) {
    let open = || Connection::open(webhook.address(), authority).unwrap();
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| open()).collect();
    for index in 0..REVIEWS {
        let review = review(&format!("scale-{}", index % NAMESPACES)).to_string();
        let answer = connections[index % CONNECTIONS].ask(review.as_bytes()).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(answer["response"]["patch"].is_string(), "{answer}");
    }
}

/// Prints what the process has in memory, and returns it: all of it, in bytes.
fn read(process: u32, when: &str) -> u64 {
    let figure = |key| memory(process, key).unwrap();
    let (all, anonymous) = (figure("VmRSS"), figure("RssAnon"));
    let megabytes = |bytes: u64| format!("{}.{}", bytes / 1_000_000, bytes / 100_000 % 10);
    println!("{when:<22} {:>6} {:>10}", megabytes(all), megabytes(anonymous));
    all
}
