//! `outrigger explain` of live workloads: which are meant, what stands for what, and what may not be read.

use std::path::{Path, PathBuf};
use std::process::Command;

use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{Cluster, Namespace, Options, create as create_at};
use crate::explain::{allow_namespaces, furnish, kubeconfig};
use crate::pod;
use crate::workload::{create, pod_of};

/// What `outrigger explain -o json` says.
struct Said {
    status: Option<i32>,
    entries: Vec<Value>,
    notes: String,
}

impl Said {
    /// `Kind/name in namespace: reason` of each entry.
    fn lines(&self) -> Vec<String> {
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
        let line = |entry| {
            let (workload, namespace) = (text(entry, "workload"), text(entry, "namespace"));
            format!("{workload} in {namespace}: {}", text(entry, "reason"))
        };
        self.entries.iter().map(line).collect()
    }
}

fn explain(kubeconfig: &Path, arguments: &str) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(["explain", "-o", "json"])
        .args(arguments.split(' '))
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Said {
        status: output.status.code(),
        entries: list.as_array().cloned().unwrap_or_default(),
        notes: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Namespace `shop`, which refuses `linkerd-init`, with workloads of several kinds, and `bank`, which asks for nothing.
struct Shops {
    cluster: Cluster,
    client: Client,
    shop: Namespace,
    own: PathBuf,
}

impl Shops {
    async fn open() -> Self {
        let cluster = Cluster::start(Options::default()).await.unwrap();
        let client = cluster.client().await;
        furnish(&client).await;
        let bank = Namespace::create_named(&client, "bank", &[], &[]).await;
        create(&bank, "Deployment", "vault", None).await;
        let own = cluster.kubeconfig();
        let shop = bank.named("shop");
        Self {
            cluster,
            client,
            shop,
            own,
        }
    }
}

/// `Deployment/web in shop` with the way that is left where the plugin is on one node of two.
fn held(workload: &str) -> String {
    format!("{workload} in shop: cni_on_some_nodes")
}

#[tokio::test]
async fn live_workloads_are_named_as_for_kubectl() {
    let shops = Shops::open().await;
    let web = create(&shops.shop, "Deployment", "web", None).await;
    let replica_set = create(&shops.shop, "ReplicaSet", "web-5d9c", Some(&web)).await;
    let cron_job = create(&shops.shop, "CronJob", "nightly", None).await;
    create(&shops.shop, "Job", "nightly-1", Some(&cron_job)).await;
    create(&shops.shop, "StatefulSet", "db", None).await;
    let mut child = pod_of(&replica_set);
    child["metadata"]["name"] = "web-5d9c-x".into();
    assert_eq!(shops.shop.create_pod(&child).await.code, 201);
    let labelled = shops
        .cluster
        .kubectl(["label", "--namespace", "shop", "deploy/web", "app=web"]);
    assert!(labelled.status.success(), "{labelled:?}");
    let explain = |arguments: &str| explain(&shops.own, arguments);

    for arguments in [
        "deploy/web -n shop",
        "deployments.apps web -n shop",
        "deploy -n shop -l app=web",
    ] {
        let said = explain(arguments);
        assert_eq!(
            (said.status, said.lines()),
            (Some(0), vec![held("Deployment/web")]),
            "{}",
            said.notes
        );
        assert_eq!(said.notes, "", "{arguments}: nothing is assumed");
    }
    // What another object made stands for that.
    for (arguments, note, maker) in [
        (
            "pod/web-5d9c-x",
            "Pod/web-5d9c-x: its next pod is of Deployment/web",
            "Deployment/web",
        ),
        (
            "rs web-5d9c",
            "ReplicaSet/web-5d9c: its next pod is of Deployment/web",
            "Deployment/web",
        ),
        (
            "job/nightly-1",
            "Job/nightly-1: its next pod is of CronJob/nightly",
            "CronJob/nightly",
        ),
    ] {
        let said = explain(&format!("{arguments} -n shop"));
        assert_eq!(said.lines(), [held(maker)], "{}", said.notes);
        assert!(said.notes.contains(note), "{}", said.notes);
    }
    let every = ["Deployment/web", "StatefulSet/db", "CronJob/nightly"].map(held);
    assert_eq!(explain("all -n shop").lines(), every);
    assert_eq!(explain("pods,sts,jobs -n shop").lines(), every);
    assert_eq!(explain("deploy/web sts/db -n shop").lines(), every[..2]);
    let everywhere = explain("deploy -A");
    let bank = "Deployment/vault in bank: injection_enable_annotation_absent".to_owned();
    assert_eq!(
        everywhere.lines(),
        [bank, held("Deployment/web")],
        "{}",
        everywhere.notes
    );

    let nothing = explain("deploy -n shop -l app=nobody");
    assert_eq!((nothing.status, nothing.lines()), (Some(0), Vec::new()));
    assert!(
        nothing.notes.contains("there is nothing that makes pods"),
        "{}",
        nothing.notes
    );
    what_is_not_there(&shops.own);
}

fn what_is_not_there(own: &Path) {
    for (arguments, expected) in [
        (
            "deploy/gone sts/db pod/gone -n shop",
            "not found in namespace shop: deployment/gone, pod/gone",
        ),
        (
            "deploy/web -n nowhere",
            "not found in namespace nowhere: deployment/web",
        ),
        ("deploy/web", "not found in namespace default: deployment/web"),
        (
            "rollouts -n shop",
            "\"rollouts\" is no type whose pods can be explained",
        ),
        ("deploy/web -A", "-A takes types alone"),
        ("deploy web -l app=web", "-l takes types alone"),
        ("deploy -n shop -l a=b=c", "deployments: found '=', expected"),
        ("deploy/web --context nobody", "nobody"),
    ] {
        let said = explain(own, arguments);
        assert_eq!((said.status, said.entries.len()), (Some(2), 0), "{arguments}");
        assert!(said.notes.contains(expected), "{arguments}: {}", said.notes);
    }
}

#[tokio::test]
async fn a_pod_that_nothing_makes_is_explained_as_it_would_be_created_anew() {
    let shops = Shops::open().await;
    // As injection left it, on a node without the plugin.
    let mut bare = pod("bare", &json!({}));
    bare["metadata"]["annotations"] =
        json!({"linkerd.io/created-by": "outrigger/0", "linkerd.io/setup-iptables": "cni"});
    bare["spec"]["nodeName"] = "n2".into();
    let proxy = json!({"name": "linkerd-proxy", "image": "proxy"});
    bare["spec"]["containers"].as_array_mut().unwrap().insert(0, proxy);
    let created = shops.shop.create_pod(&bare).await;
    assert_eq!(created.code, 201, "{}", created.message());
    let said = explain(&shops.own, "pod/bare -n shop");
    assert_eq!(said.lines(), [held("Pod/bare")], "{}", said.notes);
    // Its owner is of a kind that nobody here knows.
    let rollout = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
        "metadata": {"name": "web", "uid": "7d0c1e52-6a4e-4a0d-9d5e-000000000000"},
    });
    create(&shops.shop, "ReplicaSet", "web-1", Some(&rollout)).await;
    let said = explain(&shops.own, "rs/web-1 -n shop");
    assert_eq!(said.lines(), [held("ReplicaSet/web-1")], "{}", said.notes);
    assert!(!said.notes.contains("its next pod is of"), "{}", said.notes);
}

