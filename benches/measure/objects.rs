//! Objects that fill a cluster, each with the path that it is created at.

use super::cluster;
use futures::StreamExt;
use kube::Client;
use serde_json::{Value, json};

/// Objects that are created at a time.
const AT_ONCE: usize = 8;

/// An object, and where it is created.
pub(crate) type Object = (String, Value);

/// Creates `objects`, in no order.
pub(crate) async fn create(client: &Client, objects: impl IntoIterator<Item = Object>) {
    let create = |(path, object): Object| async move {
        cluster::create(client, &path, &object).await;
    };
    futures::stream::iter(objects)
        .for_each_concurrent(AT_ONCE, create)
        .await;
}

/// A namespace whose pods are meshed.
pub(crate) fn namespace(name: &str, level: &str) -> Object {
    let labels = json!({"team": "shop", "pod-security.kubernetes.io/enforce": level});
    let annotations = json!({"linkerd.io/inject": "enabled"});
    let object = json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}});
    ("/api/v1/namespaces".to_owned(), object)
}

/// A node with the labels that a cloud gives it.
pub(crate) fn node(index: usize) -> Object {
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
    (
        "/api/v1/nodes".to_owned(),
        json!({"metadata": {"name": name, "labels": labels}}),
    )
}

/// The CNI plugin, on every node.
pub(crate) fn plugin() -> Object {
    let labels = json!({"k8s-app": "linkerd-cni"});
    let container = json!({"name": "install-cni", "image": "registry.example.com/cni:1"});
    let spec = json!({"tolerations": [{"operator": "Exists"}], "containers": [container],
        "volumes": [{"name": "net", "hostPath": {"path": "/etc/cni/net.d"}}]});
    let object = json!({
        "metadata": {"name": "linkerd-cni", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    });
    ("/apis/apps/v1/namespaces/kube-system/daemonsets".to_owned(), object)
}
