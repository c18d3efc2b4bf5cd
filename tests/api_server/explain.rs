//! `outrigger explain` with a live cluster: what the manifests do not say is read from it, with what rights there are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{Cluster, Namespace, Options, create, plugin};

/// A deployment without its namespace object: what the namespace says is the cluster's to tell.
const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
";

/// The namespace as its author wants it to become.
const OPENED: &str = "\
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  labels: {pod-security.kubernetes.io/enforce: privileged}
  annotations: {linkerd.io/inject: enabled}
---
";

/// Nodes, the plugin on one of them, a namespace that refuses `linkerd-init`, and a Linkerd installation.
pub(crate) async fn furnish(client: &Client) {
    let level = [("pod-security.kubernetes.io/enforce", "baseline")];
    Namespace::create_named(client, "shop", &level, &[("linkerd.io/inject", "enabled")]).await;
    Namespace::create_named(client, "linkerd", &[], &[]).await;
    for (name, pool) in [("n1", "mesh"), ("n2", "batch")] {
        let node = json!({"metadata": {"name": name, "labels": {"pool": pool}}});
        create(client, "/api/v1/nodes", &node).await;
    }
    let plugin = plugin(false, &json!({"nodeSelector": {"pool": "mesh"}}));
    create(client, "/apis/apps/v1/namespaces/linkerd/daemonsets", &plugin).await;
    let values = json!({"metadata": {"name": "linkerd-config"}, "data": {"values": "linkerdVersion: edge-26.1.1"}});
    create(client, "/api/v1/namespaces/linkerd/configmaps", &values).await;
}

/// Lets `user` read namespaces, and nothing else.
pub(crate) async fn allow_namespaces(client: &Client, user: &str) {
    let rules = json!([{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}]);
    let role = json!({"metadata": {"name": user}, "rules": rules});
    create(client, "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await;
    let binding = json!({
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    create(
        client,
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        &binding,
    )
    .await;
}

/// The cluster's kubeconfig with a second context, in which one acts as `user`.
pub(crate) fn kubeconfig(cluster: &Cluster, folder: &Path, user: &str) -> PathBuf {
    let text = fs::read_to_string(cluster.kubeconfig()).unwrap();
    let mut configuration: Value = serde_json::from_str(&text).unwrap();
    let mut account = configuration["users"][0].clone();
    account["name"] = user.into();
    account["user"]["as"] = user.into();
    configuration["users"].as_array_mut().unwrap().push(account);
    let context = json!({"name": user, "context": {"cluster": "test", "user": user, "namespace": "shop"}});
    configuration["contexts"].as_array_mut().unwrap().push(context);
    let file = folder.join(format!("{user}.json"));
    fs::write(&file, configuration.to_string()).unwrap();
    file
}

/// Exit status, the first entry, and what was said.
fn explain(kubeconfig: &Path, flags: &[&str], manifest: &str) -> (Option<i32>, Value, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("app.yaml");
    fs::write(&file, manifest).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(["explain", "-o", "json", "--kubeconfig"])
        .arg(kubeconfig)
        .args(flags)
        .arg("-f")
        .arg(file)
        .output()
        .unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), list[0].clone(), said)
}

#[tokio::test]
async fn a_cluster_says_what_the_manifests_do_not() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    furnish(&client).await;
    let folder = TempDir::new().unwrap();
    let own = cluster.kubeconfig();

    let (status, entry, said) = explain(&own, &[], DEPLOYMENT);
    assert_eq!(
        (status, &entry["reason"]),
        (Some(0), &json!("cni_on_some_nodes")),
        "{said}"
    );
    assert_eq!(said, "", "nothing is assumed");
    let trace = entry["trace"].to_string();
    assert!(
        trace.contains("\"Kubernetes 1.36\"") && trace.contains("not for n2"),
        "{trace}"
    );
    let patch = entry["patch"].to_string();
    assert!(patch.contains("linkerd/proxy:edge-26.1.1"), "{patch}");

    let (_, entry, said) = explain(&own, &[], &format!("{OPENED}{DEPLOYMENT}"));
    let reason = |entry: &Value| entry["reason"].clone();
    assert_eq!(
        reason(&entry),
        "init_container_admitted",
        "the manifest's namespace wins: {said}"
    );
    let (status, entry, said) = explain(&own, &["--cni", "none"], DEPLOYMENT);
    assert_eq!(
        (status, reason(&entry)),
        (Some(1), json!("no_redirection_admitted")),
        "{said}"
    );
    let (status, entry, said) = explain(&own, &[], &DEPLOYMENT.replace("shop", "nowhere"));
    assert_eq!(
        (status, reason(&entry)),
        (Some(0), json!("injection_enable_annotation_absent"))
    );
    assert!(said.contains("namespace nowhere is not known"), "{said}");

    with_few_rights(&cluster, &client, folder.path()).await;
}

/// What may not be read is said, and the rest is explained.
async fn with_few_rights(cluster: &Cluster, client: &Client, folder: &Path) {
    allow_namespaces(client, "reader").await;
    let reader = kubeconfig(cluster, folder, "reader");
    let without_namespace = DEPLOYMENT.replace(", namespace: shop", "");
    let (status, entry, said) = explain(&reader, &["--context", "reader"], &without_namespace);
    assert_eq!(entry["namespace"], "shop", "the context's: {said}");
    assert_eq!(
        (status, entry["redirection"].clone()),
        (Some(0), json!("cni")),
        "{said}"
    );
    let warnings = entry["warnings"].to_string();
    assert!(
        warnings.contains("where the CNI plugin is cannot be known: nodes: "),
        "{warnings}"
    );
    assert!(
        said.contains("Cannot find Linkerd: ") && said.contains("no values are given"),
        "{said}"
    );
    assert!(
        said.contains("limitranges are not known, and what they say neither: "),
        "{said}"
    );
    let (_, entry, said) = explain(&reader, &["--context", "reader", "--cni", "all"], &without_namespace);
    assert_eq!(entry["reason"], "cni_covers_every_node", "{said}");
    let values = folder.join("values.yaml");
    fs::write(&values, "cniEnabled: true\n").unwrap();
    let values = ["--context", "reader", "--values", values.to_str().unwrap()];
    let (_, entry, said) = explain(&reader, &values, &without_namespace);
    assert_eq!(entry["reason"], "cni_covers_every_node", "the values say it: {said}");

    let stranger = kubeconfig(cluster, folder, "stranger");
    let (status, entry, said) = explain(&stranger, &["--context", "stranger"], DEPLOYMENT);
    assert_eq!((status, entry), (Some(2), Value::Null), "{said}");
    assert!(said.starts_with("Error: namespace shop: "), "{said}");
    let (status, _, said) = explain(&stranger, &["--context", "nobody"], DEPLOYMENT);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("nobody"), "{said}");
}