/// Lets `user` read Deployments and pods beside namespaces.
async fn allow_deployments(client: &Client, user: &str) {
    let rules = json!([
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
    ]);
    let role = json!({"metadata": {"name": "deployments"}, "rules": rules});
    create_at(client, "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await;
    let binding = json!({
        "metadata": {"name": "deployments"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "deployments"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    create_at(
        client,
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        &binding,
    )
    .await;
}

#[tokio::test]
async fn what_may_not_be_read_is_said() {
    let shops = Shops::open().await;
    let web = create(&shops.shop, "Deployment", "web", None).await;
    let replica_set = create(&shops.shop, "ReplicaSet", "web-5d9c", Some(&web)).await;
    let mut child = pod_of(&replica_set);
    child["metadata"]["name"] = "web-5d9c-x".into();
    assert_eq!(shops.shop.create_pod(&child).await.code, 201);
    let folder = TempDir::new().unwrap();
    let stranger = kubeconfig(&shops.cluster, folder.path(), "reader");
    allow_namespaces(&shops.client, "reader").await;
    let said = explain(&stranger, "deploy/web --context reader");
    assert_eq!((said.status, said.entries.len()), (Some(2), 0));
    assert!(
        said.notes.contains("deployments.apps \"web\" is forbidden"),
        "{}",
        said.notes
    );

    allow_deployments(&shops.client, "reader").await;
    let said = explain(&stranger, "deploy/web --context reader --cni all");
    assert_eq!(
        (said.status, said.lines()),
        (
            Some(0),
            vec!["Deployment/web in shop: cni_covers_every_node".to_owned()]
        ),
        "{}",
        said.notes
    );
    // Part of the answer is better than none, and is said to be a part.
    let said = explain(&stranger, "deploy,sts --context reader --cni all");
    assert_eq!((said.status, said.entries.len()), (Some(2), 1), "{}", said.notes);
    assert!(
        said.notes
            .contains("Error: statefulsets: statefulsets.apps is forbidden"),
        "{}",
        said.notes
    );
    let said = explain(&stranger, "pod/web-5d9c-x --context reader --cni all");
    assert_eq!(
        said.lines(),
        ["Pod/web-5d9c-x in shop: cni_covers_every_node"],
        "{}",
        said.notes
    );
    assert!(
        said.notes.contains("what owns web-5d9c is not known: "),
        "{}",
        said.notes
    );
}
